"""Files of whisper.cpp: sizes, tokens, floats and blocks."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.checkpoint.ggml_file import BLOCKS, read_ggml_file
from whisper_hailo.core.errors import ModelError

SIZES = (300, 20, 64, 1, 1, 10, 64, 1, 1, 80, 1)
"""Vocabulary, audio and text context, width, heads and layers, mel bins, number format."""

HALF = struct.pack("<e", 0.5)
LEAST = struct.pack("<e", -2.0)
NIBBLES = bytes(range(16))
"""Lower halves 0 to 15, upper ones 0."""

COUNT = np.arange(16.0)
ZEROS = np.zeros(16)


def write(path: Path, kind: int, shape: tuple[int, ...], data: bytes) -> None:
    content = b"lmgg" + struct.pack("<11i", *SIZES)
    content += struct.pack("<2i", 1, 2) + bytes(8)
    content += struct.pack("<i", 2) + struct.pack("<i", 1) + b"a"
    content += struct.pack("<i", 2) + b"bc"
    content += struct.pack("<3i", len(shape), 1, kind)
    content += struct.pack(f"<{len(shape)}i", *reversed(shape)) + b"w" + data
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "block", "expected"),
    [
        (2, HALF + NIBBLES, (COUNT - 8, ZEROS - 8)),
        (3, HALF + LEAST + NIBBLES, (COUNT - 4, ZEROS - 4)),
        (6, HALF + b"\x01\0\0\0" + NIBBLES, (COUNT - 16, ZEROS - 16)),
        (7, HALF + LEAST + b"\0\0\x01\0" + NIBBLES, (COUNT - 4, ZEROS - 4)),
        (8, HALF + bytes(range(16)) + bytes([255] * 16), (COUNT, ZEROS - 1)),
    ],
)
def test_ggml_file_blocks_are_scaled_integers(
    tmp_path: Path, kind: int, block: bytes, expected: tuple[np.ndarray, np.ndarray]
) -> None:
    write(tmp_path / "m.bin", kind, (2, 32), block + block)
    array = read_ggml_file(tmp_path / "m.bin").arrays["w"]
    values = np.concatenate(expected) * 0.5
    # The fifth bit of one number is set: the first of the lower or of the upper half.
    if BLOCKS[kind].name == "q5_0":
        values[0] += 8
    if BLOCKS[kind].name == "q5_1":
        values[16] += 8
    np.testing.assert_array_equal(array.read(), [values, values])
    np.testing.assert_array_equal(array.rows(1, 2).read(), [values])


@pytest.mark.parametrize(("kind", "dtype"), [(0, "<f4"), (1, "<f2")])
def test_ggml_file_floats_and_tokens_are_read(
    tmp_path: Path, kind: int, dtype: str
) -> None:
    values = np.linspace(-1, 1, 6).astype(dtype)
    write(tmp_path / "m.bin", kind, (2, 3), values.tobytes())
    file = read_ggml_file(tmp_path / "m.bin")
    assert (file.dims.n_vocab, file.dims.d_model, file.dims.n_mels) == (300, 64, 80)
    assert file.tokens == (b"a", b"bc")
    expected = values.astype(np.float32).reshape(2, 3)
    np.testing.assert_array_equal(file.arrays["w"].read(), expected)


def test_ggml_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "m.bin", 0, (2, 3), bytes(24))
    content = (tmp_path / "m.bin").read_bytes()
    whole_without_array = len(content) - 24 - 1 - 8 - 12
    for length in range(4, len(content)):
        (tmp_path / "cut.bin").write_bytes(content[:length])
        if length == whole_without_array:
            continue
        with pytest.raises(ModelError, match="cut"):
            read_ggml_file(tmp_path / "cut.bin")


@pytest.mark.parametrize(("kind", "shape"), [(14, (2, 32)), (8, (2, 33))])
def test_ggml_file_other_number_format_is_refused(
    tmp_path: Path, kind: int, shape: tuple[int, ...]
) -> None:
    write(tmp_path / "m.bin", kind, shape, bytes(68))
    with pytest.raises(ModelError, match="f32, f16, q4_0"):
        read_ggml_file(tmp_path / "m.bin")
