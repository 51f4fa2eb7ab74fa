"""The price of doubt: decoder work of each window, beside that of its first search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder, Padding, StepOutput
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_lab.tables import Table, format_percent, make_table
from whisper_hailo_lab.wrappers import DecoderWrapper


@dataclass(slots=True)
class WindowWork:
    """Decoder work of one window, in rows that passed through the decoder.

    Attributes:
        searches: of each search in order; the first one is greedy by default.
    """

    searches: list[int] = field(default_factory=list)

    @property
    def long_searches(self) -> list[int]:
        """Searches of more than one pass: the others detect languages or time words."""
        return [n_rows for n_rows in self.searches if n_rows > 1]

    @property
    def ratio(self) -> float:
        """All work by that of the first search."""
        searches = self.long_searches
        return sum(searches) / searches[0]


class WorkCounter(DecoderWrapper):
    """A decoder that counts the rows of each pass; it decodes one window after another.

    Attributes:
        windows: work of each window, in order.
    """

    def __init__(self, decoder: AnyDecoder) -> None:
        super().__init__(decoder)
        self.windows: list[WindowWork] = []
        self._current: Any = None
        """The state that the running search goes on from."""

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> Any:  # noqa: ANN401
        """Begin a window."""
        self.windows.append(WindowWork())
        self._current = None
        return super().start(audio_features, paddings, n_positions)

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, Any]:
        """Count the rows of a pass; one from another state begins a search."""
        searches = self.windows[-1].searches
        if state is not self._current:
            searches.append(0)
        searches[-1] += len(tokens)
        output, self._current = super().step(
            tokens, state, positions, first=first, alignment=alignment
        )
        return output, self._current

    def select(self, state: Any, rows: IntArray) -> Any:  # noqa: ANN401
        """Return the state of some rows; that of the running search goes on with it."""
        is_current = state is self._current
        selected = super().select(state, rows)
        if is_current:
            self._current = selected
        return selected

    def rewind(self, state: Any, n_tokens: int) -> Any:  # noqa: ANN401
        """Return the state after its first tokens, with which its search goes on."""
        is_current = state is self._current
        rewound = super().rewind(state, n_tokens)
        if is_current:
            self._current = rewound
        return rewound


def compare_work(systems: Mapping[str, Sequence[WindowWork]]) -> Table:
    """Return a line per system over all of its windows."""
    rows = [_summarize(name, windows) for name, windows in systems.items()]
    return make_table(
        rows,
        (
            ("model", "{name}"),
            ("windows", "{windows}"),
            ("of these searched again", "{retried}"),
            ("all work", "{mean:.2f}"),
            ("median window", "{median:.2f}"),
            ("90 %", "{p90:.2f}"),
            ("99 %", "{p99:.2f}"),
            ("worst", "{worst:.2f}"),
        ),
    )


def _summarize(name: str, windows: Sequence[WindowWork]) -> dict[str, Any]:
    """Return the distribution of the work of windows, the first search of each being 1."""
    searched = [window for window in windows if window.long_searches]
    ratios = np.array([window.ratio for window in searched])
    n_first = sum(window.long_searches[0] for window in searched)
    n_all = sum(sum(window.long_searches) for window in searched)
    n_retried = sum(len(window.long_searches) > 1 for window in searched)
    return {
        "name": name,
        "windows": len(searched),
        "retried": format_percent(n_retried / len(searched)),
        "mean": n_all / n_first,
        "median": float(np.median(ratios)),
        "p90": float(np.quantile(ratios, 0.9)),
        "p99": float(np.quantile(ratios, 0.99)),
        "worst": float(ratios.max()),
    }
