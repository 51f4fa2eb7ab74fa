"""Transcripts in every output format."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.fakes.transcripts import transcript
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment
from whisper_hailo.text.formats import TextWriter, render
from whisper_hailo.text.subtitles import Layout


def test_render_txt_has_a_line_per_segment() -> None:
    assert render(transcript(), "txt") == "Grüße.\nAll the rest.\n"
    assert render(replace(transcript(), segments=()), "txt") == "\n"


def test_text_writer_timed_prefixes_times() -> None:
    segment = Segment(59.9, 3661.25, "So long.", (), 0.0, 0.0)
    texts = [
        "".join(TextWriter("txt", Layout(), timed=timed).write(segment))
        for timed in (False, True)
    ]
    assert texts == ["So long.\n", "[00:59.900 --> 01:01:01.250]  So long.\n"]
    writer = TextWriter("txt", Layout(), timed=True)
    timed = "".join(
        part for segment in transcript().segments for part in writer.write(segment)
    )
    assert timed.splitlines()[0] == "[00:00.000 --> 00:09.000]  Grüße."


def test_render_json_keeps_non_ascii_letters() -> None:
    assert '"text": "Grüße.' in render(transcript(), "json")


def test_render_json_name_without_utf8_is_escaped() -> None:
    """Names of files need not be UTF-8."""
    text = render(replace(transcript(), audio="\udcff.wav"), "json")
    assert json.loads(text.encode())["audio"] == "\udcff.wav"


def test_render_subtitles_follow_layout() -> None:
    layout = Layout(max_words_per_line=1)
    for fmt, n_cues in (("srt", 4), ("vtt", 4)):
        assert render(transcript(), fmt, layout).count("-->") == n_cues
        assert render(transcript(), fmt).count("-->") == 2


def test_render_unknown_format_is_refused() -> None:
    with pytest.raises(OptionError, match="txt, srt, vtt, tsv, json, all"):
        render(transcript(), "docx")


def test_text_writer_json_is_refused() -> None:
    with pytest.raises(OptionError, match="json"):
        TextWriter("json", Layout())
