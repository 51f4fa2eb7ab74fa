"""Options of captioning: where audio comes from, when segments begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.live.options import CaptionOptions

_SOURCE, _SEGMENTS = "Source", "Segments"


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Where audio comes from."""

    mic: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="Microphone: its number, part of its name, default, or browser.",
            rich_help_panel=_SOURCE,
        ),
    ] = None
    list_devices: Annotated[
        bool,
        typer.Option("--list-devices", help="List microphones and end.", rich_help_panel=_SOURCE),
    ] = False
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time", help="Play a FILE at the speed of speech.", rich_help_panel=_SOURCE
        ),
    ] = False
    rate: Annotated[
        int, typer.Option(metavar="HZ", help="Of raw PCM.", rich_help_panel=_SOURCE)
    ] = 16_000
    loops: Annotated[
        int, typer.Option(min=1, help="Play a FILE so often.", rich_help_panel=_SOURCE)
    ] = 1


@dataclass(frozen=True, slots=True)
class SegmentFlags:
    """When segments begin and end."""

    vad_threshold: Annotated[
        float, typer.Option(metavar="P", help="From it on: speech.", rich_help_panel=_SEGMENTS)
    ] = 0.5
    min_silence: Annotated[
        float, typer.Option(metavar="S", help="Ends a segment.", rich_help_panel=_SEGMENTS)
    ] = 0.1
    min_speech: Annotated[
        float, typer.Option(metavar="S", help="Less is a click.", rich_help_panel=_SEGMENTS)
    ] = 0.1
    pre_roll: Annotated[
        float, typer.Option(metavar="S", help="Before speech.", rich_help_panel=_SEGMENTS)
    ] = 0.1
    min_partial: Annotated[
        float,
        typer.Option(
            metavar="S", help="New audio per partial; 0: no partials.", rich_help_panel=_SEGMENTS
        ),
    ] = 0.2
    max_segment: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Longer ones are cut. [default: window less margin]",
            rich_help_panel=_SEGMENTS,
        ),
    ] = None
    settle: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="A word stays when hypotheses so far apart agree.",
            rich_help_panel=_SEGMENTS,
        ),
    ] = 1.0
    hold_back: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="End a partial where it guesses at the last S seconds.",
            rich_help_panel=_SEGMENTS,
        ),
    ] = 0.2
    drafts: Annotated[
        bool,
        typer.Option(help="Verify the text before, or decode anew.", rich_help_panel=_SEGMENTS),
    ] = True
    snug: Annotated[
        bool,
        typer.Option(
            "--snug",
            help="Encode only as much of the window as is filled.",
            rich_help_panel=_SEGMENTS,
        ),
    ] = False

    moonshine: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE|DIR",
            help="Hear with Moonshine instead: tiny, base, or a folder with its graphs.",
            rich_help_panel="Model",
        ),
    ] = None

    def options(self) -> CaptionOptions:
        """As captioning takes them.

        Raises:
            OptionError: a value out of range.
        """
        return CaptionOptions(
            vad_threshold=self.vad_threshold,
            min_silence_s=self.min_silence,
            min_speech_s=self.min_speech,
            pre_roll_s=self.pre_roll,
            min_partial_s=self.min_partial,
            max_segment_s=self.max_segment,
            settle_s=self.settle,
            hold_back_s=self.hold_back,
            drafts=self.drafts,
            snug=self.snug,
        )
