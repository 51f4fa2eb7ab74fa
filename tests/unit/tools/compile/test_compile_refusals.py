"""What cannot be built: a wrong compiler, sets that do not fit, changed graphs, wrong options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.core.errors import DeviceError, ModelError, OptionError
from whisper_hailo_tools.compile import compile_part
from whisper_hailo_tools.options import CompileOptions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "version", "expected"),
    [
        ("hailo8", "3.30.0", "3.30.0 does not compile for hailo8, expected 3.31 or newer"),
        ("hailo8l", "5.0.0", "5.0.0 does not compile for hailo8l"),
        ("hailo10h", "3.33.0", "3.33.0 does not compile for hailo10h, expected 5.0 or newer"),
        ("hailo8", "unknown", "no readable version"),
    ],
)
def test_a_compiler_of_the_wrong_version(
    *,
    model: Path,
    encoder: CompileOptions,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    version: str,
    expected: str,
) -> None:
    monkeypatch.setenv("STANDIN_VERSION", version)
    with pytest.raises(DeviceError, match=expected):
        compile_part(model, replace(encoder, arch=arch))


@pytest.mark.slow
def test_a_missing_or_broken_compiler(
    model: Path, encoder: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAIL", "import:broken")
    with pytest.raises(DeviceError, match=r"cannot be loaded .*libhailort"):
        compile_part(model, encoder)
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(DeviceError, match=r"is not installed for .*--python.*--bundle"):
        compile_part(model, encoder)
    with pytest.raises(DeviceError, match=r"cannot start /nowhere/python"):
        compile_part(model, replace(encoder, python="/nowhere/python"))


def test_calibration_sets_that_do_not_fit(
    model: Path, encoder: CompileOptions, sets: dict[str, Path], tmp_path: Path
) -> None:
    wrong = {
        "long.npy": np.zeros((2, 1, 1000, 80), np.float32),
        "double.npy": np.zeros((2, 1, 200, 80)),
        "empty.npy": np.zeros((0, 1, 200, 80), np.float32),
    }
    for name, array in wrong.items():
        np.save(tmp_path / name, array)
    (tmp_path / "text.npy").write_text("no array")
    for path in (*(tmp_path / name for name in (*wrong, "text.npy", "none.npy")), sets["decoder"]):
        with pytest.raises(ModelError, match=r"make it with: whisper-hailo calibrate"):
            compile_part(model, replace(encoder, calibration=path))
    with pytest.raises(ModelError, match=r"has no array"):
        compile_part(model, replace(encoder, part="decoder"))


def test_a_graph_that_changed_is_refused(model: Path, encoder: CompileOptions) -> None:
    with (model / "hailo" / "encoder-2s.onnx").open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(ModelError, match=r"encoder-2s\.onnx is damaged: "):
        compile_part(model, encoder)
    (model / "hailo" / "encoder-2s.onnx").unlink()
    with pytest.raises(ModelError, match=r"lacks hailo/encoder-2s\.onnx; .*convert"):
        compile_part(model, encoder)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"arch": "hailo9"}, "--arch is 'hailo9'"),
        ({"part": "middle"}, "--part is 'middle'"),
        ({"optimization_level": 5}, "--optimization-level is 5, expected 0 to 4"),
        ({"optimization_level": 1, "script": Path("own.alls")}, "edit --script"),
    ],
)
def test_wrong_options_are_refused(
    encoder: CompileOptions, wrong: dict[str, object], expected: str
) -> None:
    with pytest.raises(OptionError, match=expected):
        replace(encoder, **wrong)  # type: ignore[arg-type]
