"""A service with the bundled model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from whisper_hailo import Transcriber
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import (
    DecodingOptions,
    SearchOptions,
    rising_temperatures,
)
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.request import Caller, Choices, RequestDefaults
from whisper_hailo.serve.served_model import ServedModel
from whisper_hailo.serve.service import TranscriptionService
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo_lab.clip_archives import unpack_clips

ROOT = Path(__file__).parents[2]
DATA = unpack_clips()
DEMO = ROOT / "src" / "whisper_hailo" / "assets" / "demo.flac"
DEMO_TEXT = DEMO.with_suffix(".txt").read_text(encoding="utf-8").strip()
GERMAN = sorted((DATA / "german").glob("*.ogg"))
LONG = sorted((DATA / "long").glob("*.ogg"))
SHORT = DATA / "seen" / "seen-021.ogg"
"""Three seconds: for what does not depend on what is said."""
PHRASES = sorted((DATA / "phrases").glob("*.ogg"))

OPTIONS = DecodingOptions(
    language="auto", search=SearchOptions(rising_temperatures(0.0, 0.2))
)
"""Those of the command by default, for the bundled model."""


class MicroService(Closing):
    """A service with the bundled model."""

    def __init__(
        self,
        long: LongOptions | None = None,
        limits: LimitOptions | None = None,
        **of_model: Any,
    ) -> None:
        self.metrics = Metrics()
        transcriber = Transcriber.from_model("micro", threads=1)
        self.model = ServedModel(
            transcriber,
            RequestDefaults(OPTIONS, long or LongOptions()),
            self.metrics,
            ModelMemory(),
            **of_model,
        )
        self.model.languages = ("en", "de")
        self.service = TranscriptionService(
            [self.model], self.metrics, limits or LimitOptions()
        )

    def open(self) -> Self:
        self.model.open()
        return self

    def close(self) -> None:
        self.model.close()

    async def text(self, audio: FloatArray, client: str = "me", **choices: Any) -> str:
        """Return the text of audio."""
        chosen = Choices(**choices)
        with self.service.submit(audio, chosen, caller(client)) as ticket:
            return (await ticket.result()).text


def caller(client: str = "me") -> Caller:
    """Return a client of some API."""
    return Caller(client, "test")
