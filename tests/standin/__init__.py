"""Stand-ins for programs that cannot be installed here; tests put them on the path."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parent
BINDING = "hailo_platform"
_IMPORTED: dict[str, ModuleType] = {}
"""The stand-in for the binding, imported once: its machine and threads are the process's."""


def with_compiler(env: dict[str, str] | None = None, **wishes: str) -> dict[str, str]:
    """An environment in which the stand-in for the Hailo compiler is installed.

    Args:
        env: what it starts from; `None` is this process's.
        wishes: `version`, `fail` (`stage:how`) of the stand-in.
    """
    named = {f"STANDIN_{name.upper()}": value for name, value in wishes.items()}
    return {
        **(dict(os.environ) if env is None else env),
        "PYTHONPATH": str(FOLDER),
        **named,
    }


def with_chip(
    machine: Path, env: dict[str, str] | None = None, **facts: object
) -> dict[str, str]:
    """An environment in which the stand-in for Hailo's binding is installed.

    Args:
        machine: folder of the machine: processes that name the same one share its chip.
        env: what it starts from; `None` is this process's.
        facts: of the machine, see `hailo_platform/_machine.py`.
    """
    machine.mkdir(parents=True, exist_ok=True)
    (machine / "machine.json").write_text(json.dumps(facts), encoding="utf-8")
    start = dict(os.environ) if env is None else env
    return {**start, "PYTHONPATH": str(FOLDER), "STANDIN_MACHINE": str(machine)}


@contextmanager
def chip_here(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives the machine of the stand-in for Hailo's binding, here and in processes started here.

    Afterwards no rule of the binding was broken, and there is no binding any more: with one, every
    model that is opened with `auto` looks for chips in a process of its own.
    """
    patch.syspath_prepend(str(FOLDER))
    patch.setenv("PYTHONPATH", str(FOLDER))
    sys.modules.update(_IMPORTED)
    from hailo_platform._machine import MACHINE

    MACHINE.set()
    MACHINE.plan = None
    MACHINE.folder = None
    MACHINE.violations.clear()
    try:
        yield MACHINE
        assert MACHINE.violations == []
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == BINDING]:
            _IMPORTED[name] = sys.modules.pop(name)
