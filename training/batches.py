"""Draws training batches: windows with speech somewhere in them, and their token rows."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training import whisper_vocabulary as ids
from training.augment import NoiseBank, disturbed, without_speech
from training.corpus import Utterance
from training.kept_tokens import PREFIX, KeptTokens

SAMPLE_RATE_HZ = 16_000
MARGIN_S = 1.0
"""Kept free at the end of a window that is shorter than Whisper's own 30 s."""
NO_SPEECH_SHARE = 0.05
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's input.

    Attributes:
        audio: `(batch, n_samples)` float32.
        tokens: `(batch, n_tokens)` int64 rows, the prefix and text, padded.
        targets: `(batch, n_tokens)` int64, the row that follows each, or `IGNORED`.
        phones: `(batch,)` list of the phones of each window, for CTC.
    """

    audio: Tensor
    tokens: Tensor
    targets: Tensor
    phones: list[list[int]]


@dataclass(frozen=True, slots=True)
class Window:
    """One encoder input.

    Attributes:
        audio: `(n_samples,)` float32.
        rows: tokens of all that is said in it, `None` if there is no speech.
        phones: the same as phones.
    """

    audio: np.ndarray
    rows: list[int] | None
    phones: list[int]


class Batcher:
    """Makes windows of utterances.

    Args:
        utterances: where to draw from; may grow.
        kept: the trimmed vocabulary.
        rng: source of all chance.
    """

    def __init__(
        self, utterances: list[Utterance], kept: KeptTokens, rng: np.random.Generator
    ) -> None:
        self._utterances = utterances
        self._rng = rng
        self._bank = NoiseBank()
        self._by_length = np.zeros(0, np.int64)
        self._lengths_s = np.zeros(0)
        self._prefix = kept.rows(list(PREFIX))
        self._eot, self._no_speech = kept.rows([ids.EOT, ids.NO_SPEECH])

    def short(self, seconds_per_batch: float, max_batch: int) -> Batch:
        """Returns utterances of about one length in the shortest window that holds them."""
        lengths_s = self._sorted_lengths_s()
        length_s = lengths_s[self._rng.integers(lengths_s.size)]
        window_s = max(1.5, np.ceil((length_s + 0.3) * 2) / 2)
        size = min(max_batch, int(seconds_per_batch / window_s))
        fitting = [self._draw_between(window_s - 1.0, window_s - 0.1) for _ in range(size)]
        windows = [self._place([other], window_s, window_s) for other in fitting]
        return self._collate(windows)

    def pairs(self, seconds_per_batch: float, max_batch: int) -> Batch:
        """Returns two utterances each, with a pause, in a window that they nearly fill."""
        window_s = float(self._rng.integers(4, 10))
        size = min(max_batch, int(seconds_per_batch / window_s))
        windows = []
        for _ in range(size):
            first = self._draw_between(0.0, window_s - 1.5)
            left_s = window_s - 0.3 - first.samples.size / SAMPLE_RATE_HZ
            second = self._draw_between(left_s - 1.5, left_s)
            windows.append(self._place([first, second], window_s, window_s))
        return self._collate(windows)

    def long(self, window_s: float, size: int) -> Batch:
        """Returns full windows of `window_s`: one or several utterances with pauses."""
        margin = MARGIN_S if window_s < 30 else 0.0
        windows = []
        for _ in range(size):
            windows.append(
                self._place(self._several(window_s - margin), window_s, window_s - margin)
            )
        return self._collate(windows)

    def _sorted_lengths_s(self) -> np.ndarray:
        """Returns all lengths, rising, sorted again when utterances have come."""
        if self._lengths_s.size != len(self._utterances):
            lengths = np.array([other.samples.size for other in self._utterances])
            self._by_length = np.argsort(lengths, kind="stable")
            self._lengths_s = lengths[self._by_length] / SAMPLE_RATE_HZ
        return self._lengths_s

    def _draw(self) -> Utterance:
        return self._utterances[self._rng.integers(len(self._utterances))]

    def _draw_between(self, low_s: float, high_s: float) -> Utterance:
        """Draws an utterance of a length in this range, or a shortest one if there is none."""
        low, high = np.searchsorted(self._sorted_lengths_s(), (low_s, high_s))
        low = min(low, max(0, high - 1))
        chosen = self._by_length[self._rng.integers(low, max(high, low + 1))]
        return self._utterances[int(chosen)]

    def _several(self, room_s: float) -> list[Utterance]:
        """Draws one utterance, and more as long as chance and `room_s` allow."""
        chosen = [self._draw()]
        left = room_s - chosen[0].samples.size / SAMPLE_RATE_HZ
        more = 0.6 if room_s < 15 else 0.8
        while self._rng.random() < more:
            other = self._draw()
            left -= other.samples.size / SAMPLE_RATE_HZ + 0.5
            if left < 0:
                break
            chosen.append(other)
        return chosen

    def _place(self, chosen: list[Utterance], window_s: float, room_s: float) -> Window:
        """Puts utterances into a window at random times, disturbs them, zeroes the rest."""
        rng = self._rng
        audio = np.zeros(int(window_s * SAMPLE_RATE_HZ), np.float32)
        room = int(room_s * SAMPLE_RATE_HZ)
        if rng.random() < NO_SPEECH_SHARE:
            end = room if rng.random() < 0.5 else int(rng.uniform(0.1, 1) * room)
            audio[:end] = without_speech(end, self._bank, rng)
            return Window(audio, None, [])
        slack = room - sum(other.samples.size for other in chosen)
        # Most recordings start with their speech; some do not.
        share = rng.uniform(0, 1) ** 2
        cuts = np.sort(rng.uniform(0, slack * share, len(chosen))).astype(int)
        if len(chosen) == 1 and rng.random() < 0.3:
            cuts[0] = min(slack, int(rng.uniform(0, 0.3) * SAMPLE_RATE_HZ))
        at = 0
        for cut, other in zip(np.diff(cuts, prepend=0), chosen, strict=True):
            at += cut
            audio[at : at + other.samples.size] = other.samples.astype(np.float32) / 32768
            at += other.samples.size
        end = room if rng.random() < 0.4 else min(room, at + int(rng.uniform(0, SAMPLE_RATE_HZ)))
        audio[:end] = disturbed(audio[:end], self._bank, rng)
        rows = [row for other in chosen for row in other.rows]
        return Window(audio, rows, [phone for other in chosen for phone in other.phones])

    def _collate(self, windows: list[Window]) -> Batch:
        tokens, targets = [], []
        for given in windows:
            row = self._prefix + (given.rows or [])
            target = [*row[1:], self._eot]
            if given.rows is None:
                target = [self._no_speech, *[IGNORED] * (len(row) - 2), self._eot]
            tokens.append(row)
            targets.append(target)
        longest = max(map(len, tokens))
        return Batch(
            torch.from_numpy(np.stack([given.audio for given in windows])),
            torch.tensor([row + [self._eot] * (longest - len(row)) for row in tokens]),
            torch.tensor([row + [IGNORED] * (longest - len(row)) for row in targets]),
            [given.phones for given in windows],
        )
