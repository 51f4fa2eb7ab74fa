"""What `fetch-hef` asks for, and what it tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.commands.asked import Asked
from whisper_hailo.backends.hailo.fetch import Fetched
from whisper_hailo.backends.hailo.select_hef import KNOWN, PLACE
from whisper_hailo.cli.app import run

FILES = (Path("cache/e.hef"), Path("cache/d.hef"))


def test_published_hefs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Fetched(FILES, ("12", "34"), Path("cache/sums"))
    asked = Asked(done).patched(monkeypatch, "whisper_hailo.backends.hailo.fetch.fetch")
    assert run(["fetch-hef", "--arch", "hailo8", "--variant", "base"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["cache/e.hef", "cache/d.hef"]
    assert lines[2].endswith("cache/sums")
    last = "next: whisper-hailo transcribe --model base --encoder cache/e.hef AUDIO"
    assert lines[3:] == [last]
    assert run(["fetch-hef", "--arch", "hailo8l", "--from", "https://x.y/z", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "arch": "hailo8l", "variant": "tiny", "files": ["cache/e.hef", "cache/d.hef"],
        "sha256": {"cache/e.hef": "12", "cache/d.hef": "34"},
    }  # fmt: skip
    known = {(one.arch, one.variant): one for one in KNOWN}
    base, tiny = known["hailo8", "base"], known["hailo8l", "tiny"]
    assert asked.with_ == [(base, PLACE), (tiny, "https://x.y/z/")]


def test_hefs_that_nobody_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fetch-hef", "--arch", "hailo8", "--variant", "tiny.en"]) == 2
    line = capsys.readouterr().err
    assert "--arch hailo8 --variant tiny.en" in line
    assert all(f"{known.variant} for {known.arch}" in line for known in KNOWN)
