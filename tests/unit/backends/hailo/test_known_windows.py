"""Table of sizes that Whisper is known to compile with."""

from __future__ import annotations

import pytest

from whisper_hailo.backends.hailo.known_windows import (
    BASE,
    KNOWN_WINDOWS,
    TINY,
    default_window,
    describe_lengths,
    describe_windows,
    is_failing,
)
from whisper_hailo.core.spec import ARCHES


@pytest.mark.parametrize(
    ("d_model", "arch", "expected"),
    [
        (TINY, None, (10, 32)),
        (TINY - 1, "hailo8l", (10, 32)),
        (TINY + 1, "hailo8", (5, 24)),
        (BASE, None, (5, 24)),
        (BASE, "hailo8", (5, 24)),
        (BASE, "hailo10h", (10, 64)),
        (BASE + 1, "hailo10h", (5, 24)),
        (1280, None, (5, 24)),
    ],
)
def test_default_window_of_a_width_fits_the_chip(
    d_model: int, arch: str | None, expected: tuple[int, int]
) -> None:
    sizes = default_window(d_model, arch)
    assert (sizes.window_s, sizes.length) == expected


def test_known_windows_cover_every_chip_and_none_fails() -> None:
    assert {arch for arch, _ in KNOWN_WINDOWS} == set(ARCHES)
    for (arch, d_model), known in KNOWN_WINDOWS.items():
        assert not is_failing(arch, d_model, known.window_s)


def test_is_failing_from_10_s_for_base_on_hailo_8() -> None:
    assert is_failing("hailo8", BASE, 10)
    assert is_failing("hailo8l", BASE, 30)
    assert not is_failing("hailo8", BASE, 9)
    assert not is_failing("hailo10h", BASE, 30)
    assert not is_failing("hailo8", TINY, 30)


def test_describe_windows_and_lengths_name_all_numbers() -> None:
    for known in KNOWN_WINDOWS.values():
        assert str(known.window_s) in describe_windows()
        assert str(known.length) in describe_lengths()
