"""What is remembered of fetched files, options of the chip, and other small things."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.standin.hef_file import Net, Wish, hef_bytes
from tests.unit.backends.hailo.test_contract import SPEC, decoder, encoder
from whisper_hailo.backends.hailo import hef_catalog as sums_module
from whisper_hailo.backends.hailo.hef_catalog import Sums, check_array, download
from whisper_hailo.backends.hailo.hef_contract import check_decoder, check_encoder
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import HefError, ModelError, OptionError
from whisper_hailo.core.files import atomic_file

A, B = "a" * 64, "b" * 64


def test_hashes_are_kept_by_name_and_compared(tmp_path: Path) -> None:
    first = Sums(tmp_path)
    first.check("x.hef", A)  # nobody knows it yet
    first.keep("x.hef", A)
    first.keep("folder/a b.npy", B)
    assert first.path.read_text() == f"{B}  folder/a b.npy\n{A}  x.hef\n"
    again = Sums(tmp_path)
    for sums in (first, again):
        sums.check("x.hef", A)
        with pytest.raises(ModelError, match=r"SHA-256 b{16}\.\.\., expected a{16}\.\.\., which"):
            sums.check("x.hef", B)
    again.keep("x.hef", B)
    Sums(tmp_path).check("x.hef", B)


def test_what_is_known_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = Sums(tmp_path)
    sums.keep("x.hef", A)
    monkeypatch.setattr(sums_module, "write_file", None)
    sums.keep("x.hef", A)
    Sums(tmp_path).keep("x.hef", A)


def test_lines_that_are_none_are_passed_over(tmp_path: Path) -> None:
    """Somebody may have edited the file."""
    lines = [
        b"# \xff no text", f"{A} one-blank".encode(), f"{A[1:]}  short".encode(),
        f"{A}x  long".encode(), f"{A}  ".encode(), f"{B}  good".encode(),
    ]  # fmt: skip
    (tmp_path / "SHA256SUMS").write_bytes(b"\n".join(lines))
    sums = Sums(tmp_path)
    assert sums.known == {"good": B}


@pytest.mark.parametrize(
    ("array", "fits"),
    [
        (np.zeros((2, 3), np.float32), True), (np.zeros((1, 2, 3), np.float32), True),
        (np.zeros(3, np.float32), False), (np.zeros((2, 3), np.float16), False),
        (np.zeros((2, 3)), False),
    ],
)  # fmt: skip
def test_arrays_that_are_fetched_are_rows_of_float32(
    tmp_path: Path, array: Any, fits: bool
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, array)
    if fits:
        check_array(path, "x.npy")
    else:
        with pytest.raises(ModelError, match=r"x\.npy from there is .*, expected float32 rows"):
            check_array(path, "x.npy")


def test_what_was_fetched_is_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it: its name is given to it next."""
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 400)
    on_disk: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: on_disk.append(os.fstat(number).st_size))
    with atomic_file(tmp_path / "target") as scratch:
        download(source.as_uri(), scratch)
    assert on_disk[0] == 102_400
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("name", ["timeout_s", "open_timeout_s", "recovery_s"])
def test_times_go_from_nothing_to_an_hour(name: str) -> None:
    """Only to come back a chip may have no time at all."""
    for seconds in (0.001, 3600.0):
        assert getattr(ChipOptions(**{name: seconds}), name) == seconds
    for seconds in (-0.001, 3600.5, float("nan")):
        with pytest.raises(OptionError, match="3600 s"):
            ChipOptions(**{name: seconds})
    assert not ALONE.share
    if name == "recovery_s":
        assert ChipOptions(recovery_s=0).recovery_s == 0
    else:
        with pytest.raises(OptionError, match="more than 0 and at most 3600 s"):
            ChipOptions(**{name: 0})


@pytest.mark.parametrize(("net", "check"), [(encoder(), check_encoder), (decoder(), check_decoder)])
def test_checksums_are_left_to_hailort_when_it_loads_a_file(
    tmp_path: Path, net: Net, check: Any
) -> None:
    """A second for each hundred megabytes, at every start."""
    changed = bytearray(hef_bytes(Wish([net], version=1)))
    changed[-1] ^= 1
    path = tmp_path / "x.hef"
    path.write_bytes(changed)
    hef, _ = check(path, SPEC)
    assert hef.path == path
    with pytest.raises(HefError, match="does not have the CRC-32 it states"):
        read_hef(path)
