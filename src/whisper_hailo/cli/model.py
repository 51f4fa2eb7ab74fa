"""Options that choose the model, its encoder and decoder, and the window."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from whisper_hailo.backends.hailo.options import Priority
from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.cli.talk import is_verbose
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.flags import expect, flag, group

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from whisper_hailo.transcription.transcriber import Transcriber

_WINDOW = "Model and window"
_MOST_THREADS = 256


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model, and how it runs: the arguments of `Transcriber.from_model`."""

    model: str = flag("tiny", "A name, hub id or directory.", short="-m", metavar="NAME")
    revision: str | None = flag(
        None, "Hub commit, tag or branch.", _WINDOW, metavar="NAME", shown="main"
    )
    convert: ConvertOptions = group(ConvertOptions, "quantize", "encoder_quantize")
    window: float | None = flag(
        None, "Audio that the encoder takes at once.", _WINDOW, metavar="S", shown="10"
    )
    margin_s: float | None = flag(
        None, "Kept free at a window's end.", _WINDOW, metavar="S", shown="1; 0 at 30 s"
    )
    engine: EngineOptions = group(EngineOptions)
    threads: int = flag(0, "Per operator; 0: automatic.", short="-t")

    def __post_init__(self) -> None:
        expect(self, "threads", 0 <= self.threads <= _MOST_THREADS, f"0 to {_MOST_THREADS}")

    def transcriber(self, priority: Priority = Priority.BATCH) -> Transcriber:
        """A transcriber, not opened yet.

        Args:
            priority: on a Hailo chip that several share; live captions go before files.

        Raises:
            ModelError, TokenizerError, HubError, OptionError: see `Transcriber.from_model`.
        """
        from whisper_hailo.transcription.transcriber import Transcriber

        chip = replace(self.engine.hailo, priority=priority)
        return Transcriber.from_model(
            self.model,
            revision=self.revision,
            convert=self.convert,
            window_s=self.window,
            margin_s=self.margin_s,
            threads=self.threads,
            engine=replace(self.engine, hailo=chip),
        )


def tell_engine(transcriber: Transcriber) -> None:
    """One line about encoder and decoder, or why they were taken."""
    if transcriber.reasons and not is_verbose():
        logger.info(", ".join(reason.partition(":")[0] for reason in transcriber.reasons))
    tell_reasons(transcriber)


def tell_reasons(transcriber: Transcriber) -> None:
    """Why this encoder and this decoder were taken, for `--verbose`."""
    for reason in transcriber.reasons:
        logger.debug(reason)
