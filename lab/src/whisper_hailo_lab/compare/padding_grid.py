"""Settings of `compare padding --grid`: presets, combinations, single countermeasures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from whisper_hailo.core.flags import flag
from whisper_hailo.decoding.options import (
    PRESETS,
    AntiRepetition,
    DecodingOptions,
    TokenLimits,
)
from whisper_hailo.transcription.longform.options import LongOptions

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
class PaddingSetting:
    """One row of the comparison.

    Attributes:
        name: short and unique.
        anti_repetition: padding, penalty, boost.
        no_repeat_ngram: length of the runs that may not come twice; 0 is off.
        zero_rows: pad with rows of zeros in place of the free padding.
        vad: transcribe speech only.
    """

    name: str
    anti_repetition: AntiRepetition
    no_repeat_ngram: int = 0
    zero_rows: bool = False
    vad: bool = False

    def decoding_options(self, base: DecodingOptions) -> DecodingOptions:
        """Return the decoding options of this row."""
        anti_repetition = self.anti_repetition
        if self.zero_rows:
            # The encoder has added the zeros already; the decoder adds none.
            anti_repetition = replace(anti_repetition, pad_to=0)
        limits = TokenLimits(no_repeat_ngram=self.no_repeat_ngram)
        return replace(base, anti_repetition=anti_repetition, limits=limits)

    def long_options(self) -> LongOptions:
        """Return options of consecutive windows, the same for each setting."""
        return LongOptions(strategy="vad" if self.vad else "consecutive")


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

    def settings(self) -> list[PaddingSetting]:
        """Return presets first, then combinations, then single countermeasures."""
        return [*self._presets(), *self._combinations(), *self._single()]

    def _presets(self) -> Iterator[PaddingSetting]:
        for name, anti_repetition in PRESETS.items():
            yield PaddingSetting(name, anti_repetition)

    def _combinations(self) -> Iterator[PaddingSetting]:
        for pad_to, penalty, boost in product(
            self.pad_to, self.repetition_penalty, self.eot_boost
        ):
            name = f"pad {pad_to}, penalty {penalty:g}, boost {boost:g}"
            values = AntiRepetition(pad_to, repetition_penalty=penalty, eot_boost=boost)
            yield PaddingSetting(name, values)

    def _single(self) -> Iterator[PaddingSetting]:
        for length in self.no_repeat_ngram:
            name = f"no {length}-gram twice, unpadded"
            yield PaddingSetting(name, AntiRepetition(pad_to=0), no_repeat_ngram=length)
        for pad_to in self.zero_rows:
            name = f"real zeros to {pad_to}"
            yield PaddingSetting(name, AntiRepetition(pad_to=pad_to), zero_rows=True)
        if self.vad:
            yield PaddingSetting("speech only", PRESETS[BASELINE], vad=True)
