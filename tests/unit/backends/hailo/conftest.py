"""The stand-in for Hailo's binding in this process, HEFs of the toy, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.standin import chip_here
from tests.standin.make_hef import write_hefs
from whisper_hailo.backends.hailo import chip, hef_catalog, isolated_probe
from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.options import ChipOptions
from whisper_hailo.core.spec import ModelSpec

PATIENCE_S = 300.0
QUICK = ChipOptions(timeout_s=1.5, open_timeout_s=30)


@dataclass(frozen=True)
class Hefs:
    encoder: Path
    decoder: Path


def mel_of(batch: int = 1) -> Any:
    """Noise as a log-mel of the toy's window, `(batch, 80, 200)` float32."""
    rng = np.random.default_rng(batch)
    return rng.standard_normal((batch, 80, 200)).astype(np.float32)


@pytest.fixture(scope="module")
def spec(hailo_directory: Path) -> ModelSpec:
    return ModelSpec.load(hailo_directory)


@pytest.fixture(scope="session")
def hefs(hailo_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Hefs:
    """For an 8L; the host adds the position rows."""
    return Hefs(*write_hefs(hailo_directory, tmp_path_factory.mktemp("hefs")))


@pytest.fixture(scope="session")
def hefs_10h(hailo_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Hefs:
    """For a 10H; the chip adds the position rows, and gives an output too many."""
    out = tmp_path_factory.mktemp("hefs")
    return Hefs(*write_hefs(hailo_directory, out, "hailo10h", "chip"))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The stand-in's machine; afterwards the chip is closed, its threads gone, no rule broken."""
    # However busy this machine is, its chips are found.
    monkeypatch.setattr(
        hef_catalog, "chips", partial(isolated_probe.chips, timeout_s=PATIENCE_S)
    )
    # Whatever test came first: refusals are not laid at the door of this process's NumPy.
    monkeypatch.setattr(Faults, "has_run", True)
    with chip_here(monkeypatch) as found:
        yield found
        assert [held.users for held in chip.HELD_CHIPS.values()] == [0, 0]
        assert [held.chip for held in chip.HELD_CHIPS.values()] == [None, None]
        left = [
            thread.name
            for thread in threading.enumerate()
            if thread.name == "standin chip"
        ]
        assert left == []


@pytest.fixture
def trial_machine(machine: Any) -> Iterator[Any]:
    """The stand-in's machine for trials, whose chip stays open for a lease that follows."""
    yield machine
    chip.close_all()
