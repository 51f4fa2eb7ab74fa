"""One text, whatever formats are asked for."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from whisper_hailo.cli.app import run

DEMO = Path(__file__).parents[3] / "src" / "whisper_hailo" / "assets" / "demo.flac"
MICRO = ("transcribe", "--model", "micro", "--threads", "1")


def cue_texts(srt: str) -> list[str]:
    return [" ".join(cue.splitlines()[2:]) for cue in srt.strip().split("\n\n")]


@pytest.mark.parametrize("words", [(), ("--window", "10")])
def test_transcribe_text_is_the_same_in_all_formats(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*MICRO, *words, str(DEMO)]
    assert run([*command, "--format", "txt"]) == 0
    alone = capsys.readouterr().out
    assert (
        run([*command, "--format", "txt,srt,json", "--output-dir", str(tmp_path)]) == 0
    )
    txt, srt, facts = (tmp_path / f"demo.{fmt}" for fmt in ("txt", "srt", "json"))
    assert txt.read_text(encoding="utf-8").split() == alone.split()
    found = json.loads(facts.read_text(encoding="utf-8"))
    text = " ".join(alone.split())
    assert found["text"] == text != ""
    assert "".join(segment["text"] for segment in found["segments"]).strip() == text
    assert " ".join(cue_texts(srt.read_text(encoding="utf-8"))) == text


def test_transcribe_json_is_the_same_beside_subtitles(tmp_path: Path) -> None:
    """Subtitles need the times of words, which move those of segments."""
    alone = tmp_path / "alone"
    beside = tmp_path / "beside"
    command = [*MICRO, str(DEMO), "--output-dir"]
    assert run([*command, str(alone), "--format", "json"]) == 0
    assert run([*command, str(beside), "--format", "json,srt"]) == 0
    texts = [
        (folder / "demo.json").read_text(encoding="utf-8") for folder in (alone, beside)
    ]
    assert texts[0] == texts[1]


def test_transcribe_segments_are_timed_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without timestamps from the model, and without words that nobody asked for."""
    assert run([*MICRO, str(DEMO), "--format", "json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert len(segments) > 1
    for segment, following in pairwise(segments):
        assert re.search(r"[.?!]$", segment["text"])
        assert 0 <= segment["start"] < segment["end"] <= following["start"]
        assert segment["end"] - segment["start"] <= 10
        assert not segment.get("words")
