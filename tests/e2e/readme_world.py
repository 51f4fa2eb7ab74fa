"""What the README's commands meet on the reader's machine: only what its own lines have installed.

The environment of the tests has every extra. A command that needs one which the README has not told
to install would work here and nowhere else, so modules of all other packages are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = "whisper-hailo"
BUILD = Path(__file__).parents[2] / "requirements" / "build.txt"
TOOLS = {
    "pip",
    "setuptools",
    *re.findall(r"^([\w-]+)==", BUILD.read_text(), flags=re.MULTILINE),
}
"""A virtual environment has two from the start, and `make` adds those that install this project."""

HIDER = """\
import os, sys
from importlib.machinery import PathFinder

HIDDEN = frozenset(os.environ["HIDDEN_MODULES"].split(","))


class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in HIDDEN
        return None if hidden else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""
"""Python imports a module of the name `sitecustomize` whenever it starts."""


def hiding(folder: Path, extras: frozenset[str]) -> dict[str, str]:
    """Variables under which Python sees the base installation, these extras, and nothing else.

    Args:
        folder: an empty one, for the module that hides.
        extras: those that are installed.
    """
    (folder / "sitecustomize.py").write_text(HIDER, encoding="utf-8")
    visible = set(_needed(OURS, extras, set())) | TOOLS
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if visible.isdisjoint(canonicalize_name(package) for package in packages)
    ]
    return {"PYTHONPATH": str(folder), "HIDDEN_MODULES": ",".join(sorted(hidden))}


def _needed(
    package: str, extras: frozenset[str], known: set[tuple[str, str]]
) -> Iterator[str]:
    """A package, and those that it needs with these extras, as far as they are installed."""
    try:
        wanted = requires(package) or []
    except PackageNotFoundError:
        return
    yield canonicalize_name(package)
    for extra in ("", *sorted(extras)):
        if (package, extra) in known:
            continue
        known.add((package, extra))
        for requirement in map(Requirement, wanted):
            if requirement.marker is None or requirement.marker.evaluate(
                {"extra": extra}
            ):
                name = canonicalize_name(requirement.name)
                yield from _needed(name, frozenset(requirement.extras), known)
