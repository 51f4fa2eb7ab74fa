"""The self-attention cache: memory that grows, to which the runtime adds in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from whisper_hailo.backends.cross import AnyArray, CrossKV, Named, bind_in_place, is_constant
from whisper_hailo.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import onnxruntime

Arrays: TypeAlias = tuple[FloatArray, ...]

_FEWEST_PLACES = 64


@dataclass(frozen=True, slots=True)
class CacheNames:
    """Inputs and outputs of the decoder that hold the cache, in the order of a state.

    Attributes:
        past: inputs: the cache before a step.
        present: outputs: the cache after it.
    """

    past: tuple[str, ...]
    present: tuple[str, ...]

    @classmethod
    def of(cls, n_layers: int) -> CacheNames:
        """`past_key_0, past_value_0, past_key_1 ...` and so on."""
        return cls(
            *(
                tuple(f"{kind}_{part}_{i}" for i in range(n_layers) for part in ("key", "value"))
                for kind in ("past", "present")
            )
        )


class Binding:
    """What the runtime has been told of a cache, so that a step tells it only what is new.

    Args:
        session: the decoder's.
        kept: inputs that stay as they are, by name.
        in_place: outputs that the runtime writes into these arrays, by name.
    """

    def __init__(self, session: onnxruntime.InferenceSession, kept: Named, in_place: Named) -> None:
        self.session = session
        self._io = session.io_binding()
        self._in_place = in_place
        self._kept = kept
        self._fed: Named = {}
        self._constants: Named = {}
        self._wanted: dict[str, tuple[int, ...]] = {}
        self._outputs: list[FloatArray] = []
        for name, array in kept.items():
            self._io.bind_cpu_input(name, array)

    def run(self, inputs: Named, outputs: dict[str, tuple[int, ...]]) -> list[FloatArray]:
        """One step.

        Returns:
            these outputs, in arrays that are the caller's until the next run.
        """
        for name, array in inputs.items():
            if self._constants.get(name) is not array:
                self._feed(name, array)
        if self._wanted != outputs:
            self._want(outputs)
        self.session.run_with_iobinding(self._io)
        return self._outputs

    def _want(self, outputs: dict[str, tuple[int, ...]]) -> None:
        """New arrays for other outputs; the next steps mostly want the same ones."""
        self._wanted = outputs
        self._outputs = [np.empty(shape, np.float32) for shape in outputs.values()]
        self._io.clear_binding_outputs()
        wanted = dict(zip(outputs, self._outputs, strict=True))
        for name, array in (self._in_place | wanted).items():
            bind_in_place(self._io, name, array)

    def _feed(self, name: str, array: AnyArray) -> None:
        """An array of the same size goes where the last one was, which needs no binding.

        A constant that comes again needs nothing at all.
        """
        if is_constant(array):
            self._constants[name] = array
        else:
            self._constants.pop(name, None)
        held = self._fed.get(name)
        if held is not None and held.shape == array.shape:
            held[...] = array
        else:
            self._fed[name] = held = array.copy()
            self._io.bind_cpu_input(name, held)


@dataclass(slots=True)
class Cache:
    """Keys and values of a batch of hypotheses.

    States that follow one another share one cache, each knowing how many of its places are its own.
    Only places that no state has filled yet, or that were given back, are written to: a state that
    goes on from further back gets a copy. So nothing that a state stands for ever changes.

    Attributes:
        arrays: key and value of each layer in turn, `(batch, heads, n_places, head_size)`.
        n_text_ctx: places there can be at most.
        n_filled: places that are some state's own.
        binding: made at the first step.
    """

    arrays: Arrays
    n_text_ctx: int
    n_filled: int = 0
    binding: Binding | None = field(default=None, repr=False)

    @classmethod
    def empty(cls, n_layers: int, shape: tuple[int, int, int], n_text_ctx: int) -> Cache:
        """Without any place; `shape` is batch, heads, head size."""
        batch, heads, size = shape
        nothing = np.zeros((batch, heads, 0, size), np.float32)
        return cls((nothing,) * (2 * n_layers), n_text_ctx)

    def bound(
        self, session: onnxruntime.InferenceSession, names: CacheNames, cross: CrossKV
    ) -> Binding:
        """This cache and the keys and values of the audio, made known to a session once."""
        if self.binding is None or self.binding.session is not session:
            past = dict(zip(names.past, self.arrays, strict=True))
            present = dict(zip(names.present, self.arrays, strict=True))
            self.binding = Binding(session, past | cross.read(), present | cross.same())
        return self.binding

    def with_room(self, n_kept: int, n_new: int) -> Cache:
        """A cache with the first `n_kept` places of this one and `n_new` free ones after them.

        They count as filled from now on.
        """
        n_total = n_kept + n_new
        cache = self
        if self.n_filled != n_kept or self.arrays[0].shape[2] < n_total:
            n_places = min(self.n_text_ctx, max(_FEWEST_PLACES, 2 * n_total))
            copies = tuple(_longer(array[:, :, :n_kept], n_places) for array in self.arrays)
            cache = Cache(copies, self.n_text_ctx)
        cache.n_filled = n_total
        return cache

    def give_back(self, n_tokens: int, n_kept: int) -> None:
        """Free the places of a state behind its first `n_kept`, unless another one follows it.

        So what goes on from there needs no copy, and the runtime need not be told of one.
        """
        if self.n_filled == n_tokens:
            self.n_filled = n_kept

    def row(self, row: int) -> Cache:
        """One row in its place: what is added to it is added to this cache."""
        arrays = tuple(array[row : row + 1] for array in self.arrays)
        return Cache(arrays, self.n_text_ctx, self.n_filled)

    def select(self, rows: IntArray, n_kept: int) -> Cache:
        """The first `n_kept` places of some rows, in that order."""
        n_places = self.arrays[0].shape[2]
        copies = tuple(_longer(array[rows, :, :n_kept], n_places) for array in self.arrays)
        return Cache(copies, self.n_text_ctx, n_kept)


def _longer(array: FloatArray, n_places: int) -> FloatArray:
    """A copy of a cache with more places."""
    batch, heads, n_kept, size = array.shape
    longer = np.zeros((batch, heads, n_places, size), np.float32)
    longer[:, :, :n_kept] = array
    return longer
