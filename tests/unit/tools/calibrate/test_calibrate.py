"""Calibration sets: what is in them, in which order, and what happens when things go wrong."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.tools.conftest import MICRO, RATE_HZ
from whisper_hailo.audio import open_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import AudioError, ModelError, OptionError, OutputError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo_tools.calibrate import make
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.calibrate.windows import find_sources
from whisper_hailo_tools.options import CalibrationOptions

TEN = CalibrationOptions(count=10)


@pytest.mark.slow
def test_encoder_windows_are_what_the_encoder_hears(
    micro: Path, recordings: Path, tmp_path: Path
) -> None:
    result = calibrate(micro, recordings, tmp_path, TEN)
    windows = np.load(result.path)
    assert (windows.shape, windows.dtype) == ((10, 1, 200, 80), np.float32)
    assert result.path.name == "micro_encoder_2s_calibration.npy"
    used = json.loads(result.manifest.read_text())["used"]
    row = 0
    for entry in used:
        with open_audio(recordings / entry["file"]) as stream:
            blocks = list(stream.blocks(RATE_HZ))  # 2 s less the free second
        for index in entry["windows"]:
            mel = log_mel(pad_or_trim(blocks[index], 2 * RATE_HZ))
            np.testing.assert_array_equal(windows[row, 0], mel.T)
            row += 1
    assert row == 10


@pytest.mark.slow
def test_decoder_rows_are_what_the_host_feeds(
    micro: Path, recordings: Path, tmp_path: Path
) -> None:
    result = calibrate(micro, recordings, tmp_path, CalibrationOptions(part="decoder", count=4))
    with np.load(result.path) as archive:
        assert list(archive) == [f"micro_decoder_2s_16/input_layer{i}" for i in (1, 2)]
        features, embeddings = archive.values()
    assert (features.shape, embeddings.shape) == ((4, 1, 100, 128), (4, 16, 1, 128))
    folder = micro / "decoder_assets" / "micro" / "decoder_tokenization"
    table = np.load(folder / "token_embedding_weight_micro.npy")
    tokens = embeddings[:, :, 0] - np.load(folder / "onnx_add_input_micro.npy")
    spec = ModelSpec.load(micro)
    prefix = Tokenizer.load(micro / "tokenizer.json", spec.tokens).prefix("en", "transcribe")
    for i, token in enumerate(prefix):
        np.testing.assert_allclose(tokens[:, i], np.tile(table[token], (4, 1)), atol=1e-5)
    ids = np.array([np.abs(table - row).sum(axis=1).argmin() for row in tokens[0]])
    end = int(np.flatnonzero(ids == spec.tokens.eot)[0]) if spec.tokens.eot in ids else 16
    assert np.all(ids[end + 1 :] == 0)


def test_the_same_seed_gives_the_same_bytes(micro: Path, recordings: Path, tmp_path: Path) -> None:
    paths = [calibrate(micro, recordings, tmp_path / name, TEN).path for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    other = calibrate(micro, recordings, tmp_path / "c", CalibrationOptions(count=10, seed=1))
    assert other.path.read_bytes() != paths[0].read_bytes()


def test_speakers_take_turns(recordings: Path) -> None:
    sources = find_sources(recordings, seed=3)
    assert sources.n_speakers == 3
    for start in (0, 3, 6):
        assert len({name.split("/")[1] for name in sources.files[start : start + 3]}) == 3
    assert sources.files != find_sources(recordings, seed=4).files


@pytest.mark.parametrize("part", ["encoder", pytest.param("decoder", marks=pytest.mark.slow)])
def test_an_interrupted_run_goes_on(
    micro: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    options = CalibrationOptions(part=part, count=8)
    whole = calibrate(micro, recordings, tmp_path / "whole", options)
    _break_after(monkeypatch, 7, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        calibrate(micro, recordings, tmp_path / "cut", options)
    monkeypatch.undo()
    manifest = json.loads((tmp_path / "cut" / whole.manifest.name).read_text())
    assert 0 < manifest["n_rows"] < 8
    result = calibrate(micro, recordings, tmp_path / "cut", options)
    assert result.resumed
    assert result.path.read_bytes() == whole.path.read_bytes()
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == sorted(
        (whole.path.name, whole.manifest.name)
    )


def test_a_finished_set_is_recognised(
    micro: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = calibrate(micro, recordings, tmp_path, TEN)
    before = first.path.stat().st_mtime_ns
    _break_after(monkeypatch, 0, AssertionError("nothing is to be written"))
    again = calibrate(micro, recordings, tmp_path, TEN)
    assert again.resumed
    assert again.path.stat().st_mtime_ns == before
    monkeypatch.undo()
    first.path.write_bytes(b"cut short")
    repaired = calibrate(micro, recordings, tmp_path, TEN)
    assert np.load(repaired.path).shape[0] == 10


def test_a_bad_recording_does_not_stop_it(
    micro: Path, recordings: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "speech"
    shutil.copytree(recordings, folder)
    (folder / "broken.wav").write_bytes(b"RIFF is not enough")
    (folder / ".hidden.wav").write_bytes(b"")
    soundfile.write(folder / "silent.wav", np.zeros(RATE_HZ * 3), RATE_HZ)
    result = calibrate(micro, folder, tmp_path / "out", CalibrationOptions())
    assert set(result.skipped) == {"broken.wav"}
    assert "broken.wav" in caplog.text
    assert 0 < result.n_windows < result.n_wanted == 4000  # as the recipe of tiny has it
    assert result.n_windows == 27  # 3 speakers of 2, 3 and 4 whole seconds
    assert len(np.load(result.path)) == 27


def test_folders_without_speech_are_refused(micro: Path, tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="is no folder"):
        calibrate(micro, tmp_path / "none", tmp_path / "out", TEN)
    (tmp_path / "notes.txt").write_text("no audio")
    with pytest.raises(AudioError, match="no file that looks like audio"):
        calibrate(micro, tmp_path, tmp_path / "out", TEN)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE_HZ), RATE_HZ)
    with pytest.raises(AudioError, match="1 audio files and no usable speech"):
        calibrate(micro, tmp_path, tmp_path / "out", TEN)


def test_a_full_disk_is_one_line_and_no_loss(
    micro: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_after(monkeypatch, 4, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OutputError, match=r"No space left on device.*MB free"):
        calibrate(micro, recordings, tmp_path / "out", TEN)
    monkeypatch.undo()
    assert calibrate(micro, recordings, tmp_path / "out", TEN).n_windows == 10
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        calibrate(micro, recordings, tmp_path / "file", TEN)


def test_a_model_without_forms_says_how_to_get_them(recordings: Path, tmp_path: Path) -> None:
    convert_checkpoint(MICRO, tmp_path / "plain", ConvertOptions("none"))
    with pytest.raises(ModelError, match="convert CHECKPOINT OUT --hailo"):
        calibrate(tmp_path / "plain", recordings, tmp_path / "out", TEN)


@pytest.mark.parametrize("wrong", [{"part": "both"}, {"count": 0}, {"count": -3}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"--(part|count) is "):
        CalibrationOptions(**wrong)


def _break_after(monkeypatch: pytest.MonkeyPatch, n_rows: int, error: BaseException) -> None:
    """Every row is saved; the one after `n_rows` fails."""
    append = make.RowsFile.append
    counter = iter(range(10**6))

    def failing(self: make.RowsFile, row: Any) -> None:
        if next(counter) >= n_rows:
            raise error
        append(self, row)

    monkeypatch.setattr(make, "SAVE_EVERY_S", -1.0)
    monkeypatch.setattr(make.RowsFile, "append", failing)
