from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.read_files import read_regular_file, read_text, sha256


def test_read_regular_file_over_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_regular_file(path, 1 << 20)) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ValueError, match="1 MiB"):
        read_regular_file(path, 1 << 20)


def test_read_text_device_or_latin_1_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("\ufeffgrün".encode())
    assert read_text(path) == "grün"
    path.write_bytes(b"gr\xfcn")
    with pytest.raises(ValueError, match="utf-8"):
        read_text(path)
    with pytest.raises(ValueError, match="regular file"):
        read_text(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        read_text(tmp_path / "b")


def test_sha256_matches_published_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256(tmp_path / "a") == expected
    with pytest.raises(ModelError, match="/b "):
        sha256(tmp_path / "b")
