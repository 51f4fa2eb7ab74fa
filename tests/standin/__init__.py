"""Stand-ins for programs that cannot be installed here; tests put them on the path."""

from __future__ import annotations

import json
import os
from pathlib import Path

FOLDER = Path(__file__).parent


def with_compiler(env: dict[str, str] | None = None, **wishes: str) -> dict[str, str]:
    """An environment in which the stand-in for the Hailo compiler is installed.

    Args:
        env: what it starts from; `None` is this process's.
        wishes: `version`, `fail` (`stage:how`) of the stand-in.
    """
    named = {f"STANDIN_{name.upper()}": value for name, value in wishes.items()}
    return {**(dict(os.environ) if env is None else env), "PYTHONPATH": str(FOLDER), **named}


def with_chip(machine: Path, env: dict[str, str] | None = None, **facts: object) -> dict[str, str]:
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
