"""Arrays of whisper.cpp's files (`ggml-*.bin`): floats, and whole numbers in blocks of 32.

Layout (whisper.cpp, `whisper_model_load`): a magic number, eleven sizes, mel filters, the ordinary
tokens as bytes, then every array with its name and its sizes, the last axis first. Matrices may be
quantised: each block of 32 values of a row has a scale, in some formats a least value, and whole
numbers of 4, 5 or 8 bits (ggml, `block_q4_0` and its kin). Nothing is copied: an array is a range
of the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.checkpoint.weights import STORED_DTYPES, AnyArray, StoredArray
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.types import FloatArray

MAGIC: Final = b"lmgg"
BLOCK: Final = 32
"""Values of a block."""

_MOST_TOKENS: Final = 1 << 18
_LONGEST_TOKEN: Final = 1 << 10
_LONGEST_NAME: Final = 256
_MOST_MELS: Final = 1 << 12

Blocks = NDArray[np.uint8]


def _floats(blocks: Blocks, start: int) -> FloatArray:
    """Return the float16 at a place of each block, as `(n_blocks, 1)` float32."""
    raw = np.ascontiguousarray(blocks[:, start : start + 2])
    return raw.view("<f2").astype(np.float32)


def _nibbles(blocks: Blocks, start: int) -> NDArray[np.int16]:
    """Return 32 numbers of 4 bits: the lower halves of 16 bytes, then the upper ones."""
    packed = blocks[:, start : start + 16].astype(np.int16)
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _fifth_bits(blocks: Blocks, start: int) -> NDArray[np.int16]:
    """Return the fifth bits of 32 numbers, in the places where they count."""
    bits = np.unpackbits(blocks[:, start : start + 4], axis=1, bitorder="little")
    return bits.astype(np.int16) << 4


def _read_q4_0(blocks: Blocks) -> FloatArray:
    return _floats(blocks, 0) * (_nibbles(blocks, 2) - 8)


def _read_q4_1(blocks: Blocks) -> FloatArray:
    return _floats(blocks, 0) * _nibbles(blocks, 4) + _floats(blocks, 2)


def _read_q5_0(blocks: Blocks) -> FloatArray:
    numbers = _nibbles(blocks, 6) | _fifth_bits(blocks, 2)
    return _floats(blocks, 0) * (numbers - 16)


def _read_q5_1(blocks: Blocks) -> FloatArray:
    numbers = _nibbles(blocks, 8) | _fifth_bits(blocks, 4)
    return _floats(blocks, 0) * numbers + _floats(blocks, 2)


def _read_q8_0(blocks: Blocks) -> FloatArray:
    numbers = np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
    return _floats(blocks, 0) * numbers.astype(np.int16)


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A format of quantised matrices.

    Attributes:
        n_bytes: of a block.
        read: returns `(n_blocks, 32)` values of `(n_blocks, n_bytes)`.
    """

    name: str
    n_bytes: int
    read: Callable[[Blocks], FloatArray]


FLOATS: Final = {0: "F32", 1: "F16"}
"""ggml's numbers of formats."""

BLOCKS: Final = {
    2: BlockFormat("q4_0", 18, _read_q4_0),
    3: BlockFormat("q4_1", 20, _read_q4_1),
    6: BlockFormat("q5_0", 22, _read_q5_0),
    7: BlockFormat("q5_1", 24, _read_q5_1),
    8: BlockFormat("q8_0", 34, _read_q8_0),
}


@dataclass(frozen=True, slots=True)
class BlockArray(StoredArray):
    """A quantised matrix, which is read as float32."""

    blocks: BlockFormat = BLOCKS[8]

    def rows(self, start: int, stop: int) -> BlockArray:
        """Return some rows as an array, without reading them."""
        row_bytes = math.prod(self.shape[1:]) // BLOCK * self.blocks.n_bytes
        return replace(
            self,
            shape=(stop - start, *self.shape[1:]),
            offset=self.offset + start * row_bytes,
        )

    def _read_stored(self) -> AnyArray:
        n_blocks = math.prod(self.shape) // BLOCK
        stored = StoredArray(
            self.path, self.name, "U8", (n_blocks, self.blocks.n_bytes), self.offset
        )
        return self.blocks.read(stored._read_stored()).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class GgmlFile:
    """What a file holds.

    Attributes:
        tokens: the bytes of the ordinary tokens, in the order of their ids.
        arrays: by OpenAI's names.
    """

    dims: Dimensions
    tokens: tuple[bytes, ...]
    arrays: dict[str, StoredArray]


def is_ggml_file(path: Path) -> bool:
    """Return whether a file begins as whisper.cpp's do."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def read_ggml_file(path: Path) -> GgmlFile:
    """Return sizes, vocabulary and arrays of a file.

    Raises:
        ModelError: no such file, an incomplete one, or another format.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, path).read()
    except OSError as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except _FormatError as error:
        raise ModelError(
            f"{display_path(path)} {error}; fetch the file again"
        ) from error


class _FormatError(Exception):
    """The file has unexpected content; the message says which."""


class _Reader:
    """Reads the parts of a file in order."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._size = path.stat().st_size

    def read(self) -> GgmlFile:
        """Return the whole file; the bytes of arrays are skipped."""
        self._take(len(MAGIC))
        dims = self._read_dims()
        n_mels, n_bins = self._numbers(2)
        self._expect(0 < n_mels < _MOST_MELS and 0 < n_bins < _MOST_MELS)
        self._skip(4 * n_mels * n_bins)
        tokens = self._read_tokens()
        arrays: dict[str, StoredArray] = {}
        while self._file.tell() < self._size:
            array = self._read_array()
            arrays[array.name] = array
        return GgmlFile(dims, tokens, arrays)

    def _read_dims(self) -> Dimensions:
        sizes = self._numbers(11)
        n_vocab, n_audio_ctx, d_model, audio_heads, audio_layers = sizes[:5]
        n_text_ctx, d_text, text_heads, text_layers, n_mels = sizes[5:10]
        if d_text != d_model:
            raise _FormatError(f"has widths {d_model} and {d_text}, expected one")
        try:
            return Dimensions(
                n_mels=n_mels,
                n_audio_ctx=n_audio_ctx,
                d_model=d_model,
                n_encoder_layers=audio_layers,
                n_encoder_heads=audio_heads,
                n_decoder_layers=text_layers,
                n_decoder_heads=text_heads,
                n_text_ctx=n_text_ctx,
                n_vocab=n_vocab,
            )
        except ModelError as error:
            raise _FormatError(f"is not a Whisper model: {error}") from error

    def _read_tokens(self) -> tuple[bytes, ...]:
        (count,) = self._numbers(1)
        self._expect(0 < count < _MOST_TOKENS)
        tokens = []
        for _ in range(count):
            (length,) = self._numbers(1)
            self._expect(0 <= length < _LONGEST_TOKEN)
            tokens.append(self._take(length))
        return tuple(tokens)

    def _read_array(self) -> StoredArray:
        n_axes, name_length, kind = self._numbers(3)
        self._expect(1 <= n_axes <= 4 and 0 < name_length < _LONGEST_NAME)
        sizes = self._numbers(n_axes)
        self._expect(all(0 < size < 1 << 24 for size in sizes))
        shape = tuple(reversed(sizes))
        name = self._take(name_length).decode("utf-8", errors="replace")
        offset = self._file.tell()
        array: StoredArray
        if kind in FLOATS:
            array = StoredArray(self._path, name, FLOATS[kind], shape, offset)
            self._skip(math.prod(shape) * STORED_DTYPES[array.dtype].itemsize)
            return replace(array, shape=_without_ones(name, shape))
        blocks = BLOCKS.get(kind)
        if blocks is None or shape[-1] % BLOCK:
            known = ", ".join(block.name for block in BLOCKS.values())
            raise _FormatError(
                f"has {name} in ggml's number format {kind}, expected f32, f16, {known}"
            )
        self._skip(math.prod(shape) // BLOCK * blocks.n_bytes)
        return BlockArray(self._path, name, "F32", shape, offset, blocks=blocks)

    def _numbers(self, count: int) -> tuple[int, ...]:
        layout = struct.Struct(f"<{count}i")
        numbers: tuple[Any, ...] = layout.unpack(self._take(layout.size))
        return numbers

    def _take(self, n_bytes: int) -> bytes:
        data = self._file.read(n_bytes)
        self._expect(len(data) == n_bytes)
        return data

    def _skip(self, n_bytes: int) -> None:
        self._expect(self._file.tell() + n_bytes <= self._size)
        self._file.seek(n_bytes, 1)

    def _expect(self, is_valid: bool) -> None:
        if not is_valid:
            raise _FormatError(f"is broken at byte {self._file.tell()}")


def _without_ones(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a vector that has an axis of one more, for whisper.cpp's convolutions."""
    return shape[:1] if name.endswith(".bias") else shape
