"""Utterances that may share a window, kept by length."""

import numpy as np

from lab.training.corpus import Utterance

SAMPLE_RATE_HZ = 16_000


class Pools:
    """Utterances by language and by whether they have a translation; each group sorted by length.

    Args:
        utterances: where to draw from; may grow.
        rng: source of all chance.
    """

    def __init__(self, utterances: list[Utterance], rng: np.random.Generator) -> None:
        self._utterances, self._rng = utterances, rng
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
