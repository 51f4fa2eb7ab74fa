"""Files of a model directory against its description: content, size, place."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from whisper_hailo.backends.model_files import check_all, model_file
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.select import hailo_form
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import EmulateOptions


@pytest.fixture
def copy(hailo_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(hailo_directory, tmp_path / "model"))


def _zeros(path: Path) -> None:
    """Overwrites the middle of a file, whose size stays."""
    content = bytearray(path.read_bytes())
    middle = slice(len(content) // 3, len(content) // 2)
    content[middle] = bytes(len(content[middle]))
    path.write_bytes(content)


def test_check_all_accepts_undamaged_directory(copy: Path) -> None:
    spec = ModelSpec.load(copy)
    check_all(copy, spec)
    assert model_file(copy, spec, "decoder.onnx") == copy / "decoder.onnx"
    with pytest.raises(ModelError, match=r"model\.json.*secret\.onnx"):
        model_file(copy, spec, "secret.onnx")


@pytest.mark.parametrize("name", ["encoder.onnx", "cross_kv.onnx", "decoder.onnx.data"])
def test_check_all_finds_zeros_in_weights(copy: Path, name: str) -> None:
    spec = ModelSpec.load(copy)
    _zeros(copy / name)
    engine = OnnxEncoder if name == "encoder.onnx" else CachedDecoder
    with pytest.raises(ModelError, match=rf"/{name} .*model\.json \(SHA-256 "):
        engine(copy, spec).open()
    with pytest.raises(ModelError, match=rf"/{name} .*SHA-256"):
        check_all(copy, spec)


def test_hailo_form_checks_its_file(copy: Path) -> None:
    spec = ModelSpec.load(copy)
    _zeros(copy / spec.hailo[0].file)
    with pytest.raises(ModelError, match=rf"{spec.hailo[0].file} .*SHA-256"):
        hailo_form(copy, spec, spec.hailo[0].part)


def test_model_spec_with_files_elsewhere_is_refused(copy: Path, tmp_path: Path) -> None:
    raw = json.loads((copy / SPEC_FILE).read_text(encoding="utf-8"))
    for name in ("../outside.onnx", str(tmp_path / "outside.onnx"), ""):
        raw["hailo"][0]["file"] = name
        (copy / SPEC_FILE).write_text(json.dumps(raw), encoding="utf-8")
        with pytest.raises(ModelError, match=rf"model\.json.*{re.escape(repr(name))}"):
            ModelSpec.load(copy)
    raw["hailo"][0] |= {
        "file": "hailo/a.onnx",
        "assets": {"position_rows": "../rows.npy"},
    }
    (copy / SPEC_FILE).write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(ModelError, match=r"model\.json.*'\.\./rows\.npy'"):
        ModelSpec.load(copy)


def test_emulate_writes_through_no_link(copy: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(copy / "hailo", elsewhere)
    (copy / "hailo").symlink_to(elsewhere)
    before = sorted(path.name for path in elsewhere.rglob("*"))
    with pytest.raises(ModelError, match=r"elsewhere/encoder-2s-emulated\.onnx"):
        emulate_part(copy, EmulateOptions(audio=tmp_path))
    assert sorted(path.name for path in elsewhere.rglob("*")) == before
