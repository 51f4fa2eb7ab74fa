"""The output formats of transcripts; a new one is a function and an entry in `FORMATS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.overwrite import Signature
from whisper_hailo.core.strict_json import escape_surrogates
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.text.subtitles import (
    Cue,
    CueWriter,
    Layout,
    cue_time,
    format_srt,
    format_vtt,
    speaker_label,
)
from whisper_hailo.text.transcript_json import as_json

if TYPE_CHECKING:
    from whisper_hailo.text.cue_setter import CueSetter
    from whisper_hailo.text.paragraphs import ParagraphWriter

JSON: Final = "json"
ALL_FORMATS: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    """What all formats have.

    Attributes:
        name: as in `--format`; also the suffix of files.
        label: the name for readers.
        media_type: of RFC 6838.
        signature: tells such files from others, which are not overwritten.
        heading: begins each file.
        empty: follows the heading if nothing was said.
    """

    name: str
    label: str
    media_type: str
    signature: Signature
    heading: str = ""
    empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFormat(_Format):
    """A format with a part for each segment; an empty part is left out."""

    format_segment: Callable[[Segment], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CueFormat(_Format):
    """A format of subtitles: `format_cue` takes a cue and its number, which starts at 1.

    `has_labels` says that a speaker is named on the first line.
    """

    format_cue: Callable[[Cue, int], str]
    has_labels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFormat(_Format):
    """A format that cannot be read before its end, and so is written as a whole."""

    format_transcript: Callable[[Transcript], str]


Format: TypeAlias = SegmentFormat | CueFormat | DocumentFormat


def format_text(segment: Segment) -> str:
    """Return a line with the text of a segment."""
    if not segment.text:
        return ""
    return f"{speaker_label(segment.speaker)}{segment.text}\n"


def format_timed_text(segment: Segment) -> str:
    """Return a line with the times and the text of a segment, as OpenAI Whisper prints it."""
    if not segment.text:
        return ""
    start = cue_time(segment.start_s, ".").removeprefix("00:")
    end = cue_time(segment.end_s, ".").removeprefix("00:")
    return f"[{start} --> {end}]  {format_text(segment)}"


def format_tsv(segment: Segment) -> str:
    """Return a row with the times of a segment in milliseconds, as OpenAI Whisper writes it."""
    start_ms = round(segment.start_s * 1000)
    end_ms = round(segment.end_s * 1000)
    label = speaker_label(segment.speaker)
    text = " ".join(segment.text.split())  # a tab or a line end would end the field
    return f"{start_ms}\t{end_ms}\t{label}{text}\n"


def format_json(transcript: Transcript) -> str:
    """Return the JSON of `as_json`."""
    text = json.dumps(as_json(transcript), ensure_ascii=False, indent=2)
    # The name of a file need not be UTF-8, but JSON must be.
    return escape_surrogates(text) + "\n"


_TXT: Final = SegmentFormat(
    name="txt",
    label="Text",
    media_type="text/plain",
    # No control characters but those that terminals and editors write: tabs, line ends, escapes.
    signature=Signature("a text file", rb"[^\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]*\Z"),
    empty="\n",
    format_segment=format_text,
)
_SRT: Final = CueFormat(
    name="srt",
    label="SubRip",
    media_type="application/x-subrip",
    signature=Signature("an SRT file", rb"\s*\d+\s*\n\d+:\d\d:\d\d[,.]\d+ --> "),
    format_cue=format_srt,
    has_labels=True,
)
_VTT: Final = CueFormat(
    name="vtt",
    label="WebVTT",
    media_type="text/vtt",
    signature=Signature("a WebVTT file", rb"WEBVTT\b"),
    heading="WEBVTT\n\n",
    format_cue=format_vtt,
)
_TSV: Final = SegmentFormat(
    name="tsv",
    label="TSV",
    media_type="text/tab-separated-values",
    signature=Signature("a TSV transcript", rb"start\tend\ttext\r?\n"),
    heading="start\tend\ttext\n",
    format_segment=format_tsv,
)
_JSON: Final = DocumentFormat(
    name=JSON,
    label="JSON",
    media_type="application/json",
    # OpenAI Whisper's own files begin with the text.
    signature=Signature("a JSON transcript", rb'\{\s*"(task|text)": '),
    format_transcript=format_json,
)

FORMATS: Final[dict[str, Format]] = {
    entry.name: entry for entry in (_TXT, _SRT, _VTT, _TSV, _JSON)
}
"""All formats by name, in the order in which messages list them."""

SUBTITLES: Final = frozenset({_SRT.name, _VTT.name})


def find_format(name: str) -> Format:
    """Return the format with a name.

    Raises:
        OptionError: there is no such format.
    """
    if name not in FORMATS:
        names = ", ".join([*FORMATS, ALL_FORMATS])
        raise OptionError(f"--format is {name!r}, expected one of: {names}")
    return FORMATS[name]


def has_readable_cues(formats: Iterable[str], layout: Layout) -> bool:
    """Return whether one of the formats has cues that are set by the times of words."""
    is_subtitles = any(isinstance(FORMATS.get(name), CueFormat) for name in formats)
    return is_subtitles and layout.is_readable


def render(
    transcript: Transcript,
    fmt: str,
    layout: Layout | None = None,
    *,
    paragraphs: bool = False,
) -> str:
    """Return a transcript in one of `FORMATS`, subtitles in a layout.

    `json` is the verbose layout of OpenAI's transcription API, `txt` has a line per segment, or
    paragraphs with empty lines between them.
    Subtitles are best with the times of words, `word_timestamps=True`.
    """
    entry = find_format(fmt)
    if isinstance(entry, DocumentFormat):
        return entry.format_transcript(transcript)
    writer = TextWriter(fmt, layout or Layout(), paragraphs=paragraphs)
    parts = [part for segment in transcript.segments for part in writer.write(segment)]
    return "".join([*parts, *writer.finish()])


class TextWriter:
    """Renders the segments of one input as text: each part as soon as nothing can be added to it.

    Args:
        fmt: name of a format that is not written as a whole, as `json` is.
        layout: of subtitles.
        timed: lines of `txt` begin with their times, as on OpenAI Whisper's terminal.
        paragraphs: `txt` has paragraphs in place of a line per segment, unless it is timed.
    """

    def __init__(
        self,
        fmt: str,
        layout: Layout,
        *,
        timed: bool = False,
        paragraphs: bool = False,
    ) -> None:
        entry = find_format(fmt)
        if isinstance(entry, DocumentFormat):
            raise OptionError(f"--format {fmt} cannot be written in parts")
        self._format = entry
        self._is_timed = timed and entry is _TXT
        self._paragraphs: ParagraphWriter | None = None
        # Imported here, since a line per segment needs no rules of paragraphs and subtitles.
        if paragraphs and entry is _TXT and not timed:
            from whisper_hailo.text.paragraphs import ParagraphWriter

            self._paragraphs = ParagraphWriter()
        self._cues: CueWriter | CueSetter = CueWriter(layout)
        if layout.is_readable and isinstance(entry, CueFormat):
            from whisper_hailo.text.cue_setter import CueSetter

            self._cues = CueSetter(layout, has_labels=entry.has_labels)
        self._n_cues = 0
        self._is_empty = True

    def write(self, segment: Segment) -> Iterator[str]:
        """Yield the parts that are complete with this segment."""
        if isinstance(self._format, CueFormat):
            yield from self._format_cues(self._format, self._cues.write(segment))
            return
        if self._paragraphs is not None:
            for paragraph in self._paragraphs.write(segment):
                yield self._with_heading(paragraph)
            return
        format_segment = (
            format_timed_text if self._is_timed else self._format.format_segment
        )
        part = format_segment(segment)
        if part:
            yield self._with_heading(part)

    def finish(self) -> Iterator[str]:
        """Yield the cue or paragraph that waits for more; of nothing, an empty file's content."""
        if isinstance(self._format, CueFormat):
            yield from self._format_cues(self._format, self._cues.finish())
        if self._paragraphs is not None:
            for paragraph in self._paragraphs.finish():
                yield self._with_heading(paragraph)
        if self._is_empty:
            content = self._format.heading + self._format.empty
            if content:
                yield content

    def _format_cues(self, entry: CueFormat, cues: Iterator[Cue]) -> Iterator[str]:
        for cue in cues:
            self._n_cues += 1
            yield self._with_heading(entry.format_cue(cue, self._n_cues))

    def _with_heading(self, part: str) -> str:
        """Return a part, the first with the heading: what fails at once has written nothing."""
        if not self._is_empty:
            return part
        self._is_empty = False
        return self._format.heading + part
