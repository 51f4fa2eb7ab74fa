"""HEFs that fit a machine's chip, those that `auto` takes, and reasons where none does."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.hef_files import SPEC, encoder, written
from tests.standin.make_hef import decoder_network, encoder_network, hef
from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.fixed import OnnxFixedRunner
from whisper_hailo.backends.hailo import (
    binding,
    hef_catalog,
    isolated_probe,
    short_windows,
)
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.backends.hailo.hef_catalog import (
    PAIRS,
    KnownHefs,
    fitting_encoder,
    matching_hef,
    needed_hef,
)
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.backends.select import find_npu, select
from whisper_hailo.core.errors import DeviceError, ModelError, NoDeviceError
from whisper_hailo.core.spec import HefRecord, ModelSpec

RECORD = HefRecord(
    part="encoder", arch="hailo8l", file="x.hef", bytes=1, sha256="x", graph_sha256="x",
    script_sha256="x", calibration_sha256="x", compiler_version="3.33.0",
)  # fmt: skip
OWN = replace(SPEC, hefs=(RECORD,))


@pytest.fixture
def directory(hailo_directory: Path, hefs: Hefs, tmp_path: Path) -> Path:
    """The toy with an encoder HEF of 2 s in it."""
    copy = tmp_path / "model"
    shutil.copytree(hailo_directory, copy)
    shutil.copy(hefs.encoder, copy / "own.hef")
    return copy


@pytest.fixture
def spec(directory: Path) -> ModelSpec:
    """Description of the directory, which lists the HEF."""
    record = HefRecord(
        part="encoder", arch="hailo8l", file="own.hef", bytes=1, sha256="x", graph_sha256="x",
        script_sha256="x", calibration_sha256="x", compiler_version="3.33.0",
    )  # fmt: skip
    return replace(ModelSpec.load(directory), hefs=(record,))


def _reason(
    directory: Path, spec: ModelSpec, window_s: float | None, **options: str
) -> str:
    return select(directory, spec, EngineOptions(**options), window_s=window_s).reasons[
        0
    ]  # type: ignore[arg-type]


def test_select_auto_takes_a_hef_of_the_window(
    trial_machine: Any,
    directory: Path,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(short_windows, "SHORTEST_S", 2.0)  # as long as a toy's window
    for window_s in (None, 2, 2.0):
        assert _reason(directory, spec, window_s).startswith(
            "encoder hef-hailo8l: on hailo8l"
        )


def test_select_auto_stays_on_cpu_for_another_window(
    trial_machine: Any, directory: Path, spec: ModelSpec
) -> None:
    assert _reason(directory, spec, 1) == (
        "encoder onnx-fp32: on the CPU, hailo8l 0000:01:00.0, "
        "but own.hef takes 2 s, --window is 1 s"
    )
    assert _reason(directory, spec, 1, encoder_backend="hailo").startswith(
        "encoder hef-"
    )


def test_fitting_encoder_needs_enough_decoder_positions(
    directory: Path, spec: ModelSpec
) -> None:
    found, why_not = fitting_encoder(directory, spec, "hailo8l", n_positions=50)
    assert found is None
    assert why_not == "own.hef gives 100 positions, the decoder takes 50"
    assert fitting_encoder(directory, spec, "hailo8l", n_positions=100)[0]


def test_fitting_encoder_skips_broken_and_foreign_hefs(
    directory: Path, spec: ModelSpec
) -> None:
    broken = directory / "broken.hef"
    broken.write_bytes((directory / "own.hef").read_bytes()[:100])
    (record,) = spec.hefs
    damaged = replace(spec, hefs=(replace(record, file="broken.hef"),))
    found, why_not = fitting_encoder(directory, damaged, "hailo8l")
    assert found is None
    assert str(broken) in why_not
    wide = replace(spec, dims=replace(spec.dims, d_model=128))
    assert "has width 64" in fitting_encoder(directory, wide, "hailo8l")[1]
    second = replace(spec, hefs=(replace(record, file="broken.hef"), record))
    assert fitting_encoder(directory, second, "hailo8l")[0] == directory / "own.hef"


def test_matching_hef_skips_unfit_and_missing_hefs(
    directory: Path, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    (own,) = spec.hefs
    for name in ("other.hef", "larger.hef"):
        shutil.copy(directory / own.file, directory / name)
    others = (
        replace(own, part="decoder", file="other.hef"),
        replace(own, arch="hailo10h", file="other.hef"),
        replace(own, file="gone.hef"),
    )
    assert (
        matching_hef(directory, replace(spec, hefs=others), "hailo8l", "encoder")
        is None
    )
    with_own = replace(spec, hefs=(*others, own))
    assert (
        matching_hef(directory, with_own, "hailo8l", "encoder") == directory / own.file
    )
    # An 8 takes both; the file for itself is the better one.
    both = replace(spec, hefs=(own, replace(own, arch="hailo8", file="larger.hef")))
    assert (
        matching_hef(directory, both, "hailo8", "encoder") == directory / "larger.hef"
    )
    assert matching_hef(directory, both, "hailo8l", "encoder") == directory / own.file


def test_fitting_encoder_finds_the_half_of_a_joint_file(
    directory: Path, spec: ModelSpec
) -> None:
    both = directory / "both.hef"
    both.write_bytes(
        hef("hailo8l", [decoder_network(directory), encoder_network(directory)])
    )
    (record,) = spec.hefs
    joint = replace(spec, hefs=(replace(record, file="both.hef"),))
    assert fitting_encoder(directory, joint, "hailo8l", 2.0, 100) == (both, "")


def test_hef_encoder_and_runner_run_from_one_file(
    machine: Any, hailo_directory: Path, hefs: Hefs, tmp_path: Path
) -> None:
    """The chip has each of the two networks once."""
    spec = ModelSpec.load(hailo_directory)
    both = tmp_path / "both.hef"
    networks = [decoder_network(hailo_directory), encoder_network(hailo_directory)]
    both.write_bytes(hef("hailo8l", networks))
    mel = mel_of(1)
    tokens = np.random.default_rng(0).integers(0, 200, (1, 16))
    with HefEncoder(hefs.encoder, spec) as alone:
        expected = alone.encode(mel)
    form = spec.hailo_form("decoder")
    with (
        OnnxFixedRunner(hailo_directory / form.file, spec) as cpu,
        HefEncoder(both, spec) as encoder,
        HefRunner(both, spec, hailo_directory) as decoder,
    ):
        for _ in range(2):
            np.testing.assert_array_equal(encoder.encode(mel), expected)
            got = decoder.run(tokens, expected)
            assert np.abs(got - cpu.run(tokens, expected)).max() < 1e-5


def set_chips(
    monkeypatch: pytest.MonkeyPatch, *archs: str, why: str | None = None
) -> None:
    found = [ChipFacts(f"000{i}", arch) for i, arch in enumerate(archs)]
    monkeypatch.setattr(binding, "why_no_binding", lambda: why)
    for module in (hef_catalog, isolated_probe):
        monkeypatch.setattr(module, "chips", lambda: found)


def test_find_npu_takes_the_first_known_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chips(monkeypatch, "hailo8", "hailo8l")
    assert find_npu() == ("hailo8", "hailo8 0000")
    set_chips(monkeypatch, "unknown", "hailo8")
    assert find_npu() == (None, "the Hailo chip 0000 does not report its type")
    set_chips(monkeypatch)
    assert find_npu() == (None, "no Hailo chip")
    set_chips(monkeypatch, "hailo8", why="no binding")
    assert find_npu() == (None, "no binding")


def test_find_npu_failure_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    set_chips(monkeypatch)

    def fail() -> list[ChipFacts]:
        raise DeviceError("it failed (x); see doctor; or not")

    monkeypatch.setattr(isolated_probe, "chips", fail)
    assert find_npu() == (None, "it failed (x)")


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_needed_hef_is_for_this_machines_chip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    path = written(tmp_path, encoder())
    spec = replace(SPEC, hefs=(replace(RECORD, part=part),))
    for arch in ("hailo8l", "hailo8"):
        set_chips(monkeypatch, arch)
        assert needed_hef(tmp_path, spec, part) == path
    for arch in ("hailo10h", "unknown"):
        set_chips(monkeypatch, arch)
        with pytest.raises(
            ModelError,
            match=rf"\b{part} .*\btiny .*\b{arch};.*--{part}.*fetch-hef .*--arch {arch}",
        ):
            needed_hef(tmp_path, spec, part)
    set_chips(monkeypatch)
    with pytest.raises(NoDeviceError, match=r"doctor.*--encoder-backend onnx"):
        needed_hef(tmp_path, spec, part)


@pytest.mark.parametrize(
    ("wanted", "why_not"),
    [
        ((10.0, 500), ""),
        ((), ""),
        ((10.0 + 1e-9,), ""),
        ((10.01,), "x.hef takes 10 s, --window is 10.01 s"),
        ((None, 501), ""),
        ((None, 499), "x.hef gives 500 positions, the decoder takes 499"),
        ((5, 499), "x.hef takes 10 s, --window is 5 s"),
    ],
)
def test_fitting_encoder_fits_window_and_positions(
    tmp_path: Path, wanted: tuple[Any, ...], why_not: str
) -> None:
    path = written(tmp_path, encoder(1000))
    assert fitting_encoder(tmp_path, OWN, "hailo8l", *wanted) == (
        None if why_not else path,
        why_not,
    )


def test_fitting_encoder_gives_a_reason_for_each_hef(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    assert fitting_encoder(tmp_path, SPEC, "hailo8l") == (None, "no HEF of tiny")
    written(tmp_path, encoder(1000))
    (tmp_path / "broken.hef").write_bytes(b"x")
    spec = replace(SPEC, hefs=(replace(RECORD, file="broken.hef"), RECORD))
    _, why_not = fitting_encoder(tmp_path, spec, "hailo8l", 5)
    broken, small = why_not.split("; ")
    assert broken.endswith("it has 1 bytes, less than a HEF's header")
    assert small == "x.hef takes 10 s, --window is 5 s"


def _of(name: str) -> ModelSpec:
    return replace(SPEC, source=replace(SPEC.source, name=name))


@pytest.mark.parametrize(
    "known", PAIRS, ids=lambda known: f"{known.arch} {known.variant}"
)
@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_matching_hef_finds_fetched_by_chip_and_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, known: KnownHefs, part: str
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    spec = _of(f"openai/whisper-{known.variant}")
    assert matching_hef(tmp_path, spec, known.arch, part) is None
    path = known.folder / getattr(known, part)
    path.mkdir(parents=True)
    assert matching_hef(tmp_path, spec, known.arch, part) is None, "a folder is no file"
    path.rmdir()
    path.touch()
    assert matching_hef(tmp_path, spec, known.arch, part) == path
    assert (
        matching_hef(tmp_path, _of("openai/whisper-medium"), known.arch, part) is None
    )
    assert matching_hef(tmp_path, spec, "hailo15h", part) is None
