"""Faults tried in copies of one process, in which all tests are collected already.

A copy exchanges the code of one function, runs the tests that cover it until one fails, and ends.
Nothing is written into the sources. What acts at import cannot be exchanged: for that a copy
imports the package and the tests anew, with the fault in it.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.change import ROOT, SRC, Mutant, Source
from tests.mutants.copies import in_copies, send
from tests.mutants.cover import Covered, forget, imports, kept, measure

_QUICK_S: Final = 3.0
_SLOWER: Final = 10
_OURS: Final = {"whisper_hailo", "whisper_hailo_tools", "whisper_hailo_lab", "tests", "benchmarks"}

_Functions: TypeAlias = dict[tuple[str, str, int], list[types.FunctionType]]
"""By file, name and line."""

_QUIET: Final = [
    *("-qq", "-x", "-m", "not slow", "-p", "no:cacheprovider", "--no-header", "--no-summary"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
]


@dataclass(slots=True)
class Lane:
    """A pytest plugin that does not run the tests once, but for each fault those it concerns.

    Args:
        mutants: to try, in order; filled in.
        test_files: those that are asked.
        jobs: copies at a time.
        most_s: seconds of tests for one fault.
        end_s: when to begin no more, in seconds of the processor as `spent_s` has them.
        tell: told of each one that is done.
    """

    mutants: list[Mutant]
    test_files: list[str]
    jobs: int
    most_s: float
    end_s: float
    tell: Callable[[Mutant], None]
    done: list[Mutant] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every fault on the tests that name its module; on all of the area what lives there.

        Most die by the first, so that most of the area need not be measured.
        """
        by_file: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            by_file.setdefault(item.nodeid.partition("::")[0], []).append(item)
        sources = {path: Source(path) for path in sorted({one.path for one in self.mutants})}
        for path in sources:
            importlib.import_module(_module(path))
        functions = _functions()
        modules = {*map(_module, sources)}
        near = {file: items for file, items in by_file.items() if imports(file, modules)}
        left = self.mutants
        for files in (near, by_file):
            again = []
            for one in self._tried(left, files, sources, functions):
                if files is near and not one.killed_by:
                    again.append(one)
                    continue
                self.done.append(one)
                self.tell(one)
            left = again
        return True

    def _tried(
        self,
        mutants: Sequence[Mutant],
        by_file: dict[str, list[pytest.Item]],
        sources: dict[str, Source],
        functions: _Functions,
    ) -> Iterator[Mutant]:
        """Each that there is time for, tried on these files of tests."""
        if not mutants:
            return
        covered = Covered(self._measure(by_file))
        self.failed += covered.failed
        items = {item.nodeid: item for some in by_file.values() for item in some}
        work = [
            (one, lambda one=one: self._try(one, sources[one.path], covered, items, functions))
            for one in mutants
        ]
        for one, answer in in_copies(work, self.jobs, self.end_s):
            one.killed_by, one.covered, one.tried = answer
            yield one

    def _measure(self, by_file: dict[str, list[pytest.Item]]) -> list[str]:
        """Files of tests of which all is known then; those whose tests are all slow are none."""
        work = [
            (file, lambda file=file, items=items: measure(items, kept(file)))
            for file, items in by_file.items()
            if not kept(file).exists()
        ]
        for _ in in_copies(work, self.jobs, float("inf")):
            pass
        return list(by_file)

    def _try(
        self,
        one: Mutant,
        source: Source,
        covered: Covered,
        items: dict[str, pytest.Item],
        functions: _Functions,
    ) -> tuple[str, int, int]:
        """In the copy: the test that kills, how many cover the line, how many were run."""
        tests = covered.tests(one.path, one.lines) if one.function else []
        # What no test runs may run at import, where the tests of the file begin.
        at_import = not tests
        tests = tests or covered.tests(one.path, None) or covered.naming(_module(one.path))
        chosen = self._quickest(tests, covered.seconds)
        send(("", len(tests), len(chosen)))
        if not chosen:
            return "", 0, 0
        code = compile(source.mutated(one), str(ROOT / one.path), "exec", dont_inherit=True)
        if not at_import and _exchange(code, functions):
            killer = _run([items[test] for test in chosen], covered.seconds)
        else:
            killer = _run_anew(one.path, code, chosen)
        return killer, len(tests), len(chosen)

    def _quickest(self, tests: Sequence[str], seconds: dict[str, float]) -> list[str]:
        """As many as there is time for, the quickest, in the order in which they came."""
        left_s, taken = self.most_s, set()
        for test in sorted(tests, key=seconds.__getitem__):
            left_s -= seconds[test]
            if taken and left_s < 0:
                break
            taken.add(test)
        return [test for test in tests if test in taken]


def _module(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _functions() -> _Functions:
    """All functions of the package that live."""
    found: _Functions = {}
    gc.unfreeze()  # by tests/conftest.py; what is frozen is not told
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(str(SRC)):
            found.setdefault(_key(one.__code__), []).append(one)
    gc.freeze()
    return found


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Of functions of a module and of its classes."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield inner
            if not inner.co_flags & 0x2:  # without locals of its own: a class
                yield from _codes(inner)


def _exchange(code: types.CodeType, functions: _Functions) -> bool:
    """Give every living function of the file its new code, where that differs."""
    n_exchanged = 0
    for new in _codes(code):
        for function in functions.get(_key(new), ()):
            if function.__code__ == new:
                continue
            if function.__code__.co_freevars != new.co_freevars:
                return False
            function.__code__ = new
            n_exchanged += 1
    return n_exchanged > 0


def _run(items: Sequence[pytest.Item], seconds: dict[str, float]) -> str:
    """Name of the first test that fails."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        forget()
        _limit(seconds[item.nodeid])
        try:
            reports = runtestprotocol(item, nextitem=following, log=False)
        except BaseException:  # a fault may be more than pytest's own report can bear, or Ctrl-C
            return item.nodeid
        if any(report.failed for report in reports):
            return item.nodeid
    return ""


def _limit(seconds: float) -> None:
    """A fault may make a loop endless: computing too long, or waiting too long, ends the copy."""
    limit_s = _QUICK_S + _SLOWER * seconds
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    signal.setitimer(signal.ITIMER_REAL, 6 * limit_s)


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, with its fault."""

    def __init__(self, path: str, code: types.CodeType) -> None:
        self._name, self._path, self._code = _module(path), ROOT / path, code

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self._code, module.__dict__)  # noqa: S102 - that is its import


class _First:
    """Notes the first test that fails."""

    def __init__(self, seconds: float) -> None:
        self.name = ""
        self._seconds = seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _limit(self._seconds)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or f"import of {report.nodeid}"


def _run_anew(path: str, code: types.CodeType, tests: Sequence[str]) -> str:
    """The same for what acts at import."""
    for name in [*sys.modules]:
        is_ours = name.split(".")[0] in _OURS
        if is_ours and not name.startswith("tests.mutants"):
            del sys.modules[name]
    sys.meta_path.insert(0, _Mutated(path, code))
    first = _First(1.0)
    _limit(1.0)
    status = pytest.main([*_QUIET, *tests], plugins=[first])
    return first.name or ("" if status == 0 else f"pytest ends with {int(status)}")


def run(lane: Lane) -> int:
    """Collect the tests and try the faults; pytest's own status."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder  # copies end without taking theirs away
        return int(pytest.main([*_QUIET, *lane.test_files], plugins=[lane]))
