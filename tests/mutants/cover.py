"""Which test runs which line, and how long each takes.

What a fixture of a module or a session runs belongs to every test that asks for the fixture.
What is known of a file of tests is kept until it, a helper or a source changes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.change import ROOT, SRC

KEPT: Final = ROOT / "build" / "mutants" / "covered"
Facts = dict[str, Any]
"""Of one file of tests: per test its `seconds`, its `outcome`, and `lines` by source."""


def kept(test_file: str) -> Path:
    """Where the facts of a file of tests lie, whether or not they are there yet."""
    digest = hashlib.sha256(_shared() + (ROOT / test_file).read_bytes()).hexdigest()[:16]
    return KEPT / f"{test_file.replace('/', '.')}.{digest}.json"


@cache
def _shared() -> bytes:
    """Digest of what any test may depend on."""
    helpers = [p for p in (ROOT / "tests").rglob("*.py") if not p.name.startswith("test_")]
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted([*SRC.rglob("*.py"), *helpers]):
        if "mutants" not in path.parts[-2:]:
            digest.update(path.read_bytes())
    return digest.digest()


class _Watch:
    """Tells coverage whose lines these are."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.now = ""

    def switch(self, name: str) -> str:
        before, self.now = self.now, name
        self._measured.switch_context(name)
        return before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.switch(_name(fixturedef)) if fixturedef.scope != "function" else self.now
        try:
            return (yield)
        finally:
            if self.now != before:
                self.switch(before)


def _name(fixturedef: Any) -> str:
    return f"fixture:{fixturedef.baseid}:{fixturedef.argname}"


def _fixtures(item: pytest.Item) -> list[str]:
    known: dict[str, Sequence[Any]] = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    return [_name(each) for defs in known.values() for each in defs if each.scope != "function"]


def measure(items: Sequence[pytest.Item], out: Path) -> None:
    """Run tests and write down what they cover.

    Args:
        items: all of one file, in order.
        out: where their facts are kept.
    """
    measured = coverage.Coverage(data_file=None, include=[f"{SRC}/*"], config_file=False)
    # Where all tests of a file start processes, no line is run in this one.
    measured.set_option("run:disable_warnings", ["no-data-collected"])
    watch = _Watch(measured)
    items[0].config.pluginmanager.register(watch)
    facts: Facts = {}
    measured.start()
    for item, following in zip(items, [*items[1:], None], strict=True):
        forget()
        watch.switch(item.nodeid)
        begun = time.process_time()
        reports = runtestprotocol(item, nextitem=following, log=False)
        seconds = time.process_time() - begun
        outcome = "failed" if any(report.failed for report in reports) else "passed"
        outcome = "skipped" if any(report.skipped for report in reports) else outcome
        facts[item.nodeid] = {"seconds": round(seconds, 4), "outcome": outcome, "lines": {}}
    measured.stop()
    lines = _lines(measured)
    for item in items:
        own: dict[str, set[int]] = defaultdict(set)
        for context in [item.nodeid, *_fixtures(item)]:
            for path, numbers in lines[context].items():
                own[path] |= numbers
        facts[item.nodeid]["lines"] = {path: sorted(numbers) for path, numbers in own.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    for old in out.parent.glob(f"{out.name.rsplit('.', 2)[0]}.*.json"):
        old.unlink()
    out.write_text(json.dumps(facts, separators=(",", ":")), encoding="utf-8")


def forget() -> None:
    """Empty the caches of functions: what one test made would hide a line from the next."""
    for name, module in list(sys.modules.items()):
        if name.startswith("whisper_hailo"):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def _lines(measured: coverage.Coverage) -> dict[str, dict[str, set[int]]]:
    """By context and source."""
    found: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    data = measured.get_data()
    for file in data.measured_files():
        path = str(Path(file).relative_to(ROOT))
        for number, contexts in data.contexts_by_lineno(file).items():
            for context in contexts:
                found[context][path].add(number)
    return found


class Covered:
    """What is known of all files of tests that were measured.

    Args:
        test_files: those that are asked.
    """

    def __init__(self, test_files: Sequence[str]) -> None:
        self._test_files = test_files
        self._by_line: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        for file in test_files:
            facts: Facts = json.loads(kept(file).read_text(encoding="utf-8"))
            for test, fact in facts.items():
                if fact["outcome"] != "passed":
                    self.failed += [test] if fact["outcome"] == "failed" else []
                    continue
                self.seconds[test] = fact["seconds"]
                for path, numbers in fact["lines"].items():
                    for number in numbers:
                        self._by_line[path][number].add(test)

    def tests(self, path: str, lines: tuple[int, int] | None) -> list[str]:
        """Tests that run any of these lines, or any of the file; files with quick ones first."""
        by_line = self._by_line[path]
        wanted = by_line if lines is None else range(lines[0], lines[1] + 1)
        found = {test for number in wanted for test in by_line.get(number, ())}
        spent: dict[str, float] = defaultdict(float)
        for test in found:
            spent[_file(test)] += self.seconds[test]
        order = {test: at for at, test in enumerate(self.seconds)}
        return sorted(found, key=lambda test: (spent[_file(test)], _file(test), order[test]))

    def naming(self, module: str) -> list[str]:
        """Tests whose files name a module: of one that has nothing to run, such as constants."""
        named = {file for file in self._test_files if imports(file, {module})}
        return [test for test in self.seconds if _file(test) in named]


def imports(test_file: str, modules: set[str]) -> bool:
    """Whether a file of tests imports any of these modules, or names one."""
    text = (ROOT / test_file).read_text(encoding="utf-8")
    for module in modules:
        package, _, name = (re.escape(part) for part in module.rpartition("."))
        if re.search(rf"\b{package}(\.|\b import .*\b|\b import \([^)]*\b){name}\b", text):
            return True
    return False


def _file(test: str) -> str:
    return test.partition("::")[0]
