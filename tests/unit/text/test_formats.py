"""Transcripts in every output format, and a format that is added."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.results import transcript
from tests.unit.live.outputs.test_files import EVENTS
from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.sink import Sink
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.core.types import Segment
from whisper_hailo.live.outputs.files import CaptionFile
from whisper_hailo.text.formats import (
    FORMATS,
    CueFormat,
    Format,
    SegmentFormat,
    TextWriter,
    render,
)
from whisper_hailo.text.subtitles import Layout, cue_time

LRC = SegmentFormat(
    name="lrc",
    label="LRC",
    media_type="text/plain",
    signature=Signature("an LRC file", rb"\[\d\d:"),
    format_segment=lambda segment: (
        f"[{cue_time(segment.start_s, '.')[3:11]}]{segment.text}\n"
    ),
)
SBV = CueFormat(
    name="sbv",
    label="SBV",
    media_type="text/plain",
    signature=Signature("an SBV file", rb"\d+:\d\d:\d\d"),
    format_cue=lambda cue, _: f"{cue_time(cue.start_s, '.')}\n{cue.text}\n\n",
)


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


@pytest.mark.parametrize("entry", [LRC, SBV])
def test_formats_one_entry_adds_a_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: Format
) -> None:
    """The command writes it, replaces its own files only, and names it in messages."""
    monkeypatch.setitem(FORMATS, entry.name, entry)
    recording = Input("a.wav", None, Path("a"))
    sink = Sink(OutputOptions((entry.name,), tmp_path), [recording])
    for _ in range(2):
        assert sink.check_results()[0].fault is None
        sink.write_result(recording, transcript())
    path = tmp_path / f"a.{entry.name}"
    assert "All the rest." in path.read_text()
    assert OutputOptions(("all",), tmp_path).formats == (*FORMATS,)
    path.write_text("{}")
    assert entry.signature.kind in str(sink.check_results()[0].fault)
    with pytest.raises(OptionError, match=f"json, {entry.name}, all"):
        render(transcript(), "docx")


def test_formats_one_cue_entry_adds_a_caption_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, SBV.name, SBV)
    with CaptionFile(tmp_path / "a.sbv") as file:
        file.put(EVENTS[2])
    CaptionFile(tmp_path / "a.sbv").check(None)
