"""HEFs that fit a machine's chip, and reasons where none does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hef_files import SPEC, encoder, written
from whisper_hailo.backends.hailo import binding, hef_catalog, isolated_probe
from whisper_hailo.backends.hailo.chip import ChipFacts
from whisper_hailo.backends.hailo.hef_catalog import (
    PAIRS,
    KnownHefs,
    fitting_encoder,
    matching_hef,
    needed_hef,
)
from whisper_hailo.backends.select import find_npu
from whisper_hailo.core.errors import DeviceError, ModelError, NoDeviceError
from whisper_hailo.core.spec import HefRecord, ModelSpec

RECORD = HefRecord(
    part="encoder", arch="hailo8l", file="x.hef", bytes=1, sha256="x", graph_sha256="x",
    script_sha256="x", calibration_sha256="x", compiler_version="3.33.0",
)  # fmt: skip
OWN = replace(SPEC, hefs=(RECORD,))


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
