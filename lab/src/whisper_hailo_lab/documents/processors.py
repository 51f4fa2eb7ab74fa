"""Tables of other processors: decoder steps, and expected times of a Raspberry Pi 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import DASH, Table, make_table

STEPS: Final = RESULTS / "aarch64.json"
Row = dict[str, Any]
STUDY_ENCODER_MS: Final = 117.3
STUDY_DECODER_MS: Final = 108.5
"""The study's 10 s encoder and cached decoder on a Raspberry Pi 5: `report/study.json`."""
STUDY_ENCODER: Final = 1618.0
STUDY_DECODER: Final = 741.0
OUR_ENCODER: Final = 673.0 + 65.0
OUR_DECODER: Final = 225.0
"""Million instructions of 10 s of `tiny` with 28 tokens, keys and values of the audio included:
table `aarch64-windows`, the study's recipe and our 8-bit weights."""
COUNTED_S: Final = 10.0
COUNTED_TOKENS: Final = 28
WINDOW_S: Final = 20.0
"""The default window."""
TOKENS_A_MINUTE: Final = 240
"""Of people who talk without a break, timestamps included."""
POSITIONS_A_SECOND: Final = 50


def step_tables(rows: list[Row]) -> dict[str, str]:
    """Return steps on the emulated processor beside this one's."""
    return {"aarch64-steps": step_table(rows).markdown()}


def expected_tables() -> dict[str, str]:
    """Return expected times of a Raspberry Pi 5 by model."""
    table = make_table(
        list(expected_times()),
        (
            ("model, 8 bits", "{model}"),
            ("encoder s", "{encoder_s:.1f}"),
            ("decoder s", "{decoder_s:.1f}"),
            ("expected s a minute", "{total_s:.1f}"),
            ("expected real-time factor", "{real_time_factor:.2f}"),
        ),
    )
    return {"raspberry-pi-expected": table.markdown()}


def step_table(rows: list[Row]) -> Table:
    """Return one line per model of `processors.compare`; some were only counted."""
    return make_table(
        [row if row["instructions"] else row | {"instructions": None} for row in rows],
        (
            ("decoder", "{model}"),
            ("million instructions per step", _step_instructions),
            ("difference of logits (RMS)", "{rms_difference:.1e}"),
            ("at most", "{rms_bound:.1e}"),
            ("largest difference", "{largest_difference:.1e}"),
            ("at most", "{bound:.1e}"),
            ("same likeliest token", _same_tokens),
        ),
    )


def _step_instructions(row: Row) -> str:
    return f"{row['instructions'] / 1e6:.2f}" if row["instructions"] else DASH


def _same_tokens(row: Row) -> str:
    return f"{row['same_token']} of {row['steps']}" if "steps" in row else DASH


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the cost of a model depends on."""

    name: str
    width: int
    n_encoder_layers: int
    n_decoder_layers: int
    n_mels: int = 80
    n_vocab: int = 51_865

    def encoder_products(self, seconds: float) -> float:
        """Return the multiplications of a window."""
        n_positions = seconds * POSITIONS_A_SECOND
        width = self.width
        convolutions = n_positions * 3 * width * (2 * self.n_mels + width)
        linear = 12 * n_positions * width**2
        attention = 2 * n_positions**2 * width
        keys_and_values = self.n_decoder_layers * 2 * n_positions * width**2
        layers = self.n_encoder_layers * (linear + attention)
        return convolutions + layers + keys_and_values

    def token_bytes(self, seconds: float) -> float:
        """Return the bytes that a token reads: 8-bit weights, and keys and values of a window."""
        width = self.width
        audio = 2 * seconds * POSITIONS_A_SECOND * width
        layers = self.n_decoder_layers * (14 * width**2 + audio)
        return layers + self.n_vocab * width


TINY: Final = ModelShape("tiny", 384, 4, 4)


SHAPES: Final = (
    TINY,
    ModelShape("base", 512, 6, 6),
    ModelShape("small", 768, 12, 12),
    ModelShape("medium", 1024, 24, 24),
    ModelShape("turbo", 1280, 32, 4, n_mels=128, n_vocab=51_866),
    ModelShape("large-v3", 1280, 32, 32, n_mels=128, n_vocab=51_866),
)


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """Expected seconds of a Raspberry Pi 5 for a minute of speech, on its four cores."""

    model: str
    encoder_s: float
    decoder_s: float

    @property
    def total_s(self) -> float:
        """Both, one after the other."""
        return self.encoder_s + self.decoder_s

    @property
    def real_time_factor(self) -> float:
        """Share of the recording's own length."""
        return self.total_s / 60.0


def expected_times() -> Iterator[ExpectedTime]:
    """Yield the expected times of our 8-bit models."""
    window_ms = STUDY_ENCODER_MS * OUR_ENCODER / STUDY_ENCODER
    token_ms = STUDY_DECODER_MS / COUNTED_TOKENS * OUR_DECODER / STUDY_DECODER
    for shape in SHAPES:
        products = shape.encoder_products(WINDOW_S) / TINY.encoder_products(COUNTED_S)
        n_read = shape.token_bytes(WINDOW_S) / TINY.token_bytes(COUNTED_S)
        n_windows = 60.0 / WINDOW_S
        yield ExpectedTime(
            model=shape.name,
            encoder_s=n_windows * window_ms * products / 1000.0,
            decoder_s=TOKENS_A_MINUTE * token_ms * n_read / 1000.0,
        )
