"""An encoder and a decoder as in published HEFs, written to files, also changed ones."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.standin.hef_file import Net, Wish, classes, hef_bytes, with_header

ENCODER = Net(
    "tiny-whisper-encoder-10s",
    {"tiny-whisper-encoder-10s/input_layer1": (1, 1000, 80)},
    {"tiny-whisper-encoder-10s/layer_normalization9": (1, 500, 384)},
    contexts=3,
)
DECODER = Net(
    "tiny-whisper-decoder",
    {
        "tiny-whisper-decoder/input_layer2": (32, 1, 384),
        "tiny-whisper-decoder/input_layer1": (1, 500, 384),
    },
    {f"tiny-whisper-decoder/conv{n}": (1, 32, 12966 + (n == 4)) for n in (3, 1, 2, 4)},
)


def write(path: Path, wish: Wish) -> Path:
    path.write_bytes(hef_bytes(wish))
    return path


def changed(path: Path, wish: Wish, change: Callable[[Any], object]) -> Path:
    """A file whose description was changed before it was signed."""
    hef = description(hef_bytes(wish))
    change(hef)
    path.write_bytes(with_header(hef.SerializeToString(), wish.version, wish.weights))
    return path


def description(data: bytes) -> Any:
    hef = classes()["Hef"]()
    size = struct.unpack_from(">III", data)[2]
    hef.ParseFromString(data[32 : 32 + size])  # of version 0
    return hef
