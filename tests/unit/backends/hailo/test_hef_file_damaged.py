"""HEFs that are cut, changed or hostile, and other files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fakes.hef_files import ENCODER
from tests.standin.hef_file import MAGIC, Net, Wish, classes, hef_bytes, with_header
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.core.errors import HefError


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_read_hef_of_truncated_file_fails_in_one_line(
    tmp_path: Path, version: int
) -> None:
    whole = hef_bytes(Wish([ENCODER], version=version))
    path = tmp_path / "cut.hef"
    cuts = [*range(1, 64), *range(64, len(whole), 997)]
    for length in cuts:
        path.write_bytes(whole[:length])
        with pytest.raises(HefError, match=r"cut\.hef ") as caught:
            read_hef(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_read_hef_of_changed_description_is_refused(
    tmp_path: Path, version: int
) -> None:
    whole = hef_bytes(Wish([ENCODER], version=version, weights=b"\x01" * 64))
    rng = random.Random(version)
    path = tmp_path / "changed.hef"
    for _ in range(150):
        at = rng.randrange(12, len(whole) - 64)
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:
            read_hef(path)
        except HefError:
            continue
        assert at < 56, "only what a header reserves is free to change"


def _nested(depth: int) -> bytes:
    """A description whose streams are muxes of muxes."""
    kinds = classes()
    hef = kinds["Hef"]()
    hef.header.hw_arch = 3
    group = hef.network_groups.add()
    group.metadata.name = "deep"
    edge = group.ops.add().core.contexts.add().metadata.edges.add()
    mux = edge.mux
    for _ in range(depth):
        mux.name = "m"
        mux = mux.predecessors.add().mux
    return bytes(hef.SerializeToString())


def _renamed(name: bytes) -> bytes:
    """A description whose network has these bytes, as many as its name has, as its name."""
    whole = hef_bytes(Wish([Net("abcd", {"i": (1, 8, 8)}, {"o": (1, 4, 8)})]))
    return whole[32:].replace(b"abcd", name)


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (b"\x0a\x02\x08\x03", r"\b0 networks\b.*\b1 to 64;"),
        (b"\x12\x00", "chip"),
        (b"\x0a\x02\x08\x03\x12\x02\x42\x00", "context"),
        (b"\x0a\x7f", "beyond"),
        (b"\x08" + b"\xff" * 11, "never ends"),
        (b"\x08\xff", "middle of a number"),
        (b"\x0b", r"kind 3\b"),
        (b"\x02\x00", "without a number"),
        (b"\x08\x01", "number where"),
        (_nested(40), "nested"),
        (b"\x0a\x02\x08\x03" + b"\x12\x00" * 65, r"\b65 networks\b.*\b1 to 64;"),
        (_renamed(b"\xff\xfeab"), "not text"),
        (_renamed(b"ab\nc"), "unprintable"),
    ],
)
def test_read_hef_of_hostile_description_is_refused(
    tmp_path: Path, proto: bytes, expected: str
) -> None:
    path = tmp_path / "hostile.hef"
    path.write_bytes(with_header(proto, 0, b""))
    with pytest.raises(HefError, match=expected):
        read_hef(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + bytes(40), "0x504b0304"),
        (
            MAGIC.to_bytes(4, "big") + bytes([0, 0, 0, 9]) + bytes(40),
            r"version 9, .*\b0 to 3;",
        ),
    ],
)
def test_read_hef_of_other_files_is_refused(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "other.hef"
    path.write_bytes(content)
    with pytest.raises(HefError, match=expected):
        read_hef(path)
    with pytest.raises(HefError, match=r"missing\.hef "):
        read_hef(tmp_path / "missing.hef")
    with pytest.raises(HefError, match=f"^{tmp_path} "):
        read_hef(tmp_path)
