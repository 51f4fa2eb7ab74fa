"""What is asked of every reference and of ours: windows of 30 s, and a minute of speech."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.references import speech
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import (
    DecodingOptions,
    PromptOptions,
    SearchOptions,
    Thresholds,
)

MICRO: Final = ASSETS / "micro"
PROMPT: Final = "Peter and Emma talked about their journey to Vienna."
NO_THRESHOLDS: Final = Thresholds(no_speech=None, logprob=None, compression_ratio=None)

SEARCHES: Final[dict[str, tuple[SearchOptions, dict[str, Any]]]] = {
    "greedy": (SearchOptions(), {}),
    "beam": (SearchOptions(beam_size=5), {"beam_size": 5}),
    "patient beam": (
        SearchOptions(beam_size=3, patience=2.0, length_penalty=0.6),
        {"beam_size": 3, "patience": 2.0, "length_penalty": 0.6},
    ),
}
"""Ours, and the same in the words of OpenAI Whisper, which are faster-whisper's, too."""


@dataclass(frozen=True, slots=True)
class Window:
    """One clip in a window of 30 s."""

    clip: int
    search: str = "greedy"
    timestamps: bool = False
    prompt: str | None = None
    prefix: str | None = None
    folder: str = "seen"
    language: str = "en"
    task: str = "transcribe"

    def audio(self) -> FloatArray:
        return speech.window(self.folder, self.clip)

    def options(self) -> DecodingOptions:
        return DecodingOptions(
            language=self.language,
            task=self.task,
            timestamps=self.timestamps,
            search=SEARCHES[self.search][0],
            thresholds=NO_THRESHOLDS,
            prompts=PromptOptions(initial_prompt=self.prompt, prefix=self.prefix),
        )


@dataclass(frozen=True, slots=True)
class Minute:
    """A minute of clips or less, segment by segment and word by word."""

    search: str = "greedy"
    conditioned: bool = False
    duration_s: float = 60.0

    def audio(self) -> FloatArray:
        return speech.minutes(self.duration_s)

    def options(self) -> DecodingOptions:
        return DecodingOptions(
            timestamps=True,
            search=SEARCHES[self.search][0],
            thresholds=NO_THRESHOLDS,
            prompts=PromptOptions(condition_on_previous_text=self.conditioned),
            word_timestamps=True,
        )


WINDOWS: Final = {
    "greedy": Window(0),
    "greedy, times": Window(1, timestamps=True),
    "prompt, times": Window(4, timestamps=True, prompt=PROMPT),
    "prefix": Window(5, prefix="Good morning"),
    "beam, times": Window(6, "beam", folder="noisy", timestamps=True),
    "patient beam": Window(0, "patient beam", folder="noisy"),
    "patient beam, times": Window(4, "patient beam", folder="noisy", timestamps=True),
    "translation": Window(0, folder="phrases", language="de", task="translate"),
}
"""Of the noisy ones the first has another text without its beam, the second without its patience,
the third without its length penalty."""
SIMPLE: Final = ("greedy", "greedy, times", "beam, times")
"""Those that faster-whisper is asked, too."""
GREEDY: Final = ("greedy", "greedy, times")
"""Those that Transformers is asked, too."""

MINUTES: Final = {
    "greedy": Minute(),
    "beam": Minute("beam", duration_s=20.0),
    "conditioned": Minute(conditioned=True),
}
"""Of OpenAI Whisper; faster-whisper conditions in words of its own."""

LANGUAGES: Final = (("seen", 0), ("german", 0), ("german", 1))
"""Clips of which the language is asked."""


def golden(name: str) -> Any:
    """A reference's answers, as they were recorded."""
    return json.loads(
        (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")
    )
