"""What the aarch64 lane makes of logits and counts; the lane itself is `make test-aarch64`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.aarch64.compare import row
from benchmarks.aarch64.steps import counter

from whisper_hailo.bench.report.aarch64 import steps_table

ROOT = Path(__file__).parents[3]


def logits(*values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([values], dtype=np.float32)


def test_a_difference_within_the_bound_is_good() -> None:
    exact = logits(5.2, 1.0)
    found = row("micro-int8", logits(5.0, 1.0), logits(5.1, 1.0), exact)
    assert found["good"]
    assert (found["same_token"], found["steps"]) == (1, 1)
    assert found["rms_bound"] == pytest.approx(0.4 / 2**0.5)  # twice what the quantisation costs
    assert found["bound"] == pytest.approx(0.4)
    assert not row("micro-int8", logits(5.0, 1.0), logits(5.5, 1.0), exact)["good"]
    assert not row("micro-none", logits(5.0, 1.0), logits(5.1, 1.0), exact)["good"]


def test_one_large_difference_is_chance_and_many_are_a_fault() -> None:
    here, exact = np.zeros((1, 100), np.float32), np.full((1, 100), 0.1, np.float32)
    there = here.copy()
    there[0, 7] = 0.19  # 1.9 times the largest loss, and little in the mean
    assert row("micro-int8", here, there, exact)["good"]
    there[0, 7] = 0.21
    assert not row("micro-int8", here, there, exact)["good"]
    assert not row("micro-int8", here, here - 0.21, exact)["good"]


def test_near_ties_may_fall_either_way_and_nothing_else() -> None:
    assert row("micro-int4", logits(1.0, 0.95), logits(1.0, 1.04), logits(1.1, 0.95))["good"]
    flipped = row("micro-int4-float-kernel", logits(5.0, 1.0), logits(1.0, 5.0), logits(5.1, 1.0))
    assert not flipped["good"]
    assert flipped["same_token"] == 0


def test_the_counter_is_read_from_the_file_that_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    path.write_bytes((41).to_bytes(8, "little"))
    read = counter(path)
    assert read() == 41
    with path.open("r+b") as file:
        file.write((42).to_bytes(8, "little"))
    assert read() == 42
    assert counter(None)() == 0


def test_the_table_has_dashes_where_only_instructions_are_known() -> None:
    known = row("tiny-int8", logits(5.0, 1.0), logits(5.0, 1.0), logits(5.5, 1.0)) | {
        "instructions": 10_428_320
    }
    text = steps_table([known, {"model": "ctranslate2-int8", "instructions": 2_000_000}]).markdown()
    assert "| tiny-int8 | 10.43 | 0.0e+00 | 7.1e-01 | 0.0e+00 | 1.0e+00 | 1 of 1 |" in text
    assert "| ctranslate2-int8 | 2.00 | - | - | - | - | - |" in text


def test_the_lane_names_tests_that_exist() -> None:
    text = (ROOT / "benchmarks" / "aarch64" / "tests.txt").read_text(encoding="utf-8")
    paths = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
    script = (ROOT / "scripts" / "test-aarch64").read_text(encoding="utf-8")
    assert set(re.findall(r"benchmarks/aarch64/([\w.-]+)", script)) <= {
        path.name for path in (ROOT / "benchmarks" / "aarch64").iterdir()
    }
