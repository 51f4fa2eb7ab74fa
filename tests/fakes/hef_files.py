"""HEFs written to files: as published, of other sizes, and with a changed description."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fakes.model_sizes import TINY, toy_spec
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


SPEC = replace(toy_spec(), name="tiny", dims=TINY)


def encoder(
    frames: int = 1000, mels: int = 80, width: int = 384, positions: int = 0
) -> Net:
    """An encoder of these sizes."""
    out = (1, positions or frames // 2, width)
    return Net(
        "encoder", {"encoder/input_layer1": (1, frames, mels)}, {"encoder/norm9": out}
    )


def decoder(
    positions: int = 500, width: int = 384, length: int = 32, last: int = 12967
) -> Net:
    """A decoder whose vocabulary comes in four parts."""
    inputs = {
        "decoder/input_layer1": (1, positions, width),
        "decoder/input_layer2": (length, 1, width),
    }
    columns = [12966, 12966, 12966, last]
    return Net(
        "decoder",
        inputs,
        {f"decoder/conv{i}": (1, length, n) for i, n in enumerate(columns)},
    )


def written(folder: Path, net: Net, **wish: str) -> Path:
    """A file with this network."""
    path = folder / "x.hef"
    path.write_bytes(hef_bytes(Wish([net], **wish)))  # type: ignore[arg-type]
    return path
