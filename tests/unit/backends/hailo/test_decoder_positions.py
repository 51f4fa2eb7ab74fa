"""Trial runs that find out which side adds a decoder's position rows."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.standin.make_hef import write_hefs
from tests.unit.backends.hailo.conftest import Hefs
from whisper_hailo.backends.hailo import decoder_positions
from whisper_hailo.backends.hailo.decoder_positions import choose_positions
from whisper_hailo.backends.hailo.hef_contract import CHIP, HOST
from whisper_hailo.backends.hailo.hef_parts import HefRunner
from whisper_hailo.core.errors import WrongAnswerError
from whisper_hailo.core.spec import ModelSpec


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    # Random weights find no word likely.
    monkeypatch.setattr(decoder_positions, "MIN_LOGPROB", -100.0)


def _choose(path: Path, directory: Path, spec: ModelSpec) -> HefRunner:
    runner = HefRunner(path, spec, directory)
    choose_positions(runner, directory, spec, 1)
    return runner


def test_choose_positions_of_usual_file_does_not_warn(
    *,
    machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runner = _choose(hefs.decoder, hailo_directory, spec)
    assert runner.positions == HOST
    n_runs = machine.counts["run"]
    assert n_runs == 2, "both ways"
    assert machine.counts["open"] == 1
    assert _choose(hefs.decoder, hailo_directory, spec).positions == HOST
    assert machine.counts["run"] == n_runs, "the answer is kept"
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize(("arch", "side"), [("hailo8l", CHIP), ("hailo10h", HOST)])
def test_choose_positions_of_unusual_file_logs_the_side(
    *,
    machine: Any,
    hailo_directory: Path,
    spec: ModelSpec,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    arch: str,
    side: str,
) -> None:
    if arch == "hailo10h":
        machine.set(chip=arch, version="5.1.1")
    _, path = write_hefs(hailo_directory, tmp_path / "hefs", arch, side)
    runner = _choose(path, hailo_directory, spec)
    assert runner.positions == side
    assert runner.shape.positions != side
    assert f"{side}" in caplog.text


def test_choose_positions_with_unlikely_words_fails(
    machine: Any,
    hefs: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoder_positions, "MIN_LOGPROB", 0.0)
    with pytest.raises(
        WrongAnswerError, match=r"decoder_hailo8l\.hef.*-\d\.\d .*-\d\.\d "
    ):
        _choose(hefs.decoder, hailo_directory, spec)
