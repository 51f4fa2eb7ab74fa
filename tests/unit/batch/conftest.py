"""What the tests of jobs share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.unit.batch.made_up import Files


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """What is behind addresses that begin with `made://`; fsspec knows no others."""
    made = Files()

    def url_to_fs(address: str) -> tuple[Files, str]:
        kind, _, path = address.partition("://")
        if kind != "made":
            raise ValueError(f"Protocol not known: {kind}")
        return made, path

    fsspec = SimpleNamespace(core=SimpleNamespace(url_to_fs=url_to_fs))
    monkeypatch.setitem(sys.modules, "fsspec", fsspec)  # type: ignore[arg-type]
    return made


@pytest.fixture
def signals() -> Iterator[None]:
    """What a signal does is as before afterwards; Ctrl-C interrupts, also in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
