"""Settings of `compare padding --grid`: presets, combinations, single countermeasures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from whisper_hailo.core.flags import flag
from whisper_hailo.decoding.options import PRESETS

CaseSettings: TypeAlias = dict[str, Any]
"""Settings of our system; see `systems.ours`."""

BASELINE: Final = "conservative"
"""Preset that the others are compared with: free padding to the decoder's full context."""

GRID: Final = "compare padding --grid"
"""Topic of help."""


def parse_numbers(text: str) -> tuple[float, ...]:
    """Return finite numbers of a text such as `1,1.1`.

    Raises:
        ValueError: a part is no number; the message is what is expected.
    """
    expected = "numbers with commas between"
    try:
        numbers = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError(expected) from None
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(expected)
    return numbers


def parse_whole_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a text such as `0,500`.

    Raises:
        ValueError: a part is no number; the message is what is expected.
    """
    return tuple(int(number) for number in parse_numbers(text))


@dataclass(frozen=True, slots=True)
class PaddingGrid:
    """Values that are combined with each other.

    Attributes:
        pad_to: padding targets in positions.
        repetition_penalty: penalties; 1 is off.
        eot_boost: boosts; 0 is off.
        no_repeat_ngram: lengths to block, each alone.
        zero_rows: padding targets that are also tried with real zeros.
        vad: also try voice activity detection.
    """

    pad_to: tuple[int, ...] = flag(
        (0, 500, 600, 650, 700, 1000, 1500),
        "Padding targets.",
        GRID,
        metavar="N,N,...",
        parse=parse_whole_numbers,
        shown="0,500,600,650,700,1000,1500",
    )
    repetition_penalty: tuple[float, ...] = flag(
        (1.0, 1.1), "", GRID, metavar="X,X,...", parse=parse_numbers, shown="1,1.1"
    )
    eot_boost: tuple[float, ...] = flag(
        (0.0, 0.2), "", GRID, metavar="X,X,...", parse=parse_numbers, shown="0,0.2"
    )
    no_repeat_ngram: tuple[int, ...] = flag(
        (3,),
        "Each alone, without padding.",
        GRID,
        metavar="N,N,...",
        parse=parse_whole_numbers,
        shown="3",
    )
    zero_rows: tuple[int, ...] = flag(
        (500, 600, 700, 1000, 1500),
        "Targets also padded with real zeros.",
        GRID,
        metavar="N,N,...",
        parse=parse_whole_numbers,
        shown="500,600,700,1000,1500",
    )
    vad: bool = flag(False, "Also speech only (extra vad).", GRID)

    def settings(self) -> dict[str, CaseSettings]:
        """Return presets first, then combinations, then single countermeasures, by label."""
        return {**_presets(), **self._combinations(), **self._single()}

    def _combinations(self) -> dict[str, CaseSettings]:
        return {
            f"pad {pad_to}, penalty {penalty:g}, boost {boost:g}": {
                "pad_to": pad_to,
                "repetition_penalty": penalty,
                "eot_boost": boost,
            }
            for pad_to, penalty, boost in product(
                self.pad_to, self.repetition_penalty, self.eot_boost
            )
        }

    def _single(self) -> dict[str, CaseSettings]:
        settings: dict[str, CaseSettings] = {}
        for length in self.no_repeat_ngram:
            name = f"no {length}-gram twice, unpadded"
            settings[name] = {"pad_to": 0, "no_repeat_ngram": length}
        for n_rows in self.zero_rows:
            settings[f"real zeros to {n_rows}"] = {"zero_rows": n_rows}
        if self.vad:
            settings["speech only"] = {"preset": BASELINE, "vad": True}
        return settings


def _presets() -> dict[str, CaseSettings]:
    return {name: {"preset": name} for name in PRESETS}
