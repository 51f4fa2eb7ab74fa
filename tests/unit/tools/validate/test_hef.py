"""The last kind, on the strict stand-in for the vendor's binding."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.standin import chip_here
from tests.standin.make_hef import write_hefs
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import SPEC_FILE, HefRecord, ModelSpec
from whisper_hailo_tools.options import ValidateOptions
from whisper_hailo_tools.validate.validate import validate

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in's machine with a chip of its own kind; no rule of the binding is broken."""
    with chip_here(monkeypatch) as found:
        yield found


def _compiled(model: Path, out: Path) -> Path:
    """The model directory with HEFs, as `compile` leaves it."""
    shutil.copytree(model, out)
    spec = ModelSpec.load(out)
    paths = write_hefs(out, out / "hailo" / "hailo8l")
    records = tuple(
        HefRecord(
            part=part,
            arch="hailo8l",
            file=path.relative_to(out).as_posix(),
            bytes=path.stat().st_size,
            sha256="0" * 64,
            graph_sha256="0" * 64,
            script_sha256="0" * 64,
            calibration_sha256="0" * 64,
            compiler_version="3.33.1",
        )
        for part, path in zip(("encoder", "decoder"), paths, strict=True)
    )
    (out / SPEC_FILE).write_text(replace(spec, hefs=records).to_json())
    return out


def test_hefs_are_run_where_a_chip_is(
    machine: Any, toy_model: Path, toy_checkpoint: Path, speech: Path, tmp_path: Path
) -> None:
    model = _compiled(toy_model, tmp_path / "model")
    options = ValidateOptions(audio=speech, checkpoint=str(toy_checkpoint), windows=1)
    found = {(r.kind, r.part): r for r in validate(model, options).results}
    for part in ("encoder", "decoder"):
        result = found["hef", part]
        assert result.status == "passed"
        assert result.graph == f"{part}_hailo8l.hef"
        assert result.found is not None
        assert result.found.relative < 1e-4  # the stand-in computes in float32
        assert result.tokens is not None
        assert result.tokens.same == result.tokens.of


def test_a_chip_without_hefs(machine: Any, toy_model: Path, speech: Path) -> None:
    found = validate(toy_model, ValidateOptions(audio=speech, windows=1)).results
    reasons = [result.graph for result in found if result.kind == "hef"]
    assert len(reasons) == 2
    assert all("no HEF of this model for hailo8l" in reason for reason in reasons)


def test_hefs_of_another_window_are_not_compared(
    machine: Any, toy_model: Path, toy_checkpoint: Path, speech: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    sizes = HailoOptions(window_s=1, decoder_length=5)
    convert_checkpoint(toy_checkpoint, other, ConvertOptions("none", hailo=sizes))
    hefs = _compiled(other, tmp_path / "hefs")
    model = _compiled(toy_model, tmp_path / "model")
    for name in ("encoder", "decoder"):
        file = f"hailo/hailo8l/{name}_hailo8l.hef"
        shutil.copy(hefs / file, model / file)
    found = validate(model, ValidateOptions(audio=speech, windows=1)).results
    reasons = {result.part: result.graph for result in found if result.kind == "hef"}
    assert reasons["encoder"] == "encoder_hailo8l.hef takes 100 frames, the windows here have 200"
    assert "takes 50 positions and 5 tokens" in reasons["decoder"]
