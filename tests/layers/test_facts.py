"""What our tables say of HailoRT, against its sources."""

from __future__ import annotations

import re
import sys

import pytest

from tests.layers.vendor import EARLIER, LATER, REPOSITORY, statuses, text
from tests.standin.hef_file import KINDS, fields
from whisper_hailo.backends.hailo.binding import knows_numpy_2
from whisper_hailo.backends.hailo.faults import STATUS_NAMES
from whisper_hailo.backends.hailo.hef_file import ARCHES

if not REPOSITORY:
    pytest.skip(
        "HAILORT_GIT names no git copy of hailo-ai/hailort", allow_module_level=True
    )

TAGS = pytest.mark.parametrize("tag", [*EARLIER, *LATER])
PROTO = "hailort/libhailort/hef.proto"


@TAGS
def test_numbers_of_statuses(tag: str) -> None:
    theirs = statuses(tag)
    assert {
        number: theirs.get(number, name) for number, name in STATUS_NAMES.items()
    } == STATUS_NAMES


def test_statuses_all_exist_in_the_newest() -> None:
    assert STATUS_NAMES.items() <= statuses(LATER[-1]).items()


@TAGS
def test_pybind11_and_numpy(tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since 2.12 it knows NumPy 2."""
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    pinned = re.search(
        r"Version 2\.(\d+)", text(tag, "hailort/cmake/external/pybind11.cmake")
    )
    assert pinned is not None
    assert knows_numpy_2(tag) == (int(pinned.group(1)) >= 12)


@TAGS
def test_numbers_of_chips(tag: str) -> None:
    (body,) = re.findall(r"enum ProtoHEFHwArch \{(.*?)\}", text(tag, PROTO), re.DOTALL)
    for name, number in re.findall(r"PROTO__HW_ARCH__(HAILO\w+) = (\d+);", body):
        ours = {"HAILO8P": "hailo8", "HAILO8R": "hailo8", "HAILO1XH": "hailo15h"}
        if name in ARCHES_LATER:
            continue
        assert ARCHES[int(number)] == ours.get(name, name.lower())


ARCHES_LATER = {"HAILO12L"}
"""None of them runs Whisper that we know of."""


@TAGS
def test_our_hefs_have_the_fields_of_theirs(tag: str) -> None:
    """Every field that the stand-in writes, from the top of the file down."""
    theirs = _messages(text(tag, PROTO))
    seen = set()

    def compare(ours: str, name: str) -> None:
        seen.add(ours)
        for field, number, kind, repeated in fields(ours):
            # Files within files came later, their checksums with 5.
            if number not in theirs[name]:
                assert tag in EARLIER
                assert field in {"resources", "xxhash"}
                continue
            their_kind, their_repeated = theirs[name][number]
            assert their_repeated == repeated, (name, field)
            if kind in KINDS:
                assert _same(kind, their_kind), (name, field)
            elif kind not in seen:
                compare(kind, their_kind)

    compare("Hef", "ProtoHEFHef")
    assert len(seen) > 20


def _same(ours: str, theirs: str) -> bool:
    """Numbers of enumerations are whole numbers."""
    names = {"u32": "uint32", "u64": "uint64", "str": "string"}
    return theirs == names.get(ours, ours) or (
        ours == "u32" and theirs.startswith("Proto")
    )


def _messages(proto: str) -> dict[str, dict[int, tuple[str, bool]]]:
    """Message to number to kind, and whether there may be several."""
    code = re.sub(r"//[^\n]*", "", proto)
    code = re.sub(r"oneof \w+ \{(.*?)\}", r"\1", code, flags=re.DOTALL)
    found = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", code, re.DOTALL):
        entries = re.findall(r"(repeated\s+)?([\w.]+)\s+\w+ = (\d+);", body)
        found[name] = {
            int(number): (kind, bool(several)) for several, kind, number in entries
        }
    return found
