"""Files of a model directory against its description, and their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from whisper_hailo.backends import model_files
from whisper_hailo.backends.model_files import (
    NOTES_FILE,
    check_all,
    has_content,
    model_file,
)
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.select import hailo_form
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec
from whisper_hailo_tools.emulate.make import emulate_part
from whisper_hailo_tools.options import EmulateOptions

SHA256, OTHER_SHA256 = (
    hashlib.sha256(content).hexdigest() for content in (b"one", b"two")
)


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


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Names of the files that were read to the end; the cache is a fresh folder."""
    names: list[str] = []
    real = model_files.sha256

    def counted(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(model_files, "sha256", counted)
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    return names


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    return path


def test_has_content_reads_a_file_once(reads: list[str], file: Path) -> None:
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights"]
    assert not has_content(file, OTHER_SHA256)


def test_has_content_of_changed_file_with_same_times_is_false(
    reads: list[str], file: Path
) -> None:
    assert has_content(file, SHA256)
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not has_content(file, SHA256)
    assert not has_content(file, SHA256)
    assert has_content(file, OTHER_SHA256)


def test_has_content_keeps_the_latest_notes_only(
    reads: list[str], file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(model_files, "MOST_NOTES", 2)
    for name in "abc":
        (tmp_path / name).write_bytes(b"one")
        assert has_content(tmp_path / name, SHA256)
    assert has_content(tmp_path / "c", SHA256)
    assert reads == ["a", "b", "c"]
    assert has_content(tmp_path / "a", SHA256)
    assert reads == ["a", "b", "c", "a"]
    (tmp_path / "c").write_bytes(b"two")
    assert has_content(
        tmp_path / "c", OTHER_SHA256
    )  # noted anew, so that it is the latest
    assert has_content(tmp_path / "b", SHA256)
    assert has_content(tmp_path / "c", OTHER_SHA256)
    assert reads == ["a", "b", "c", "a", "c", "b"]


@pytest.mark.parametrize("notes", [b"{", b'{"/x": 3}', b"\xff", b"[]"])
def test_has_content_with_damaged_notes_rewrites_them(
    reads: list[str], file: Path, tmp_path: Path, notes: bytes
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / NOTES_FILE).write_bytes(notes)
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights"]


def test_has_content_without_cache_reads_each_time(
    reads: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(file / "cache"))
    assert has_content(file, SHA256)
    assert has_content(file, SHA256)
    assert reads == ["weights", "weights"]


def test_has_content_of_equal_names_reads_each_file_once(
    reads: list[str], tmp_path: Path
) -> None:
    files = [tmp_path / folder / "weights" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"one")
    (tmp_path / "link").symlink_to(files[0])
    for file in (*files, *files, tmp_path / "link"):
        assert has_content(file, SHA256)
    assert reads == ["weights", "weights"]
