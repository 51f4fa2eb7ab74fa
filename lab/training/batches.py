"""Draws training batches: windows with speech somewhere in them, and their token rows."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lab.training.augment import FIRST_RUN, NoiseBank, Shares, disturbed, without_speech
from lab.training.corpus import Utterance
from lab.training.kept_tokens import KeptTokens
from lab.training.targets import IGNORED, NOWHERE, Segment, Span, Task, TokenRows

__all__ = ["IGNORED", "Batch", "Batcher", "Demands"]

SAMPLE_RATE_HZ = 16_000
MARGIN_S = 1.0
"""Kept free at the end of a window that is shorter than Whisper's own 30 s."""
NO_SPEECH_SHARE = 0.05
MAX_SHORT_S = 10.0
SHORTEST_CUT_S = 0.3
"""A sentence that has begun less than this before a window's end is silenced, not cut."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's input.

    Attributes:
        audio: `(batch, n_samples)` float32.
        tokens: `(batch, n_tokens)` int64 rows, the prefix and text, padded.
        targets: `(batch, n_tokens)` int64, the row that follows each, or `IGNORED`.
        phones: `(batch,)` list of the phones of each window, for CTC.
        said: `(batch,)` list of the tokens that are said in each, for CTC: text in the language
            that is heard, whatever is asked for.
        spans: `(batch, n_tokens, 2)` float32, where in the window each target is heard: its start
            and end in seconds; the end lies before the start where nothing is known.
    """

    audio: Tensor
    tokens: Tensor
    targets: Tensor
    phones: list[list[int]]
    said: list[list[int]]
    spans: Tensor

    def to(self, device: torch.device) -> "Batch":
        """Returns the batch with its tensors on `device`."""
        tensors = (part.to(device) for part in (self.audio, self.tokens, self.targets))
        return Batch(*tensors, self.phones, self.said, self.spans.to(device))


@dataclass(frozen=True, slots=True)
class Demands:
    """What windows are asked for; the defaults are plain transcription, as in the first run.

    Attributes:
        timestamps: share of windows with times.
        translate: share of translations where there are any.
        cut: share of full windows that end within a sentence (these have times).
        previous: share of windows that are told what was said before them.
        disturbances: how often each occurs.
        mistaken: share of the text's tokens that the decoder is told wrongly, and must not heed.
    """

    timestamps: float = 0.0
    translate: float = 0.0
    cut: float = 0.0
    previous: float = 0.0
    disturbances: Shares = FIRST_RUN
    mistaken: float = 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """One encoder input.

    Attributes:
        audio: `(n_samples,)` float32.
        task: what is asked for, times or none among it.
        tokens: the prefix and the text.
        targets: what follows each, or `IGNORED`.
        phones: all that is said in it.
        said: the same in tokens.
        spans: where in the window each target is heard.
    """

    audio: np.ndarray
    task: Task
    tokens: list[int]
    targets: list[int]
    phones: list[int]
    said: list[int]
    spans: list[Span]


class Batcher:
    """Makes windows of utterances.

    Args:
        utterances: where to draw from; may grow.
        kept: the trimmed vocabulary.
        rng: source of all chance.
        demands: which tasks.
    """

    def __init__(
        self,
        utterances: list[Utterance],
        kept: KeptTokens,
        rng: np.random.Generator,
        demands: Demands | None = None,
    ) -> None:
        self._rng = rng
        self._demands = demands or Demands()
        self._pools = Pools(utterances, rng)
        self._rows = TokenRows(kept)
        self._bank = NoiseBank()

    def short(
        self, seconds_per_batch: float, max_batch: int, first_s: float = 0.0
    ) -> Batch:
        """Returns utterances of about one length in the shortest window that holds them.

        `first_s`, here and below, is where in the encoder's 30 s the window starts; times count.
        """
        length_s = self._pools.between(
            self._pools.group(), 0.0, MAX_SHORT_S
        ).samples.size
        window_s = max(1.5, np.ceil((length_s / SAMPLE_RATE_HZ + 0.3) * 2) / 2)
        size = max(1, min(max_batch, int(seconds_per_batch / window_s)))
        windows = []
        for _ in range(size):
            group = self._pools.group()
            other = self._pools.between(group, window_s - 1.0, window_s - 0.1)
            windows.append(self._place([other], window_s, window_s, first_s))
        return self._collate(windows)

    def pairs(
        self, seconds_per_batch: float, max_batch: int, first_s: float = 0.0
    ) -> Batch:
        """Returns two utterances each, with a pause, in a window that they nearly fill."""
        window_s = float(self._rng.integers(4, 10))
        size = min(max_batch, int(seconds_per_batch / window_s))
        windows = []
        for _ in range(size):
            group = self._pools.group()
            first = self._pools.between(group, 0.0, window_s - 1.5)
            left_s = window_s - 0.3 - first.samples.size / SAMPLE_RATE_HZ
            second = self._pools.between(group, left_s - 1.5, left_s)
            windows.append(self._place([first, second], window_s, window_s, first_s))
        return self._collate(windows)

    def long(self, window_s: float, size: int) -> Batch:
        """Returns full windows of `window_s`: one or several utterances with pauses."""
        room_s = window_s - (MARGIN_S if window_s < 30 else 0.0)
        windows = []
        for _ in range(size):
            chosen = self._several(room_s)
            windows.append(
                self._place(chosen, window_s, room_s, 0.0, self._demands.cut)
            )
        return self._collate(windows)

    def _several(self, room_s: float) -> list[Utterance]:
        """Draws one utterance, and more as long as chance and `room_s` allow."""
        group = self._pools.group()
        chosen = [self._pools.between(group, 0.0, room_s)]
        left = room_s - chosen[0].samples.size / SAMPLE_RATE_HZ
        more = 0.6 if room_s < 15 else 0.8
        while self._rng.random() < more:
            other = self._pools.between(group, 0.0, room_s)
            left -= other.samples.size / SAMPLE_RATE_HZ + 0.5
            if left < 0:
                break
            chosen.append(other)
        return chosen

    def _task(self, chosen: list[Utterance]) -> Task:
        translated = all(" translated" in other.group for other in chosen)
        return Task(
            chosen[0].language,
            translated and self._rng.random() < self._demands.translate,
            self._rng.random() < self._demands.timestamps,
        )

    def _silence(self, task: Task, window_s: float, room: int) -> Window:
        rng = self._rng
        audio = np.zeros(int(window_s * SAMPLE_RATE_HZ), np.float32)
        end = room if rng.random() < 0.5 else int(rng.uniform(0.1, 1) * room)
        audio[:end] = without_speech(end, self._bank, rng)
        tokens, targets = self._rows.silence(task, forced_start_s=rng.uniform(0, 1))
        return Window(audio, task, tokens, targets, [], [], [NOWHERE] * len(tokens))

    def _starts(self, chosen: list[Utterance], room: int) -> list[int]:
        """Draws the first sample of each utterance; pauses are random."""
        rng = self._rng
        slack = max(0, room - sum(other.samples.size for other in chosen))
        # Most recordings start with their speech; some do not.
        share = rng.uniform(0, 1) ** 2
        cuts = np.sort(rng.uniform(0, slack * share, len(chosen))).astype(int)
        if len(chosen) == 1 and rng.random() < 0.3:
            cuts[0] = min(slack, int(rng.uniform(0, 0.3) * SAMPLE_RATE_HZ))
        lengths = [other.samples.size for other in chosen]
        return [int(cut) + sum(lengths[:number]) for number, cut in enumerate(cuts)]

    def _place(
        self,
        chosen: list[Utterance],
        window_s: float,
        room_s: float,
        first_s: float,
        cut_share: float = 0.0,
    ) -> Window:
        """Puts utterances into a window at random times, disturbs them, zeroes the rest."""
        rng = self._rng
        task = self._task(chosen)
        room = int(room_s * SAMPLE_RATE_HZ)
        if rng.random() < NO_SPEECH_SHARE:
            return self._silence(task, window_s, room)
        starts = self._starts(chosen, room)
        if cut_share and rng.random() < cut_share:
            # Moved behind each other and up to the end, so that the last one is cut.
            late = (
                room
                - starts[-1]
                - int(rng.uniform(0.1, 0.95) * chosen[-1].samples.size)
            )
            starts[-1] += max(0, late)
            task = Task(task.language, task.translate, timestamps=True)
        audio = _sound(chosen, starts, int(window_s * SAMPLE_RATE_HZ), room)
        segments, phones, said, silent_from = _segments(
            chosen, starts, task, room, first_s
        )
        audio[silent_from:] = 0.0
        at = min(room, starts[-1] + chosen[-1].samples.size)
        end = (
            room
            if rng.random() < 0.4
            else min(room, at + int(rng.uniform(0, SAMPLE_RATE_HZ)))
        )
        audio[:end] = disturbed(
            audio[:end], self._bank, rng, self._demands.disturbances
        )
        spans = [
            (start - first_s, end - first_s)
            for start, end in self._rows.spans(task, segments)
        ]
        tokens, targets = self._rows.speech(task, segments)
        tokens = self._rows.with_mistakes(tokens, self._demands.mistaken, rng)
        previous = self._previous(chosen[0].group)
        return Window(
            audio,
            task,
            previous + tokens,
            [IGNORED] * len(previous) + targets,
            phones,
            said,
            [NOWHERE] * len(previous) + spans,
        )

    def _previous(self, group: str) -> list[int]:
        """Draws what was said before, as Whisper is told it; mostly nothing."""
        if self._rng.random() >= self._demands.previous:
            return []
        other = self._pools.between(group, 0.0, MAX_SHORT_S)
        with_times = self._rng.random() < 0.5
        segments = [
            Segment(each.rows, each.start_s, each.end_s) for each in other.sentences
        ]
        return self._rows.previous(segments, with_times)

    def _collate(self, windows: list[Window]) -> Batch:
        longest = max(len(given.tokens) for given in windows)
        eot = self._rows.eot
        missing = [longest - len(given.tokens) for given in windows]
        pairs = list(zip(windows, missing, strict=True))
        return Batch(
            torch.from_numpy(np.stack([given.audio for given in windows])),
            torch.tensor([given.tokens + [eot] * n for given, n in pairs]),
            torch.tensor([given.targets + [IGNORED] * n for given, n in pairs]),
            [given.phones for given in windows],
            [given.said for given in windows],
            torch.tensor([given.spans + [NOWHERE] * n for given, n in pairs]),
        )


def _sound(
    chosen: list[Utterance], starts: list[int], size: int, room: int
) -> np.ndarray:
    """Returns utterances at their places, `(size,)` float32; none sounds behind sample `room`."""
    audio = np.zeros(size, np.float32)
    for start, other in zip(starts, chosen, strict=True):
        heard = other.samples[: room - start].astype(np.float32) / 32768
        audio[start : start + heard.size] = heard
    return audio


def _segments(
    chosen: list[Utterance], starts: list[int], task: Task, room: int, first_s: float
) -> tuple[list[Segment], list[int], list[int], int]:
    """Returns what is wanted of all that is said before sample `room`, and what is said.

    Returns:
        Segments; phones; tokens in the language that is heard; the sample where sound must end.
    """
    segments: list[Segment] = []
    phones: list[int] = []
    said: list[int] = []
    for start, other in zip(starts, chosen, strict=True):
        for sentence in other.sentences:
            rows = sentence.translation if task.translate else sentence.rows
            begins_s, ends_s = (
                t + start / SAMPLE_RATE_HZ for t in (sentence.start_s, sentence.end_s)
            )
            left_s = room / SAMPLE_RATE_HZ - begins_s
            if ends_s <= room / SAMPLE_RATE_HZ:
                at_s = start / SAMPLE_RATE_HZ + first_s
                spans = () if task.translate else sentence.spans
                placed = tuple((begin + at_s, end + at_s) for begin, end in spans)
                segments.append(
                    Segment(rows or [], begins_s + first_s, ends_s + first_s, placed)
                )
                phones += sentence.phones
                said += sentence.rows
                continue
            if left_s < SHORTEST_CUT_S:
                return segments, phones, said, max(0, int(begins_s * SAMPLE_RATE_HZ))
            segments.append(Segment([], begins_s + first_s, None))
            # Phones and tokens up to the cut, as if all took the same time.
            heard = left_s / (ends_s - begins_s)
            phones += sentence.phones[: int(len(sentence.phones) * heard)]
            said += sentence.rows[: int(len(sentence.rows) * heard)]
            return segments, phones, said, room
    return segments, phones, said, room


class Pools:
    """Utterances by language and by whether they have a translation; each group sorted by length.

    Args:
        utterances: where to draw from; may grow.
        rng: source of all chance.
    """

    def __init__(self, utterances: list[Utterance], rng: np.random.Generator) -> None:
        self._utterances = utterances
        self._rng = rng
        self._n_sorted = -1
        self._groups: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def _sort(self) -> None:
        """Sorts all utterances again if some have come."""
        if self._n_sorted == len(self._utterances):
            return
        self._n_sorted = len(self._utterances)
        members: dict[str, list[int]] = {}
        for number, other in enumerate(self._utterances):
            members.setdefault(other.group, []).append(number)
        for name, numbers in members.items():
            lengths_s = np.array(
                [
                    self._utterances[number].samples.size / SAMPLE_RATE_HZ
                    for number in numbers
                ]
            )
            order = np.argsort(lengths_s, kind="stable")
            self._groups[name] = (np.array(numbers)[order], lengths_s[order])

    def group(self) -> str:
        """Draws a group, by its size."""
        self._sort()
        names = list(self._groups)
        sizes = np.array([self._groups[name][0].size for name in names])
        return names[int(self._rng.choice(len(names), p=sizes / sizes.sum()))]

    def between(self, group: str, low_s: float, high_s: float) -> Utterance:
        """Draws an utterance of a length in this range, or a shortest one if there is none."""
        self._sort()
        numbers, lengths_s = self._groups[group]
        low, high = np.searchsorted(lengths_s, (low_s, high_s))
        low = min(low, max(0, high - 1))
        return self._utterances[
            int(numbers[self._rng.integers(low, max(high, low + 1))])
        ]
