"""The command `fetch-hef`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.fakes.recorded_calls import Asked
from whisper_hailo.backends.hailo.hef_catalog import EXAMPLES, PAIRS
from whisper_hailo.cli.app import run


def test_fetch_hef_prints_checksums_and_next_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(b"rows")
    calls = Asked([path]).patched(
        monkeypatch, "whisper_hailo.cli.commands.models.fetch"
    )
    assert run(["fetch-hef", "base", "--arch", "hailo8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert lines[1] == f"  SHA-256 {hashlib.sha256(b'rows').hexdigest()}"
    (last,) = lines[2:]
    assert f"whisper-hailo transcribe --model base --encoder {path}" in last
    assert run(["fetch-hef", "--arch", "hailo8l", "--from", "https://x.y/z"]) == 0
    known = {(pair.arch, pair.variant): pair for pair in PAIRS}
    base = known["hailo8", "base"]
    tiny = known["hailo8l", "tiny"]
    assert calls.with_ == [(base, EXAMPLES), (tiny, "https://x.y/z/")]


def test_fetch_hef_unpublished_pair_lists_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["fetch-hef", "tiny.en", "--arch", "hailo8"]) == 2
    line = capsys.readouterr().err
    assert "tiny.en --arch hailo8" in line
    assert all(f"{known.variant} for {known.arch}" in line for known in PAIRS)
    assert run(["fetch-hef", "small", "--arch", "hailo8l"]) == 2
