"""Calibration sets: what is in them, in which order, and what happens when things go wrong."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
import soundfile

from tests.checkpoints import TOY, write_checkpoint
from tests.shared import converted
from tools.tests.unit.conftest import MICRO, RATE_HZ
from whisper_hailo.audio import open_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import AudioError, ModelError, OptionError, OutputError
from whisper_hailo.core.spec import FileRecord, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo_tools.calibrate import make
from whisper_hailo_tools.calibrate import windows as making
from whisper_hailo_tools.calibrate.make import (
    Manifest,
    RowsFile,
    bytes_of_rows,
    calibrate,
    collect_settings,
)
from whisper_hailo_tools.calibrate.windows import (
    Sources,
    find_sources,
    is_usable,
    open_row_maker,
    window_order,
)
from whisper_hailo_tools.options import CalibrationOptions

TEN = CalibrationOptions(count=10)


@pytest.mark.slow
def test_calibrate_encoder_rows_are_the_encoders_input(
    micro: Path, recordings: Path, tmp_path: Path
) -> None:
    result = calibrate(micro, recordings, tmp_path, TEN)
    windows = np.load(result.path)
    assert windows.shape == (10, 1, 200, 80)
    assert windows.dtype == np.float32
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
def test_calibrate_decoder_rows_are_the_hosts_input(
    micro: Path, recordings: Path, tmp_path: Path
) -> None:
    result = calibrate(
        micro, recordings, tmp_path, CalibrationOptions(part="decoder", count=4)
    )
    with np.load(result.path) as archive:
        assert list(archive) == [f"micro_decoder_2s_16/input_layer{i}" for i in (1, 2)]
        features, embeddings = archive.values()
    assert features.shape == (4, 1, 100, 128)
    assert embeddings.shape == (4, 16, 1, 128)
    folder = micro / "decoder_assets" / "micro" / "decoder_tokenization"
    table = np.load(folder / "token_embedding_weight_micro.npy")
    tokens = embeddings[:, :, 0] - np.load(folder / "onnx_add_input_micro.npy")
    spec = ModelSpec.load(micro)
    prefix = Tokenizer.load(micro / "tokenizer.json", spec.tokens).prefix(
        "en", "transcribe"
    )
    for i, token in enumerate(prefix):
        np.testing.assert_allclose(
            tokens[:, i], np.tile(table[token], (4, 1)), atol=1e-5
        )
    distances = [np.abs(table - row).sum(axis=1) for row in tokens[0]]
    ids = np.array([distance.argmin() for distance in distances])
    ends = np.flatnonzero(ids == spec.tokens.eot)
    end = int(ends[0]) if ends.size else 16
    assert np.all(ids[end + 1 :] == 0)


def test_calibrate_with_same_seed_gives_same_bytes(
    micro: Path, recordings: Path, tmp_path: Path
) -> None:
    paths = [calibrate(micro, recordings, tmp_path / name, TEN).path for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    other = calibrate(
        micro, recordings, tmp_path / "c", CalibrationOptions(count=10, seed=1)
    )
    assert other.path.read_bytes() != paths[0].read_bytes()


def test_find_sources_lets_speakers_take_turns(recordings: Path) -> None:
    sources = find_sources(recordings, seed=3)
    assert sources.n_speakers == 3
    for start in (0, 3, 6):
        names = sources.files[start : start + 3]
        speakers = {name.split("/")[1] for name in names}
        assert len(speakers) == 3
    assert sources.files != find_sources(recordings, seed=4).files


@pytest.mark.parametrize(
    "part", ["encoder", pytest.param("decoder", marks=pytest.mark.slow)]
)
def test_calibrate_interrupted_run_continues(
    micro: Path,
    recordings: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
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


def test_calibrate_recognises_a_finished_set(
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


def test_calibrate_skips_bad_recordings(
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
    # As the recipe of tiny has it.
    assert 0 < result.n_windows < result.n_wanted == 4000
    assert result.n_windows == 27  # 3 speakers of 2, 3 and 4 whole seconds
    assert len(np.load(result.path)) == 27


def test_calibrate_without_speech_is_refused(micro: Path, tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="none"):
        calibrate(micro, tmp_path / "none", tmp_path / "out", TEN)
    (tmp_path / "notes.txt").write_text("no audio")
    with pytest.raises(AudioError) as without_files:
        calibrate(micro, tmp_path, tmp_path / "out", TEN)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE_HZ), RATE_HZ)
    with pytest.raises(AudioError, match="speech") as without_speech:
        calibrate(micro, tmp_path, tmp_path / "out", TEN)
    assert str(without_files.value) != str(without_speech.value)


def test_calibrate_on_full_disk_loses_nothing(
    micro: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_after(monkeypatch, 4, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OutputError, match=r"\d+ MB"):
        calibrate(micro, recordings, tmp_path / "out", TEN)
    monkeypatch.undo()
    assert calibrate(micro, recordings, tmp_path / "out", TEN).n_windows == 10
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        calibrate(micro, recordings, tmp_path / "file", TEN)


def test_calibrate_without_forms_says_how_to_get_them(
    recordings: Path, shared: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="--hailo"):
        calibrate(converted(shared, MICRO), recordings, tmp_path / "out", TEN)


@pytest.mark.parametrize("wrong", [{"part": "both"}, {"count": 0}, {"count": -3}])
def test_options_that_are_wrong_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"--(part|count) is "):
        CalibrationOptions(**wrong)


def _break_after(
    monkeypatch: pytest.MonkeyPatch, n_rows: int, error: BaseException
) -> None:
    """Every row is saved; the one after `n_rows` fails."""
    append = make.RowsFile.append
    counter = iter(range(10**6))

    def failing(self: make.RowsFile, row: Any) -> None:
        if next(counter) >= n_rows:
            raise error
        append(self, row)

    monkeypatch.setattr(make, "SAVE_EVERY_S", -1.0)
    monkeypatch.setattr(make.RowsFile, "append", failing)


FRAME_RATE_HZ = 16_000
SOUND = (np.random.default_rng(0).standard_normal(FRAME_RATE_HZ) * 0.1).astype(
    np.float32
)


@pytest.fixture(scope="module")
def toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("rows") / "toy")
    return converted(
        shared, checkpoint, ConvertOptions("none", hailo=HailoOptions(2, 6))
    )


@pytest.mark.parametrize("n_mels", [80, 128])
def test_row_maker_of_encoder_has_frames_in_order(toy: Path, n_mels: int) -> None:
    """A second of sound, and one of silence."""
    spec = ModelSpec.load(toy)
    spec = replace(spec, dims=replace(spec.dims, n_mels=n_mels))
    plan = WindowPlan.make(spec.dims, 2.0)
    with open_row_maker(toy, spec, spec.hailo_form("encoder"), plan, "en") as rows:
        (row,) = rows(SOUND)
    assert row.shape == (1, 200, n_mels)
    assert row.flags.c_contiguous
    mel = log_mel(np.concatenate([SOUND, np.zeros(FRAME_RATE_HZ, np.float32)]), n_mels)
    np.testing.assert_array_equal(row[0], mel.T)


class Engine:
    """Encoder and decoder of one: gives features that are known."""

    FEATURES = np.arange(100 * 64, dtype=np.float32).reshape(1, 100, 64)

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    silence_keys = None

    def encode(self, mel: FloatArray) -> FloatArray:
        assert mel.shape == (1, 80, 200)
        return self.FEATURES

    def start(self, features: FloatArray, paddings: Any) -> str:
        assert features is self.FEATURES
        assert paddings[0].pad_to == TOY.n_audio_ctx
        return "begun"


@pytest.mark.parametrize(
    ("encoded_windows", "ids"),
    [
        ((21, 22), [11, 12, 21, 22, 10, 0]),
        ((21, 22, 23, 24, 25), [11, 12, 21, 22, 23, 24]),
    ],
)
def test_row_maker_of_decoder_has_text_and_positions(
    toy: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoded_windows: tuple[int, ...],
    ids: list[int],
) -> None:
    """Prefix, text and the end, then token 0; on an 8 or 8L the host adds the positions."""
    spec = ModelSpec.load(toy)

    class Loop:
        def __init__(self, _: object, __: object, options: Any) -> None:
            assert options.language == "de"

        def run(self, state: str, tasks: Any) -> Any:
            assert state == "begun"
            assert tasks[0].prompt == (11, 12)
            return [SimpleNamespace(tokens=encoded_windows)]

    class Words:
        @staticmethod
        def load(*_: object) -> Any:
            return Words()

        def prefix(self, language: str, task: str) -> tuple[int, ...]:
            assert language == "de"
            assert task == "transcribe"
            return (11, 12)

    for name, interrupted in (
        ("OnnxEncoder", Engine),
        ("CachedDecoder", Engine),
        ("Tokenizer", Words),
    ):
        monkeypatch.setattr(making, name, interrupted)
    monkeypatch.setattr(making, "DecodingLoop", Loop)
    plan = WindowPlan.make(spec.dims, 2.0)
    form = spec.hailo_form("decoder")
    with open_row_maker(toy, spec, form, plan, "de") as rows:
        features, embeddings = rows(SOUND)
    np.testing.assert_array_equal(features, Engine.FEATURES)
    table, places = (
        np.load(toy / form.assets[n]) for n in ("token_embedding", "position_rows")
    )
    assert embeddings.shape == (6, 1, 64)
    for position, token in enumerate(ids):
        np.testing.assert_array_equal(
            embeddings[position, 0], table[token] + places[position]
        )


def test_collect_settings_cover_all_that_rows_depend_on(toy: Path) -> None:
    spec = ModelSpec.load(toy)
    sources = Sources(Path("speech"), ("a.wav",), 1, "0" * 64)
    form = spec.hailo_form("decoder")
    options = CalibrationOptions(part="decoder", count=3)
    first = collect_settings(spec, form, options, sources, 3)
    assert first == collect_settings(spec, form, options, sources, 3)
    name = next(iter(spec.files))
    changed = replace(spec, files={**spec.files, name: FileRecord(1, "0" * 64)})
    others = [
        collect_settings(changed, form, options, sources, 3),
        collect_settings(spec, replace(form, window_s=3), options, sources, 3),
        collect_settings(spec, form, replace(options, language="de"), sources, 3),
        collect_settings(spec, form, replace(options, seed=1), sources, 3),
        collect_settings(
            spec, form, options, replace(sources, listing_sha256="1" * 64), 3
        ),
        collect_settings(spec, form, options, sources, 4),
        collect_settings(spec, spec.hailo_form("encoder"), options, sources, 3),
    ]
    assert all(other != first for other in others)
    assert len({str(other) for other in others}) == len(others)


SHAPE = (1, 2, 3)
ROWS = np.arange(24, dtype=np.float32).reshape(4, *SHAPE)


def test_find_sources_takes_folders_as_speakers(tmp_path: Path) -> None:
    for name in (
        "anna/1.wav",
        "anna/2.flac",
        "anna/3.wav",
        "berta/1.wav",
        "berta/notes.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    loaded = find_sources(tmp_path, seed=0)
    assert loaded.n_speakers == 2
    assert len(loaded.files) == 4
    assert {name.split("/")[0] for name in loaded.files[:2]} == {"anna", "berta"}
    before = loaded.listing_sha256
    (tmp_path / "anna" / "1.wav").write_bytes(b"longer")
    assert find_sources(tmp_path, seed=0).listing_sha256 != before


def test_window_order_depends_on_seed_and_file() -> None:
    orders = [
        window_order(name, 50, seed) for name, seed in (("a", 0), ("a", 1), ("b", 0))
    ]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert window_order("a", 50, 0) == orders[0]


@pytest.mark.parametrize(
    ("value", "n_samples", "usable"),
    [
        (0.001, 8000, True),
        (-0.001, 8000, True),
        (0.0009, 8000, False),
        (0.5, 7999, False),
    ],
)
def test_is_usable_needs_length_and_loudness(
    value: float, n_samples: int, usable: bool
) -> None:
    assert is_usable(np.full(n_samples, value)) is usable


def test_rows_file_drops_rows_behind_the_kept_ones(tmp_path: Path) -> None:
    """What was written after the manifest was saved is written again."""
    path = tmp_path / "rows"
    whole = tmp_path / "whole"
    with RowsFile(path, SHAPE, 0) as file:
        for row in ROWS:
            file.append(row)
    assert path.stat().st_size == bytes_of_rows(SHAPE, 4)
    with RowsFile(path, SHAPE, 2) as file:
        file.append(ROWS[3])
        file.finish(3)
    with RowsFile(whole, SHAPE, 0) as file:
        for row in ROWS[[0, 1, 3]]:
            file.append(row)
        file.finish(3)
    assert path.read_bytes() == whole.read_bytes()
    np.testing.assert_array_equal(np.load(path), ROWS[[0, 1, 3]])


def test_manifest_load_of_another_set_is_none(tmp_path: Path) -> None:
    Manifest({"seed": 0}, n_rows=7).save(tmp_path / "m.json")
    loaded = Manifest.load(tmp_path / "m.json", {"seed": 0})
    assert loaded is not None
    assert loaded.n_rows == 7
    assert Manifest.load(tmp_path / "m.json", {"seed": 1}) is None
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "m.json").write_text(text.replace('"version": 2', '"version": 1'))
    assert Manifest.load(tmp_path / "m.json", {"seed": 0}) is None
