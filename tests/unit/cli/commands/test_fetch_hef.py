"""What `fetch-hef` asks for, and what it tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.commands.asked import Asked
from whisper_hailo.backends.hailo.hef_catalog import EXAMPLES, KNOWN, PAIRS, RELEASES
from whisper_hailo.cli.app import run

FILES = (Path("cache/e.hef"), Path("cache/d.hef"))


def test_published_hefs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whisper_hailo.cli.commands.models.sha256", lambda path: path.stem)
    asked = Asked([*FILES]).patched(monkeypatch, "whisper_hailo.cli.commands.models.fetch")
    assert run(["fetch-hef", "base", "--arch", "hailo8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["cache/e.hef", "cache/d.hef"]
    last = "next: whisper-hailo transcribe --model base --encoder cache/e.hef AUDIO"
    assert lines[2:] == [last]
    assert run(["fetch-hef", "--arch", "hailo8l", "--from", "https://x.y/z", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "arch": "hailo8l", "variant": "tiny", "files": ["cache/e.hef", "cache/d.hef"],
        "sha256": {"cache/e.hef": "e", "cache/d.hef": "d"},
    }  # fmt: skip
    known = {(one.arch, one.variant): one for one in PAIRS}
    base, tiny = known["hailo8", "base"], known["hailo8l", "tiny"]
    assert asked.with_ == [(base, EXAMPLES), (tiny, "https://x.y/z/")]


@pytest.mark.parametrize(
    ("installed", "words", "file"),
    [
        ("", "small", "v5.4.0/blob/Whisper-Small.hef"),
        ("5.4.0", "small", "v5.4.0/blob/Whisper-Small.hef"),
        ("5.3.2", "small", "v5.3.0/blob/Whisper-Small.hef"),
        ("5.2.0", "small", "v5.3.0/blob/Whisper-Small.hef"),
        ("5.4.0", "base", "whisper/h10h/base-whisper-encoder-10s.hef"),
    ],
)
def test_one_file_of_both_halves_is_of_the_installed_release(
    *, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], installed: str,
    words: str, file: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("whisper_hailo.backends.hailo.binding.installed_version", lambda: installed)
    asked = Asked([*FILES]).patched(monkeypatch, "whisper_hailo.cli.commands.models.fetch")
    assert run(["fetch-hef", *words.split(), "--arch", "hailo10h"]) == 0
    ((known, place),) = asked.with_
    assert next(iter(known.files().values())) == file
    assert place == (RELEASES if known.release else EXAMPLES)
    assert (len(known.files()) == 1) is bool(known.release)
    assert ("may refuse" in capsys.readouterr().err) is (installed == "5.2.0")


def test_hefs_that_nobody_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fetch-hef", "tiny.en", "--arch", "hailo8"]) == 2
    line = capsys.readouterr().err
    assert "tiny.en --arch hailo8;" in line
    assert all(f"{known.variant} for {known.arch}" in line for known in KNOWN)
    assert run(["fetch-hef", "small", "--arch", "hailo8l"]) == 2
