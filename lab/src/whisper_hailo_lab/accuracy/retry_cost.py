"""The price of doubt: decoder work of each window, beside that of its first search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whisper_hailo.core.protocols import AnyDecoder, Padding, StepOutput
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo_lab.runs.machine import cpu_s
from whisper_hailo_lab.wrappers import DecoderWrapper


@dataclass(slots=True)
class SearchWork:
    """Decoder work of one search.

    Attributes:
        n_rows: rows that passed through the decoder.
        seconds: processor seconds from the begin of its first pass to the end of its last one.
    """

    n_rows: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class WindowWork:
    """Decoder work of one window.

    Attributes:
        searches: each search in order; the first one is greedy by default.
    """

    searches: list[SearchWork] = field(default_factory=list)

    @property
    def long_searches(self) -> list[SearchWork]:
        """Searches of more than one pass: the others detect languages or time words."""
        return [search for search in self.searches if search.n_rows > 1]

    @property
    def row_ratio(self) -> float:
        """Rows of all searches by those of the first one."""
        n_rows = [search.n_rows for search in self.long_searches]
        return sum(n_rows) / n_rows[0]

    @property
    def time_ratio(self) -> float:
        """Processor time of all searches by that of the first one."""
        seconds = [search.seconds for search in self.long_searches]
        return sum(seconds) / seconds[0]


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
        self._begin_s = 0.0
        """Processor time when the running search began."""

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
            searches.append(SearchWork())
            self._begin_s = cpu_s()
        output, self._current = super().step(
            tokens, state, positions, first=first, alignment=alignment
        )
        searches[-1].n_rows += len(tokens)
        searches[-1].seconds = cpu_s() - self._begin_s
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


def summarize_work(windows: Sequence[WindowWork]) -> dict[str, Any]:
    """Return the distribution of the work of windows, the first search of each being 1."""
    searched = [window for window in windows if window.long_searches]
    n_retried = sum(len(window.long_searches) > 1 for window in searched)
    firsts = [window.long_searches[0] for window in searched]
    every = [search for window in searched for search in window.long_searches]
    n_first = sum(search.n_rows for search in firsts)
    first_s = sum(search.seconds for search in firsts)
    rows = [window.row_ratio for window in searched]
    times = [window.time_ratio for window in searched]
    return {
        "windows": len(searched),
        "retried": n_retried,
        "rows": {"all": round(sum(search.n_rows for search in every) / n_first, 4)}
        | _find_quantiles(rows),
        "time": {"all": round(sum(search.seconds for search in every) / first_s, 4)}
        | _find_quantiles(times),
    }


def _find_quantiles(ratios: Sequence[float]) -> dict[str, float]:
    values = np.array(ratios)
    quantiles = {
        "median": np.median(values),
        "p90": np.quantile(values, 0.9),
        "p99": np.quantile(values, 0.99),
        "worst": values.max(),
    }
    return {name: round(float(value), 4) for name, value in quantiles.items()}
