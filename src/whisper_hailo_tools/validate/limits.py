"""How far values are from a reference, and how far they may be: `validate`'s limits and options."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.checkpoint.weights import AnyArray
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import expect, flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.spec import PARTS

INFINITE: Final = 1e30
"""As large as no value of a model is, and larger than every mask that stands for infinity."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of a reference.

    Attributes:
        max_abs: largest absolute difference; infinite where a value is no number.
        mean_abs: mean absolute difference.
        relative: largest difference over `max(1, largest reference value)`.
        cosine: of the angle between both, all values as one vector.
        snr_db: signal-to-noise ratio: energy of the reference over energy of the difference;
            infinite for equal arrays.
        psnr_db: the same with the largest reference value squared for every value's signal.
    """

    max_abs: float
    mean_abs: float
    relative: float
    cosine: float
    snr_db: float
    psnr_db: float

    def to_dict(self) -> dict[str, float | None]:
        """For JSON, which has no infinity: equal arrays have `None` for both ratios."""
        values: dict[str, float] = asdict(self)
        return {key: value if math.isfinite(value) else None for key, value in values.items()}


@dataclass(slots=True)
class DifferenceTally:
    """Sums over pieces of two arrays."""

    n: int = 0
    max_abs: float = 0.0
    peak: float = 0.0
    sum_abs: float = 0.0
    noise: float = 0.0
    signal: float = 0.0
    other: float = 0.0
    product: float = 0.0

    def add(self, got: AnyArray, expected: AnyArray) -> None:
        """Count one piece; both arrays have one shape.

        Where the reference is infinite (a mask, for which some graphs take a huge number) the other
        has to be infinite with the same sign and is not counted.
        """
        a, b = np.asarray(got, np.float64).ravel(), np.asarray(expected, np.float64).ravel()
        counted = np.abs(b) < INFINITE
        if not counted.all():
            same = np.abs(a[~counted]) >= INFINITE
            same &= np.sign(a[~counted]) == np.sign(b[~counted])
            a, b = a[counted], b[counted]
            self.max_abs = self.max_abs if same.all() else math.inf
        if not np.isfinite(a).all():
            self.max_abs = math.inf
            a = np.nan_to_num(a, nan=0.0, posinf=0.0, neginf=0.0)
        if b.size == 0:
            return
        apart = np.abs(a - b)
        self.n += b.size
        self.max_abs = max(self.max_abs, float(apart.max()))
        self.peak = max(self.peak, float(np.abs(b).max()))
        self.sum_abs += float(apart.sum())
        self.noise += float(apart @ apart)
        self.signal += float(b @ b)
        self.other += float(a @ a)
        self.product += float(a @ b)

    def difference(self) -> Difference:
        """Return the sum of the pieces so far."""
        lengths = math.sqrt(self.signal * self.other)
        if lengths:
            cosine = min(1.0, self.product / lengths)
        else:
            cosine = 1.0 if self.signal == self.other else 0.0
        return Difference(
            max_abs=self.max_abs,
            mean_abs=self.sum_abs / self.n if self.n else 0.0,
            relative=self.max_abs / max(1.0, self.peak),
            cosine=cosine,
            snr_db=_decibels(self.signal, self.noise, self.max_abs),
            psnr_db=_decibels(self.peak**2 * self.n, self.noise, self.max_abs),
        )


def difference(got: AnyArray, expected: AnyArray) -> Difference:
    """Compare two arrays of one shape."""
    tally = DifferenceTally()
    tally.add(got, expected)
    return tally.difference()


def aligned(got: AnyArray, expected: AnyArray) -> AnyArray:
    """`got` with its axes in the order of `expected`'s, as far as shapes and values tell."""
    if got.shape == expected.shape:
        return got
    target = tuple(axis for axis in expected.shape if axis != 1)
    source = got.reshape([axis for axis in got.shape if axis != 1])
    if source.shape == target:
        return source.reshape(expected.shape)
    best, least = None, np.inf
    for order in permutations(range(source.ndim)):
        turned = source.transpose(order)
        if turned.shape != target:
            continue
        apart = float(np.abs(turned - expected.reshape(target)).max())
        if apart < least:
            best, least = turned, apart
    if best is not None:
        return best.reshape(expected.shape)
    # Heads apart and heads merged: no turn of axes leads from one to the other, sorting does.
    order_of = np.argsort(expected, axis=None, kind="stable")
    sorted_got = np.empty(expected.size, got.dtype)
    sorted_got[order_of] = np.sort(got, axis=None)
    return sorted_got.reshape(expected.shape)


def _decibels(signal: float, noise: float, worst: float) -> float:
    if not math.isfinite(worst):
        return -math.inf
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


FLOAT, QUANTIZED, HAILO, EMULATED, HEF = "float32", "quantised", "hailo-form", "emulated", "hef"
RUNGS: Final = (FLOAT, QUANTIZED, HAILO, EMULATED, HEF)


@dataclass(frozen=True, slots=True)
class Limit:
    """What a difference may be at most: `relative` at most, or `snr_db` at least, the value."""

    measure: str
    value: float

    def holds(self, found: Difference) -> bool:
        """Return whether a difference is within it."""
        if self.measure == "snr_db":
            return found.snr_db >= self.value
        return found.relative <= self.value

    @property
    def text(self) -> str:
        """As a table shows it."""
        if self.measure == "snr_db":
            return f"SNR >= {self.value:g} dB"
        return f"relative <= {self.value:g}"


EXACT: Final = Limit("relative", 1e-4)
"""Float32 graphs that compute the same in another order: SPEC's tolerance for the Hailo forms."""

BLOCKS: Final = {"int8": Limit("snr_db", 25.0), "int4": Limit("snr_db", 10.0)}
"""Weight-only blocks. Random weights, the harsh case, come to 34 and 13 dB."""

CHIP: Final = {"encoder": Limit("snr_db", 15.0), "decoder": Limit("snr_db", 15.0)}
"""The vendor ships its encoder under the name 15dB; the study's own build came to 9.2 dB."""


def default_limit(rung: str, part: str, quantization: str) -> Limit:
    """Return the limit of one part at one rung; `quantization` is that of its weights."""
    if rung in (EMULATED, HEF):
        return CHIP[part]
    return BLOCKS.get(quantization, EXACT) if rung == QUANTIZED else EXACT


def parse_limits(words: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Read `RUNG-PART=VALUE` words, such as `emulated-encoder=12`."""
    known = {f"{rung}-{part}": (rung, part) for rung in RUNGS for part in PARTS}
    limits = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if name not in known or not value > 0:
            raise OptionError(
                f"--limit is {word!r}, expected RUNG-PART=NUMBER with one of: {', '.join(known)}"
            )
        limits[known[name]] = value
    return limits


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """What to validate with.

    Attributes:
        audio: folder of recordings; `None` is the bundled one.
        checkpoint: directory, hub id or name of what the model was converted from; `None` finds
            only the bundled one by itself.
        windows: windows of audio to run.
        language: what is spoken.
        limits: `RUNG-PART=VALUE` words that replace limits.
    """

    audio: Path | None = flag(
        None, "Folder of speech.", metavar="DIR", shown="the bundled recording"
    )
    checkpoint: str | None = flag(None, "What the model was converted from.", metavar="NAME")
    windows: int = flag(4, "Windows of audio to run.")
    language: str = flag("en", "What is spoken.", short="-l", metavar="LANG")
    limits: tuple[str, ...] = flag(
        (), "Another limit; may be repeated.", name="--limit", metavar="RUNG-PART=X"
    )
    values: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", language_code(self.language))
        expect(self, "windows", self.windows >= 1, "1 or more")
        self.values.update(parse_limits(self.limits))

    def limit(self, rung: str, part: str, quantization: str = "none") -> Limit:
        """Return what one part is held to at one rung."""
        default = default_limit(rung, part, quantization)
        value = self.values.get((rung, part))
        return default if value is None else replace(default, value=value)
