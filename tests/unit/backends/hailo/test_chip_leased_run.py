"""Leases on a scripted chip."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whisper_hailo.backends.hailo import chip as lease_module
from whisper_hailo.backends.hailo.chip import Lease, close_all
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import (
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    WhisperHailoError,
)

OK: dict[str, Any] = {"out": np.zeros(1, np.float32)}


class Machine:
    """A machine with its chips, and results and errors that come next."""

    def __init__(self) -> None:
        self.opened: list[FakeChip] = []
        self.opening: list[BaseException | None] = []
        self.results: list[Any] = []
        self.closed: list[int] = []


class FakeChip:
    """Gives the next of the results to each run."""

    def __init__(self, scripted: Machine) -> None:
        if scripted.opening and (error := scripted.opening.pop(0)) is not None:
            raise error
        self.scripted = scripted
        self.number = len(scripted.opened)
        scripted.opened.append(self)

    def network(self, *_: object) -> FakeChip:
        return self

    def run_async(self, _inputs: object, _wanted: object) -> Any:
        outcome = self.scripted.results.pop(0)
        if isinstance(outcome, KeyboardInterrupt):
            raise outcome

        def result() -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return SimpleNamespace(result=result, took_ms=5.0, chip=self.number)

    def close(self) -> None:
        self.scripted.closed.append(self.number)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine()
    monkeypatch.setattr(lease_module, "Chip", lambda _options: FakeChip(machine))
    held: Any = {share: lease_module.HeldChip() for share in (False, True)}
    monkeypatch.setattr(lease_module, "HELD_CHIPS", held)
    yield machine
    assert [chip.users for chip in held.values()] == [0, 0]
    assert [chip.chip for chip in held.values()] == [None, None]


def lease(options: ChipOptions = ALONE) -> Lease:
    return Lease(None, "group", options)  # type: ignore[arg-type]


def test_leased_runs_that_fail_give_up_their_chip_once(scripted: Machine) -> None:
    with lease() as own:
        scripted.results = [DeviceLostError("a"), DeviceLostError("b"), OK, OK]
        runs = [own.run_async({}, ()) for _ in range(2)]
        assert [run.result() for run in runs] == [OK, OK]
        assert (len(scripted.opened), scripted.closed) == (2, [0])
        assert [run.took_ms for run in runs] == [5, 5]
    assert scripted.closed == [0, 1]


def test_leased_run_is_repeated_once(scripted: Machine) -> None:
    with lease() as own:
        scripted.results = [DeviceLostError("first"), DeviceLostError("second"), OK]
        with pytest.raises(DeviceLostError, match="second"):
            own.run({}, ())
        assert own.run({}, ()) == OK
        assert scripted.closed == [0, 1]


@pytest.mark.parametrize(
    "error", [DeviceTimeoutError("x"), DeviceError("x"), ValueError("x")]
)
def test_leased_run_failure_reopens_the_chip_for_the_next(
    scripted: Machine, error: Exception
) -> None:
    with lease() as own:
        scripted.results = [error, OK]
        with pytest.raises(type(error), match="x"):
            own.run({}, ())
        assert scripted.closed == [0]
        assert own.run({}, ()) == OK
        assert len(scripted.opened) == 2


def test_lease_guarded_interrupt_gives_up_the_chip(scripted: Machine) -> None:
    with lease() as own:
        scripted.results = [KeyboardInterrupt()]
        with pytest.raises(KeyboardInterrupt):
            own.run_async({}, ())
        assert scripted.closed == [0]


def test_leased_run_that_cannot_begin_fails_in_result(scripted: Machine) -> None:
    with lease() as own:
        with pytest.raises(DeviceError), own.guarded(own.held.chip):
            raise DeviceError("gives the chip up")
        scripted.opening = [DeviceTimeoutError("no answer")]
        run = own.run_async({}, ())
        with pytest.raises(DeviceTimeoutError, match="no answer"):
            run.result()
        assert run.took_ms == 0


@pytest.mark.parametrize("kind", [DeviceLostError, DeviceTimeoutError])
def test_lease_open_failure_gives_up_the_chip(
    scripted: Machine, monkeypatch: pytest.MonkeyPatch, kind: type[WhisperHailoError]
) -> None:
    def fail(*_: object) -> None:
        raise kind("while loading")

    monkeypatch.setattr(FakeChip, "network", fail)
    with pytest.raises(kind):
        lease().open()
    assert scripted.closed == [0]


def test_lease_keeps_shared_and_unshared_chips_apart(scripted: Machine) -> None:
    with lease(), lease(ChipOptions(share=True)), lease(ChipOptions(share=True)):
        assert len(scripted.opened) == 2


def test_close_all_closes_forgotten_leases(
    scripted: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease().open()
    lease(ChipOptions(share=True)).open()

    def close(chip: FakeChip) -> None:
        scripted.closed.append(chip.number)
        raise OSError("not now")

    monkeypatch.setattr(FakeChip, "close", close)
    close_all()
    assert sorted(scripted.closed) == [0, 1]
    for held in lease_module.HELD_CHIPS.values():
        held.users = 0
