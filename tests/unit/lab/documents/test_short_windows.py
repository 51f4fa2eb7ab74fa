"""The table of short windows, from a result that can be checked by hand."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.documents.short_windows import table, tables

CLIPS = [
    {"clip": "a", "counts": [[1, 0, 0, 3], [0, 0, 0, 4]], "cpu_ms": [10.0, 20.0]},
    {"clip": "b", "counts": [[0, 1, 0, 5], [0, 1, 0, 5]], "cpu_ms": [20.0, 30.0]},
]
RESULT: dict[str, Any] = {
    "machine": "Test CPU",
    "limit": None,
    "words": [{"window_s": 2.0, "clips": CLIPS}],
    "times": [
        {"window_s": 2.0, "encoder_ms": [5.0, 7.0, 6.0], "all_ms": [50.0, 60.0, 40.0]},
        {"window_s": 10.0, "encoder_ms": [40.0, 41.0, 42.0], "all_ms": [100.0, 90.0, 80.0]},
    ],
}


def test_rates_are_of_the_same_audio_and_ratios_of_the_same_rounds() -> None:
    short, full = table(RESULT).rows
    assert short[:4] == ("2 s", "6.0", "50.0", "2.00")  # of 2, 1.5, 2
    assert short[4:8] == ("15.0", "1.75", "2", "10")
    assert short[8:10] == ("20.0 %", "10.0 %")
    assert short[10].startswith("+10.0 (+0.0 to +25.0")
    assert full == ("10 s", "41.0", "90.0", "1.00", *("-",) * 7)


def test_the_table_says_what_it_was_measured_on() -> None:
    text = tables(RESULT | {"weights": "m"}, "m")["short-windows"]
    assert text.startswith("Test CPU; processor time.\n\n| window |")
    some = tables(RESULT | {"weights": "m", "limit": 4}, "m")["short-windows"]
    assert some.startswith("Test CPU; processor time. The first 4 clips of each set.\n")
