"""Comes first: what the package does for its users' privacy, it does for that of its tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

gc.disable()  # until all is collected, of which nothing is garbage

# Before NumPy is there: tests run beside each other, a core for each process.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Models fill some hundreds of MiB, which a folder for temporary files in memory may not have.
if shutil.disk_usage(tempfile.gettempdir()).free < 2**30:
    ROOMY = Path(__file__).parent / "build"
    ROOMY.mkdir(exist_ok=True)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(ROOMY))

import whisper_hailo  # noqa: E402, F401 - before a test imports ONNX Runtime by itself
from whisper_hailo.core.paths import CACHE_VARIABLE  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Of processes beside each other each begins with another part of the files.

    Every one collects all of them, and in a fresh clone compiles all of them: what one has
    compiled, the others read.
    """
    if (worker := os.environ.get("PYTEST_XDIST_WORKER")) is None:
        return
    n_workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    root = session.config.rootpath
    folders = [
        path for path in map(root.joinpath, session.config.args) if path.is_dir()
    ]
    files = sorted(path for folder in folders for path in folder.rglob("test_*.py"))
    first = int(worker.removeprefix("gw")) * len(files) // n_workers
    for path in files[first:] + files[:first]:
        with contextlib.suppress(
            Exception, pytest.skip.Exception
        ):  # the collection tells of it
            importlib.import_module(
                ".".join(path.relative_to(root).with_suffix("").parts)
            )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End-to-end tests are never among those of `make test`."""
    for item in items:
        if item.path.parent.name == "e2e":
            item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Tests and modules stay until the end: whoever collects garbage need not look at them.

    Parts of the program and the stand-in for Hailo's binding do so often; each time took 0.1 s.
    Of what is left, the runs that Python decides upon were one second in forty.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run, the same in all of its processes; see `tests.shared`.

    `scripts/check` gives all of its steps the same one.
    """
    if whole := os.environ.get("WHISPER_HAILO_TESTS_SHARE"):
        return Path(whole)
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(autouse=True, scope="session")
def own_cache(shared: Path) -> Iterator[None]:
    """Nothing is noted in the cache of whoever runs the tests, and nothing of it is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(shared / "cache"))
        patch.setenv("PIP_NO_INDEX", "1")  # of a model's packages none is asked for
        yield


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command writes its log to a stream that ends with its test, at a level of its own."""
    names = (None, "whisper_hailo", "whisper_hailo_tools", "whisper_hailo_lab")
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.level, [*logger.handlers]) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        for handler in [*logger.handlers]:
            # Exactly this type: pytest's own, which come and go with the phases, are of others.
            if type(handler) is logging.StreamHandler and handler not in handlers:
                logger.removeHandler(handler)
