"""Options of long recordings: windows, clips, batches, channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from whisper_hailo.core.errors import OptionError
from whisper_hailo.transcription.longform.clips import parse_clips
from whisper_hailo.transcription.longform.plan import STRATEGIES, LongOptions

_PANEL = "Long recordings"
CHANNELS = ("mix", "split")


@dataclass(frozen=True, slots=True)
class LongFlags:
    """How recordings are taken apart and how many windows run together."""

    long: Annotated[
        str,
        typer.Option(metavar="HOW", help=", ".join(STRATEGIES) + ".", rich_help_panel=_PANEL),
    ] = "auto"
    overlap: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Seconds that windows share. [default: 2]", rich_help_panel=_PANEL
        ),
    ] = None
    clip_timestamps: Annotated[
        str,
        typer.Option(
            metavar="S,E,...", help="Only these stretches, in seconds.", rich_help_panel=_PANEL
        ),
    ] = ""
    vad_threshold: Annotated[
        float,
        typer.Option(metavar="X", help="Above it: speech.", rich_help_panel=_PANEL),
    ] = 0.5
    vad_min_silence: Annotated[
        float,
        typer.Option(metavar="S", help="Ends a stretch of speech.", rich_help_panel=_PANEL),
    ] = 0.5
    vad_speech_pad: Annotated[
        float, typer.Option(metavar="S", help="Kept around speech.", rich_help_panel=_PANEL)
    ] = 0.2
    batch_size: Annotated[
        int,
        typer.Option(
            metavar="N", help="Windows decoded together, of all files.", rich_help_panel=_PANEL
        ),
    ] = 1
    channels: Annotated[
        str,
        typer.Option(help="mix, or split: each channel a speaker.", rich_help_panel=_PANEL),
    ] = "mix"

    snug: Annotated[
        bool,
        typer.Option(
            "--snug", help="Encode only what of a window is filled.", rich_help_panel=_PANEL
        ),
    ] = False

    def options(self) -> LongOptions:
        """How recordings are taken apart.

        Raises:
            OptionError: values out of range.
        """
        if self.channels not in CHANNELS:
            raise OptionError(
                f"--channels is {self.channels!r}, expected one of: {', '.join(CHANNELS)}"
            )
        return LongOptions(
            strategy=self.long,
            overlap_s=self.overlap,
            clips=parse_clips(self.clip_timestamps),
            vad_threshold=self.vad_threshold,
            min_silence_s=self.vad_min_silence,
            speech_pad_s=self.vad_speech_pad,
            snug=self.snug,
        )
