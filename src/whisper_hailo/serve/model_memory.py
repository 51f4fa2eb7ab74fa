"""The memory that loaded models take, and its limit."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.serve.errors import BusyError

_LOADED_PER_WEIGHT: Final = 1.3
"""Memory of a loaded model per byte of its weights: base takes 167 MiB, its weights 128."""

_FLOAT_BITS: Final = 32
_BITS: Final = {"int8": 8, "int4": 4}
"""Bits of a weight by quantization; `_FLOAT_BITS` for all others."""


class Releasable(Protocol):
    """What a loaded model is used by.

    Attributes:
        used_s: when it was used last, by `time.monotonic`.
    """

    used_s: float

    def release_if_idle(self) -> bool:
        """Begin to free the memory if nobody uses it; return whether it will be free."""
        ...


class LoadableModel(Protocol):
    """A model that takes memory while it is loaded.

    Attributes:
        needed_mib: about how many MiB it takes.
    """

    needed_mib: int

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def queue(self) -> Releasable:
        """What uses it."""
        ...


class ModelMemory:
    """Keeps loaded models within a limit, and has idle ones released for others."""

    def __init__(self, max_mib: int | None = None) -> None:
        self._max_mib = max_mib
        self._changed = threading.Condition()
        self._loaded: list[LoadableModel] = []

    @property
    def is_limited(self) -> bool:
        """Whether models have to be released for others."""
        return self._max_mib is not None

    def fits(self, model: LoadableModel) -> bool:
        """Return whether a model would be within the limit alone."""
        return self._max_mib is None or model.needed_mib <= self._max_mib

    def check_limit(self, model: LoadableModel) -> None:
        """Refuse a model that does not fit even alone.

        Raises:
            OptionError: the model needs more than the limit.
        """
        if not self.fits(model):
            raise OptionError(
                f"model {model.name} takes about {model.needed_mib} MiB, --max-memory is "
                f"{self._max_mib}; raise it or choose a smaller model"
            )

    @contextmanager
    def hold_memory(self, model: LoadableModel) -> Iterator[None]:
        """Hold the memory of a model that is loaded within the block.

        Raises:
            BusyError: the models that would have to make room are in use.
        """
        with self._changed:
            self._make_room(model)
            self._loaded.append(model)
        try:
            yield
        finally:
            with self._changed:
                self._loaded.remove(model)
                self._changed.notify_all()

    def _make_room(self, model: LoadableModel) -> None:
        """Release idle models until another one fits, the least recently used one first."""
        max_mib = math.inf if self._max_mib is None else self._max_mib
        while self._loaded_mib() + model.needed_mib > max_mib:
            oldest_first = sorted(self._loaded, key=lambda loaded: loaded.queue.used_s)
            if not any(loaded.queue.release_if_idle() for loaded in oldest_first):
                in_use = ", ".join(loaded.name for loaded in self._loaded)
                raise BusyError(
                    f"model {model.name} takes about {model.needed_mib} MiB, --max-memory is "
                    f"{max_mib} and used by {in_use}; try again soon"
                )
            self._changed.wait()

    def _loaded_mib(self) -> int:
        return sum(loaded.needed_mib for loaded in self._loaded)


def estimate_loaded_mib(spec: ModelSpec) -> int:
    """Return about how many MiB a model takes when it is loaded, from its dimensions."""
    dims = spec.dims
    d_model = dims.d_model
    # A layer of the encoder has 4 projections of d_model**2 and an MLP of 8; one of the decoder
    # has another 4 for its cross-attention.
    encoder = dims.n_encoder_layers * 12 * d_model**2
    decoder = dims.n_decoder_layers * 16 * d_model**2
    # Two convolutions of 3 frames, and the encoder's positions.
    encoder += 3 * dims.n_mels * d_model + 3 * d_model**2 + dims.n_audio_ctx * d_model
    decoder += dims.n_vocab * d_model
    encoder_bits = _BITS.get(spec.encoder_quantization, _FLOAT_BITS)
    decoder_bits = _BITS.get(spec.quantization, _FLOAT_BITS)
    weight_bytes = (encoder * encoder_bits + decoder * decoder_bits) // 8
    return round(_LOADED_PER_WEIGHT * weight_bytes) >> 20
