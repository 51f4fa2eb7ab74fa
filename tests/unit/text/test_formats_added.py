"""An entry in the table of formats is all that a new format needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.transcripts import transcript
from tests.unit.live.outputs.test_files import EVENTS
from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.sink import Sink
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.live.outputs.files import CaptionFile
from whisper_hailo.text.formats import FORMATS, CueFormat, Format, SegmentFormat, render
from whisper_hailo.text.subtitles import cue_time

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
