"""Broken versions of good inputs: bytes of any kind, and JSON whose text is still well formed."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any, Final

_EDGES: Final = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)

MOST: Final = 8 << 20
"""Characters of a JSON text: a long list of long lists would be the memory that is measured."""

RAW: Final = "\x01raw:"
"""Begins a text that stands for itself in JSON, without quotes."""

NASTY: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, -1, 2, 3, 255, 256, 65_536, 2**31, 2**32, -(2**31), 2**53, 2**63,
    10**30,
    0.5, -0.0, 1e308, "", " ", "\0", "\n", "x", "x" * 5000, "../x", "/etc/hostname", "a/../../b",
    "encoder.onnx", "model.json", "\ud800", "é\u202e", "-1", "1", "none", "int8", "en", [], {},
    [[]],
    [{}], {"": {}}, [1, 2], [[0, 0]], [None], {"a": 1}, [1.5], ["x"],
    RAW + "Infinity", RAW + "-Infinity", RAW + "NaN", RAW + "1e999", RAW + "9" * 5000,
    RAW + "[" * 5000 + "]" * 5000, RAW + "[" * 200_000, RAW + "[" * 60 + "]" * 60,
    RAW + '{"a":' * 700 + "1" + "}" * 700,
)  # fmt: skip


def mutated_bytes(rng: Random, data: bytes, n_edits: int | None = None) -> bytes:
    """A few edits: bits, bytes, numbers at their edges, cuts, repeats, moves, swaps."""
    out = bytearray(data)
    for _ in range(n_edits or rng.choice((1, 1, 1, 2, 3, 5, 9))):
        at = (
            rng.randrange(len(out) + 1)
            if rng.random() < 0.6
            else rng.randrange(min(len(out), 200) + 1)
        )
        _edit(rng, out, at)
    return bytes(out)


def _edit(rng: Random, out: bytearray, at: int) -> None:
    length = min(len(out) - at, rng.choice((1, 1, 2, 4, 8, 16, 100, 1000)))
    kind = rng.randrange(8)
    if kind == 0 and at < len(out):
        out[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        out[at : at + length] = rng.randbytes(length)
    elif kind == 2:
        width = rng.choice((1, 2, 4, 8))
        value = rng.choice(_EDGES) + rng.choice((-1, 0, 0, 1))
        order = rng.choice(("little", "big"))
        number = (value % (1 << 8 * width)).to_bytes(width, order)  # type: ignore[arg-type]
        out[at : at + width] = number
    elif kind == 3:
        del out[at : at + length]
    elif kind == 4:
        out[at:at] = out[at : at + length] * rng.choice((1, 2, 20))
    elif kind == 5:
        out[at:at] = bytes([rng.choice((0, 0xFF, 0x80, 0x22, 0x7B))]) * rng.choice(
            (1, 4, 64, 4096)
        )
    elif kind == 6:
        if rng.random() < 0.3:
            del out[at:]
    else:
        other = rng.randrange(len(out) + 1)
        out[at : at + length] = out[other : other + length]


def mutated_json(rng: Random, value: Any) -> bytes:
    """JSON text with some values, keys or lengths changed; now and then edited as bytes, too."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _changed(rng, value)
    text = _dumped(value)[:MOST].encode("utf-8", "surrogatepass")
    return mutated_bytes(rng, text) if rng.random() < 0.15 else text


def _changed(rng: Random, value: Any) -> Any:
    """One change somewhere, on the way down with less and less chance to stop."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.15:
            del value[key]
        elif kind < 0.2:
            value[rng.choice(("", "x" * 300, "\0", "../y", key + "_"))] = value.pop(key)
        else:
            value[key] = _changed(rng, value[key])
        return value
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        kind = rng.random()
        if kind < 0.15:
            del value[at]
        elif kind < 0.25:
            value.extend(value[at : at + 1] * rng.choice((1, 3, 2000)))
        else:
            value[at] = _changed(rng, value[at])
        return value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + rng.choice((-1, 1, 2, -value, value, 1000))
    # Or a later change would change the next input.
    return copy.deepcopy(rng.choice(NASTY))


def _dumped(value: Any) -> str:
    if isinstance(value, str) and value.startswith(RAW):
        return value.removeprefix(RAW)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(k)}:{_dumped(v)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
