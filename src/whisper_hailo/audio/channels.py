"""Channels of one recording as speakers: each transcribed alone, on one timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import BinaryIO

from whisper_hailo.audio import ChannelOf, open_audio
from whisper_hailo.audio.files import kept
from whisper_hailo.audio.stream import own_name
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import Timings, Transcript


@contextmanager
def split_channels(file: str | Path | BinaryIO) -> Iterator[list[ChannelOf]]:
    """The channels of a file, which is open in the `with` block: pipes come but once.

    Raises:
        AudioError: it cannot be opened, or has one channel only.
    """
    name = own_name(file)
    with ExitStack() as resources:
        opened = kept(file, shown(name), resources)
        with open_audio(opened, name) as stream:
            n_channels = stream.n_channels
        if n_channels < 2:
            raise AudioError(
                f"{shown(name)} has 1 channel, --channels split takes 2 or more; use mix"
            )
        yield [ChannelOf(opened, channel, name) for channel in range(n_channels)]


def merge_channels(transcripts: Sequence[Transcript]) -> Transcript:
    """One transcript of what each channel said, in order of time."""
    first = transcripts[0]
    segments = [
        replace(segment, speaker=channel)
        for channel, transcript in enumerate(transcripts)
        for segment in transcript.segments
    ]
    timings = {
        field.name: sum(getattr(t.timings, field.name) for t in transcripts)
        for field in fields(Timings)
    }
    return replace(
        first,
        duration_s=max(t.duration_s for t in transcripts),
        segments=tuple(sorted(segments, key=lambda s: (s.start_s, s.end_s))),
        timings=Timings(**{**timings, "load_ms": first.timings.load_ms}),
    )
