"""XXH3, 64 bits, for long inputs: the checksum of newer HEFs, a hundred megabytes in a second.

Source: the specification of xxHash (https://github.com/Cyan4973/xxHash, `doc/xxhash_spec.md`),
written so that numpy takes whole blocks: within a block additions may come in any order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

SHORTEST: Final = 241
"""Shorter inputs have an algorithm of their own, which no HEF needs."""

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
    "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364ea"
    "c5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b"
    "16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
_PRIME64_3, _PRIME64_4 = 0x165667B19E3779F9, 0x85EBCA77C2B2AE63
_PRIME64_5 = 0x27D4EB2F165667C5
_AVALANCHE: Final = 0x165667919E3779F9
_MASK: Final = (1 << 64) - 1
_START: Final = (
    *(_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3),
    *(_PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1),
)
_STRIPE, _STRIPES = 64, 16
_BLOCK: Final = _STRIPE * _STRIPES
_AT_ONCE: Final = 4096
_SWAPPED: Final = np.array([1, 0, 3, 2, 5, 4, 7, 6])

_Lanes = NDArray[np.uint64]


def xxh3_64(data: memoryview) -> int:
    """Hash of at least `SHORTEST` bytes.

    Raises:
        ValueError: fewer bytes.
    """
    if len(data) < SHORTEST:
        raise ValueError(f"{len(data)} bytes, at least {SHORTEST} are needed")
    n_blocks = (len(data) - 1) // _BLOCK
    lanes = np.array(_START, np.uint64)
    with np.errstate(over="ignore"):  # numbers are meant to wrap around
        for first in range(0, n_blocks, _AT_ONCE):
            count = min(_AT_ONCE, n_blocks - first)
            lanes = _blocks(lanes, data[first * _BLOCK : (first + count) * _BLOCK])
        tail = data[n_blocks * _BLOCK :]
        n_stripes = (len(tail) - 1) // _STRIPE
        if n_stripes:
            words = _words(tail[: n_stripes * _STRIPE]).reshape(1, n_stripes, 8)
            lanes = lanes + _mixed(words, _keys(n_stripes))[0]
        last = _words(data[-_STRIPE:]).reshape(1, 1, 8)
        lanes = lanes + _mixed(last, _secret(len(_SECRET) - _STRIPE - 7).reshape(1, 8))[0]
    return _merged([int(lane) for lane in lanes], len(data))


def _blocks(lanes: _Lanes, data: memoryview) -> _Lanes:
    """Take whole blocks, scrambling after each."""
    sums = _mixed(_words(data).reshape(-1, _STRIPES, 8), _keys(_STRIPES))
    key = _secret(len(_SECRET) - _STRIPE)
    shift, prime = np.uint64(47), np.uint64(_PRIME32_1)
    for block in sums:
        lanes = lanes + block
        lanes = ((lanes ^ (lanes >> shift)) ^ key) * prime
    return lanes


def _mixed(words: _Lanes, keys: _Lanes) -> _Lanes:
    """What stripes add to the lanes: `(blocks, stripes, 8)` to `(blocks, 8)`."""
    keyed = words ^ keys
    products = (keyed & np.uint64(0xFFFFFFFF)) * (keyed >> np.uint64(32))
    summed: _Lanes = (products + words[:, :, _SWAPPED]).sum(axis=1, dtype=np.uint64)
    return summed


def _keys(n_stripes: int) -> _Lanes:
    """Each stripe's piece of the secret, eight bytes on from the last, `(n_stripes, 8)`."""
    return np.stack([_secret(8 * i) for i in range(n_stripes)])


def _secret(at: int) -> _Lanes:
    return _words(memoryview(_SECRET)[at : at + _STRIPE])


def _words(data: memoryview) -> _Lanes:
    return np.asarray(np.frombuffer(data, "<u8"), np.uint64)


def _merged(lanes: list[int], length: int) -> int:
    total = (length * _PRIME64_1) & _MASK
    for i in range(4):
        at = 11 + 16 * i
        left = lanes[2 * i] ^ int.from_bytes(_SECRET[at : at + 8], "little")
        right = lanes[2 * i + 1] ^ int.from_bytes(_SECRET[at + 8 : at + 16], "little")
        product = left * right
        total += (product & _MASK) ^ (product >> 64)
    total &= _MASK
    total ^= total >> 37
    total = (total * _AVALANCHE) & _MASK
    return total ^ (total >> 32)
