"""The language of a single window, where its text is unsure in that of its recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder, DecoderState
from whisper_hailo.core.spec import SpecialTokens
from whisper_hailo.decoding.prompt import detect_languages, replace_language
from whisper_hailo.decoding.search.loop import DecodingTask

LIKELY: Final = 0.5
"""Probability of a language that is tried for a single window, and named where it has no text."""


@dataclass(frozen=True, slots=True)
class OwnLanguages:
    """Finds the languages of single windows of a batch.

    Attributes:
        state: of the batch, with an empty self-attention cache.
        tasks: in the languages of the recordings.
        may_change: of each window, whether its language was detected, not given.
        likely: by row, the other languages that were found.
    """

    decoder: AnyDecoder
    special: SpecialTokens
    state: DecoderState
    tasks: Sequence[DecodingTask]
    may_change: Sequence[bool]
    likely: dict[int, str] = field(default_factory=dict)

    def find_tasks(self, rows: Sequence[int]) -> dict[int, DecodingTask]:
        """Return, of these rows, the tasks of windows that are likely in another language."""
        open_rows = [row for row in rows if self.may_change[row]]
        if not open_rows or not self.special.languages:
            return {}
        batch = self.decoder.select(self.state, np.array(open_rows, dtype=np.int64))
        detected = detect_languages(self.decoder, batch, self.special)
        tasks: dict[int, DecodingTask] = {}
        for row, probs in zip(open_rows, detected, strict=True):
            language = next(iter(probs))
            task = self.tasks[row]
            if language != task.language and probs[language] >= LIKELY:
                self.likely[row] = language
                prompt = replace_language(task.prompt, self.special, language)
                tasks[row] = replace(task, prompt=prompt, language=language)
        return tasks
