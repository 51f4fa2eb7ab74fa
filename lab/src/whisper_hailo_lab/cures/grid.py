"""Which settings are compared: presets, cures in all combinations, then one cure at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from whisper_hailo.decoding.options import PRESETS, AntiRepetition, DecodingOptions, TokenLimits
from whisper_hailo.transcription.longform.options import LongOptions

BASELINE = "conservative"
"""What the others are compared with: free padding to all that the decoder was trained on."""


@dataclass(frozen=True, slots=True)
class CureSetting:
    """One row of the comparison.

    Attributes:
        name: short and unique.
        cures: padding, penalty, boost.
        no_repeat_ngram: length of the runs that may not come twice; 0 is off.
        zero_rows: pad with rows of zeros that are really there, in place of the free padding.
        vad: only where someone speaks.
    """

    name: str
    anti_repetition: AntiRepetition
    no_repeat_ngram: int = 0
    zero_rows: bool = False
    vad: bool = False

    def options(self, base: DecodingOptions) -> DecodingOptions:
        """Decoding options of this row."""
        # The encoder has added the zeros already; the decoder adds none.
        anti_repetition = (
            replace(self.anti_repetition, pad_to=0) if self.zero_rows else self.anti_repetition
        )
        return replace(
            base,
            anti_repetition=anti_repetition,
            limits=TokenLimits(no_repeat_ngram=self.no_repeat_ngram),
        )

    def long(self) -> LongOptions:
        """Windows side by side, so that each setting hears the same ones."""
        return LongOptions(strategy="vad" if self.vad else "consecutive")


@dataclass(frozen=True, slots=True)
class Grid:
    """Values that are combined with each other.

    Attributes:
        pad_to: padding targets in positions.
        repetition_penalty: 1 is off.
        eot_boost: 0 is off.
        ngrams: lengths to block, each alone.
        zero_rows: padding targets that are also tried with real zeros.
        vad: also try voice activity detection.
    """

    pad_to: tuple[int, ...] = (0, 500, 600, 650, 700, 1000, 1500)
    repetition_penalty: tuple[float, ...] = (1.0, 1.1)
    eot_boost: tuple[float, ...] = (0.0, 0.2)
    ngrams: tuple[int, ...] = (3,)
    zero_rows: tuple[int, ...] = (500, 600, 700, 1000, 1500)
    vad: bool = False

    def settings(self) -> list[CureSetting]:
        """Presets first, then the grid, then one cure at a time."""
        return list(self._presets()) + list(self._grid()) + list(self._alone())

    def _presets(self) -> Iterator[CureSetting]:
        yield from (CureSetting(name, anti_repetition) for name, anti_repetition in PRESETS.items())

    def _grid(self) -> Iterator[CureSetting]:
        for pad_to, penalty, boost in product(self.pad_to, self.repetition_penalty, self.eot_boost):
            name = f"pad {pad_to}, penalty {penalty:g}, boost {boost:g}"
            yield CureSetting(
                name, AntiRepetition(pad_to, repetition_penalty=penalty, eot_boost=boost)
            )

    def _alone(self) -> Iterator[CureSetting]:
        for n in self.ngrams:
            yield CureSetting(
                f"no {n}-gram twice, unpadded", AntiRepetition(pad_to=0), no_repeat_ngram=n
            )
        for pad_to in self.zero_rows:
            yield CureSetting(
                f"real zeros to {pad_to}", AntiRepetition(pad_to=pad_to), zero_rows=True
            )
        if self.vad:
            yield CureSetting("speech only", PRESETS[BASELINE], vad=True)


def first_difference(expected: Sequence[str], got: Sequence[str]) -> int | None:
    """Index of the first text that differs; `None` where all are the same."""
    pairs = zip(expected, got, strict=True)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)
