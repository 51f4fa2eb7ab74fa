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


class Place:
    """A machine: what its chips were asked, and what goes wrong next."""

    def __init__(self) -> None:
        self.opened: list[FakeChip] = []
        self.opening: list[BaseException | None] = []
        self.results: list[Any] = []
        self.closed: list[int] = []


class FakeChip:
    """Gives the next of the results to each run."""

    def __init__(self, place: Place) -> None:
        if place.opening and (error := place.opening.pop(0)) is not None:
            raise error
        self.place, self.number = place, len(place.opened)
        place.opened.append(self)

    def network(self, *_: object) -> FakeChip:
        return self

    def run_async(self, _inputs: object, _wanted: object) -> Any:
        said = self.place.results.pop(0)
        if isinstance(said, KeyboardInterrupt):
            raise said

        def result() -> Any:
            if isinstance(said, Exception):
                raise said
            return said

        return SimpleNamespace(result=result, took_ms=5.0, chip=self.number)

    def close(self) -> None:
        self.place.closed.append(self.number)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    found = Place()
    monkeypatch.setattr(lease_module, "Chip", lambda _options: FakeChip(found))
    held: Any = {share: lease_module.HeldChip() for share in (False, True)}
    monkeypatch.setattr(lease_module, "HELD_CHIPS", held)
    yield found
    assert [one.users for one in held.values()] == [0, 0]
    assert [one.chip for one in held.values()] == [None, None]


def lease(options: ChipOptions = ALONE) -> Lease:
    return Lease(None, "group", options)  # type: ignore[arg-type]


def test_leased_runs_that_fail_give_up_their_chip_once(place: Place) -> None:
    with lease() as own:
        place.results = [DeviceLostError("a"), DeviceLostError("b"), OK, OK]
        runs = [own.run_async({}, ()) for _ in range(2)]
        assert [run.result() for run in runs] == [OK, OK]
        assert (len(place.opened), place.closed) == (2, [0])
        assert [run.took_ms for run in runs] == [5, 5]
    assert place.closed == [0, 1]


def test_leased_run_is_repeated_once(place: Place) -> None:
    with lease() as own:
        place.results = [DeviceLostError("first"), DeviceLostError("second"), OK]
        with pytest.raises(DeviceLostError, match="second"):
            own.run({}, ())
        assert own.run({}, ()) == OK
        assert place.closed == [0, 1]


@pytest.mark.parametrize(
    "error", [DeviceTimeoutError("x"), DeviceError("x"), ValueError("x")]
)
def test_leased_run_failure_reopens_the_chip_for_the_next(
    place: Place, error: Exception
) -> None:
    with lease() as own:
        place.results = [error, OK]
        with pytest.raises(type(error), match="x"):
            own.run({}, ())
        assert place.closed == [0]
        assert own.run({}, ()) == OK
        assert len(place.opened) == 2


def test_lease_guarded_interrupt_gives_up_the_chip(place: Place) -> None:
    with lease() as own:
        place.results = [KeyboardInterrupt()]
        with pytest.raises(KeyboardInterrupt):
            own.run_async({}, ())
        assert place.closed == [0]


def test_leased_run_that_cannot_begin_fails_in_result(place: Place) -> None:
    with lease() as own:
        with pytest.raises(DeviceError), own.guarded(own.held.chip):
            raise DeviceError("gives the chip up")
        place.opening = [DeviceTimeoutError("no answer")]
        run = own.run_async({}, ())
        with pytest.raises(DeviceTimeoutError, match="no answer"):
            run.result()
        assert run.took_ms == 0


@pytest.mark.parametrize("kind", [DeviceLostError, DeviceTimeoutError])
def test_lease_open_failure_gives_up_the_chip(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: type[WhisperHailoError]
) -> None:
    def fail(*_: object) -> None:
        raise kind("while loading")

    monkeypatch.setattr(FakeChip, "network", fail)
    with pytest.raises(kind):
        lease().open()
    assert place.closed == [0]


def test_lease_keeps_shared_and_unshared_chips_apart(place: Place) -> None:
    with lease(), lease(ChipOptions(share=True)), lease(ChipOptions(share=True)):
        assert len(place.opened) == 2


def test_close_all_closes_forgotten_leases(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease().open()
    lease(ChipOptions(share=True)).open()

    def close(chip: FakeChip) -> None:
        place.closed.append(chip.number)
        raise OSError("not now")

    monkeypatch.setattr(FakeChip, "close", close)
    close_all()
    assert sorted(place.closed) == [0, 1]
    for held in lease_module.HELD_CHIPS.values():
        held.users = 0
