"""A decoder and a tokenizer that note how long each of their calls takes."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Self

from whisper_hailo.core.closing import Closing
from whisper_hailo.core.protocols import AnyDecoder, Limits, Padding, StepOutput
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.text.tokenizer import Tokenizer


class TimedDecoder(Closing):
    """A decoder that notes the milliseconds of its passes.

    Args:
        decoder: the decoder that does the work.
    """

    def __init__(self, decoder: AnyDecoder) -> None:
        self._decoder = decoder
        self._started: Any = None
        self.first_ms: list[float] = []
        """Passes over a whole prompt, one per window: they give the first token."""
        self.token_ms: list[float] = []
        """Passes over one token."""
        self.other_ms: list[float] = []
        """Passes that generate nothing: language detection, alignment."""

    @property
    def spec(self) -> ModelSpec:
        """The decoder's."""
        return self._decoder.spec

    @property
    def name(self) -> str:
        """The decoder's."""
        return self._decoder.name

    @property
    def limits(self) -> Limits:
        """The decoder's."""
        return self._decoder.limits

    def open(self) -> Self:
        """Open the decoder."""
        self._decoder.open()
        return self

    def close(self) -> None:
        """Close the decoder."""
        self._decoder.close()

    def forget(self) -> None:
        """Begin anew."""
        self.first_ms, self.token_ms, self.other_ms = [], [], []

    def start(
        self,
        audio_features: FloatArray,
        paddings: tuple[Padding, ...],
        n_positions: IntArray | None = None,
    ) -> Any:  # noqa: ANN401 - the decoder's own state type
        """Begin decoding a batch; see `core.protocols.Decoder`."""
        self._started = self._decoder.start(audio_features, paddings, n_positions)
        return self._started

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401 - the decoder's own state type
        positions: IntArray,
        *,
        first: IntArray | None = None,
        alignment: bool = False,
    ) -> tuple[StepOutput, Any]:
        """Take a step and note its time; see `core.protocols.Decoder`."""
        begin = perf_counter()
        result = self._decoder.step(tokens, state, positions, first=first, alignment=alignment)
        kept = self.token_ms
        if alignment or (state is self._started and tokens.shape[1] == 1):
            kept = self.other_ms
        elif tokens.shape[1] > 1:
            kept = self.first_ms
        kept.append((perf_counter() - begin) * 1000.0)
        return result

    def batch_size(self, state: Any) -> int:  # noqa: ANN401 - the decoder's own state type
        """Number of rows of a state."""
        return self._decoder.batch_size(state)

    def select(self, state: Any, rows: IntArray) -> Any:  # noqa: ANN401 - as above
        """State of some rows."""
        return self._decoder.select(state, rows)

    def rewind(self, state: Any, n_tokens: int) -> Any:  # noqa: ANN401 - as above
        """State cut back to its first tokens."""
        return self._decoder.rewind(state, n_tokens)


class TimedTokenizer(Tokenizer):
    """A tokenizer that notes the milliseconds in which it turned tokens into text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.backend, tokenizer.special)
        self.text_ms = 0.0

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids."""
        begin = perf_counter()
        text = super().decode(tokens)
        self.text_ms += (perf_counter() - begin) * 1000.0
        return text
