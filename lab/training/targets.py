"""Token rows of a window for every task, and which of their positions are learnt.

`<|startoftranscript|><|en|><|transcribe|><|notimestamps|> text` or, with times,
`<|startoftranscript|><|en|><|transcribe|><|0.00|> text<|1.20|><|1.80|> text<|3.04|>`; the target of
each token is the one that follows, `<|endoftext|>` at the end. Not learnt is what the audio does
not tell: what was said before (`<|startofprev|> text`, in front of all this), which task is asked
for, and whether times are. The language is: so it can be detected.
"""

from dataclasses import dataclass

import numpy as np

from lab.training import whisper_vocabulary as ids
from lab.training.kept_tokens import KeptTokens

IGNORED = -100
Span = tuple[float, float]
NOWHERE: Span = (0.0, -1.0)
"""Of a token that belongs to no place in the audio."""
AROUND_TIME_S = 0.1
"""A time is read off the sound this much before and after it."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of the decoder.

    Attributes:
        language: Whisper's code of what is spoken.
        translate: English text is wanted, whatever is spoken.
        timestamps: times are wanted.
    """

    language: str = "en"
    translate: bool = False
    timestamps: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """One sentence in a window.

    Attributes:
        rows: its text as rows of the trimmed vocabulary, in the language wanted.
        start_s: its start within the encoder's 30 s.
        end_s: its end there; `None` if the window ends first: only its start is then written.
        spans: start and end there of the word that each row belongs to; none if unknown.
    """

    rows: list[int]
    start_s: float
    end_s: float | None
    spans: tuple[Span, ...] = ()


class TokenRows:
    """Builds inputs and targets in rows of a trimmed vocabulary.

    Args:
        kept: the trimmed vocabulary; timestamps and languages must be kept to be asked for.
    """

    def __init__(self, kept: KeptTokens) -> None:
        self._index = {token: row for row, token in enumerate(kept.ids)}
        self.eot = self._index[ids.EOT]
        self._no_speech = self._index[ids.NO_SPEECH]

    def _prefix(self, task: Task) -> list[int]:
        language = ids.FIRST_LANGUAGE + ids.LANGUAGES.index(task.language)
        kind = ids.TRANSLATE if task.translate else ids.TRANSCRIBE
        return [self._index[token] for token in (ids.SOT, language, kind)]

    def _time(self, seconds: float, earliest: int = 0) -> tuple[int, int]:
        """Returns the row of a time on the grid of 0.02 s, not before `earliest`, and its step."""
        step = min(
            max(round(seconds / ids.TIMESTAMP_STEP_S), earliest), ids.N_TIMESTAMPS - 1
        )
        return self._index[ids.FIRST_TIMESTAMP + step], step

    def speech(
        self, task: Task, segments: list[Segment]
    ) -> tuple[list[int], list[int]]:
        """Returns the tokens and targets, of one length, of a window with speech.

        Raises:
            ValueError: a segment is cut off, which only timestamps can say.
        """
        prefix = self._prefix(task)
        text = []
        earliest = 0
        for segment in segments:
            if not task.timestamps:
                if segment.end_s is None:
                    raise ValueError(
                        "a segment without end needs a task with timestamps"
                    )
                text += segment.rows
                continue
            start, earliest = self._time(segment.start_s, earliest)
            text.append(start)
            if segment.end_s is not None:
                end, earliest = self._time(segment.end_s, earliest)
                text += [*segment.rows, end]
        if task.timestamps:
            tokens = prefix + text
            return tokens, [tokens[1], IGNORED, *tokens[3:], self.eot]
        tokens = [*prefix, self._index[ids.NO_TIMESTAMPS], *text]
        return tokens, [tokens[1], IGNORED, IGNORED, *tokens[4:], self.eot]

    def with_mistakes(
        self, tokens: list[int], share: float, rng: np.random.Generator
    ) -> list[int]:
        """Exchanges some of the text's rows for random ones, as after mistakes of one's own.

        A decoder that has only ever seen true text goes on from a wrong word with whatever often
        follows it; one that cannot trust the text listens on.
        """
        if not share:
            return tokens
        # Rows are in the order of the ids, and text comes before this one.
        n_text = self.eot
        wrong = rng.random(len(tokens)) < share
        others = rng.integers(0, n_text, len(tokens)).tolist()
        return [
            other if exchange and row < n_text else row
            for row, other, exchange in zip(tokens, others, wrong, strict=True)
        ]

    def previous(self, segments: list[Segment], timestamps: bool) -> list[int]:
        """Returns `<|startofprev|>` and the text of what was said before a window."""
        rows = [self._index[ids.START_OF_PREV]]
        for segment in segments:
            start, earliest = self._time(segment.start_s)
            end, _ = self._time(segment.end_s or segment.start_s, earliest)
            rows += [start, *segment.rows, end] if timestamps else segment.rows
        return rows

    def spans(self, task: Task, segments: list[Segment]) -> list[Span]:
        """Returns where in the 30 s each target of `speech` is heard, or `NOWHERE`."""
        found: list[Span] = []
        for segment in segments:
            text = segment.spans or (NOWHERE,) * len(segment.rows)
            if not task.timestamps:
                found += text
                continue
            found.append(_around(segment.start_s))
            if segment.end_s is not None:
                found += [*text, _around(segment.end_s)]
        n_prefix = 3 if task.timestamps else 4
        return [NOWHERE] * (n_prefix - 1) + found + [NOWHERE]

    def silence(
        self, task: Task, forced_start_s: float = 0.0
    ) -> tuple[list[int], list[int]]:
        """Returns the tokens and targets of a window without speech.

        The first target is `<|nospeech|>`; the text is empty. With timestamps the end is learnt
        both before and after a first time, since Whisper's rules may force one.

        Args:
            task: what is asked for; its language is that of nobody.
            forced_start_s: the time a decoder was made to write.
        """
        prefix = self._prefix(task)
        if task.timestamps:
            tokens = [*prefix, self._time(forced_start_s)[0]]
            return tokens, [self._no_speech, IGNORED, self.eot, self.eot]
        tokens = [*prefix, self._index[ids.NO_TIMESTAMPS]]
        return tokens, [self._no_speech, IGNORED, IGNORED, self.eot]


def _around(time_s: float) -> Span:
    return time_s - AROUND_TIME_S, time_s + AROUND_TIME_S
