"""Windows of calibration sets as the graph takes them, and which of them serve for what."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import TOY, write_checkpoint
from tests.shared import converted
from whisper_hailo.convert.hailo_forms import FixedSizes, decoder_form, encoder_form
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import ModelSource, ModelSpec, SpecialTokens
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.emulate import make
from whisper_hailo_tools.emulate.make import Noise, WindowFile, emulate_part
from whisper_hailo_tools.options import EmulateOptions

RNG = np.random.default_rng(0)
SIZES = FixedSizes(2, 7)
ENCODER = encoder_form(TOY, SIZES)
DECODER = decoder_form(TOY, SIZES, "toy")
SPEC = ModelSpec(
    "toy", TOY, SpecialTokens(sot=1, eot=0), "none", "none", (), ModelSource("toy")
)
NET = "toy_decoder_2s_7"
MELS = RNG.standard_normal((6, 1, 200, 80)).astype(np.float32)
FEATURES = RNG.standard_normal((6, 1, 100, 64)).astype(np.float32)
EMBEDDINGS = RNG.standard_normal((6, 7, 1, 64)).astype(np.float32)


def test_window_file_moves_channels_first(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", MELS)
    windows = WindowFile(tmp_path / "e.npy", SPEC, ENCODER, ("x.1",))
    assert windows.n_windows == 6
    first, second = windows.read(2, 4)
    for window, row in ((first, MELS[2]), (second, MELS[3])):
        np.testing.assert_array_equal(window["x.1"][0, :, 0], row[0].T)
    assert len(list(windows.read(4, 20))) == 2


def test_window_file_transposes_embeddings_only(tmp_path: Path) -> None:
    rows = {f"{NET}/input_layer1": FEATURES, f"{NET}/input_layer2": EMBEDDINGS}
    np.savez(tmp_path / "d.npz", **rows)
    names = ("encoder_hidden_states", "embedded.nchw")
    (window,) = WindowFile(tmp_path / "d.npz", SPEC, DECODER, names).read(5, 6)
    np.testing.assert_array_equal(window[names[0]], FEATURES[5])
    assert window[names[1]].shape == (1, 64, 7, 1)
    np.testing.assert_array_equal(window[names[1]][0, :, :, 0], EMBEDDINGS[5, :, 0].T)


@pytest.mark.parametrize(
    "wrong", [MELS[:, :, :100], MELS[0, 0, 0, 0]], ids=["short", "number"]
)
def test_window_file_of_unfit_set_says_how_to_make_one(
    tmp_path: Path, wrong: FloatArray
) -> None:
    np.save(tmp_path / "e.npy", wrong)
    with pytest.raises(ModelError, match="--part encoder"):
        WindowFile(tmp_path / "e.npy", SPEC, ENCODER, ("x.1",))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_window_file_maps_or_unpacks_archives(tmp_path: Path, save: Any) -> None:
    rows = {
        f"{NET}/input_layer1": np.asfortranarray(FEATURES),
        f"{NET}/input_layer2": EMBEDDINGS,
    }
    save(tmp_path / "d.npz", **rows)
    names = ("encoder_hidden_states", "embedded.nchw")
    windows_read = list(WindowFile(tmp_path / "d.npz", SPEC, DECODER, names).read(1, 3))
    for window, features in zip(windows_read, FEATURES[1:3], strict=True):
        np.testing.assert_array_equal(window[names[0]], features)


@pytest.fixture(scope="module")
def _toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("emulated") / "toy")
    return converted(
        shared, checkpoint, ConvertOptions("none", hailo=HailoOptions(2, 16))
    )


@pytest.fixture
def toy(_toy: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to; the graphs are shared."""
    out = tmp_path / "toy"
    shutil.copytree(_toy, out, copy_function=lambda a, b: Path(b).hardlink_to(a))
    return out


class Emulated:
    """Notes which windows are for what; nothing is computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statistics: list[float] = []
        self.noise: list[float] = []
        monkeypatch.setattr(make, "collect", self._collect)
        monkeypatch.setattr(make, "emulated", self._emulated)
        monkeypatch.setattr(make, "measure_noise", self._measure)

    @staticmethod
    def _first(windows: Iterator[Any]) -> list[float]:
        return [float(window["x.1"].flat[0]) for window in windows]

    def _collect(self, _: Any, __: Any, windows: Iterator[Any], *, threads: int) -> str:
        self.statistics = self._first(windows)
        return "statistics"

    def _emulated(self, model: Any, _: Any, __: Any, statistics: str) -> Any:
        assert statistics == "statistics"
        return model

    def _measure(
        self, _: Any, __: Any, ___: Any, windows: Iterator[Any], *, threads: int
    ) -> Noise:
        self.noise = self._first(windows)
        return Noise((), (), len(self.noise))


def _numbered(path: Path, n_windows: int) -> Path:
    """Windows that are nothing but their number."""
    numbers = np.arange(n_windows, dtype=np.float32)[:, None, None, None]
    np.save(path, np.broadcast_to(numbers, (n_windows, 1, 200, 80)))
    return path


def test_emulate_measures_noise_on_other_windows(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulation = Emulated(monkeypatch)
    options = EmulateOptions(
        plan="adds16", calibration=_numbered(tmp_path / "set.npy", 10), count=4
    )
    result = emulate_part(toy, options)
    assert emulation.statistics == [0, 1, 2, 3]
    assert emulation.noise == [4, 5, 6, 7, 8, 9]
    assert result.n_windows == 4
    assert result.held_out
    record = json.loads(result.record.read_text())
    form = ModelSpec.load(toy).hailo[0]
    assert record["sha256"] == sha256(result.path)
    assert record["graph_sha256"] == sha256(toy / form.file)
    assert record["plan"] == "adds16"
    assert record["noise_windows"] == 6
    assert record["held_out"]
    alone = replace(options, calibration=_numbered(tmp_path / "one.npy", 1))
    lonely = emulate_part(toy, alone)
    assert emulation.statistics == [0]
    assert emulation.noise == [0]
    assert not lonely.held_out


def test_emulate_uses_the_users_or_the_chips_script(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Emulated(monkeypatch)
    user_script = tmp_path / "mine.alls"
    user_script.write_text("quantization_param({*}, precision_mode=a16_w16)\n")
    windows = _numbered(tmp_path / "set.npy", 2)
    result = emulate_part(toy, EmulateOptions(script=user_script, calibration=windows))
    assert result.plan.name == "mine"
    assert result.plan.of("conv1").weights == 16

    def written(arch: str) -> str:
        result = emulate_part(toy, EmulateOptions(arch=arch, calibration=windows))
        return str(json.loads(result.record.read_text())["script"])

    # In the vendor's scripts tiny's norms are in pieces on the 10H alone, and tiny.en's encoder is
    # the one that the compiler searches for as long as it can.
    pieces = "layer_norm_decomposition"
    effort = "compiler_optimization_level=max"
    assert pieces not in written("hailo10h")
    assert effort in written("hailo10h")
    spec = ModelSpec.load(toy)
    tokens = replace(spec.tokens, languages={"en": 12})
    (toy / "model.json").unlink()
    (toy / "model.json").write_text(replace(spec, tokens=tokens).to_json())
    assert pieces in written("hailo10h")
    assert effort not in written("hailo10h")
    assert pieces not in written("hailo8")


def test_emulate_draws_windows_in_the_language(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulation = Emulated(monkeypatch)
    languages = []

    def calibrate(directory: Path, audio: Path, out: Path, options: Any) -> Any:
        languages.append((directory, audio, options))
        return SimpleNamespace(path=_numbered(tmp_path / "set.npy", options.count))

    monkeypatch.setattr(make, "calibrate", calibrate)
    emulate_part(
        toy, EmulateOptions(plan="all8", audio=tmp_path, count=5, language="German")
    )
    ((directory, audio, options),) = languages
    assert directory == toy
    assert audio == tmp_path
    assert options.part == "encoder"
    assert options.language == "de"
    assert len(emulation.statistics) == 5
    assert len(emulation.noise) == 16
