"""Groups of options become parameters and come back as groups."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from whisper_hailo.cli.groups import grouped


@dataclass(frozen=True)
class Inner:
    depth: int = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner
    name: str = "x"


@grouped
def command(files: list[str], outer: Outer, other: Inner | None = None) -> int:
    """Says what it does."""
    assert (files, outer.name, other) == (["a"], "y", None)
    return outer.inner.depth


def test_fields_become_parameters_with_their_defaults() -> None:
    parameters = inspect.signature(command).parameters
    assert list(parameters) == ["files", "depth", "name", "other"]
    assert parameters["depth"].default == 3
    assert parameters["depth"].annotation is int
    assert parameters["files"].default is inspect.Parameter.empty
    assert command.__doc__ == "Says what it does."


def test_values_come_back_in_their_groups() -> None:
    assert command(files=["a"], depth=7, name="y", other=None) == 7
