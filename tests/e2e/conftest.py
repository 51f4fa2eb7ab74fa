"""The real command in a process of its own, with a cache and a home of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.shared import made_once

if TYPE_CHECKING:
    from whisper_hailo.serve.routes.captions.view import WebView

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "src" / "whisper_hailo" / "assets"
DEMO = ASSETS / "demo.flac"
DEMO_TEXT = (ASSETS / "demo.txt").read_text(encoding="utf-8").strip()
DEMO_LINES = DEMO_TEXT.replace(". ", ".\n").replace("? ", "?\n")
"""As it is printed: a line for each sentence."""

PATIENCE_S = 900
"""For commands on a machine that does much else: ends what hangs, and decides nothing."""

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def environment(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """A user's environment: no network, an empty cache that fills during the session."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "WHISPER_HAILO_CACHE": str(shared / "cache"),
        "HF_HUB_OFFLINE": "1",
        "LC_ALL": "C.UTF-8",
        # A test of a full disk would leave half of a compiled module to those after it.
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture(scope="session")
def whisper_hailo(environment: dict[str, str]) -> Command:
    """Run `whisper-hailo` with the given words; output is captured as text."""

    def run(
        *words: object, env: dict[str, str] | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "whisper_hailo", *map(str, words)]
        merged = {**environment, **(env or {})}
        keywords: dict[str, object] = {
            "capture_output": True,
            "text": True,
            "timeout": PATIENCE_S,
        }
        keywords.update(options)
        return subprocess.run(command, env=merged, check=False, **keywords)  # type: ignore[call-overload, no-any-return]

    return run


@pytest.fixture(scope="session")
def micro_model(whisper_hailo: Command, shared: Path) -> Path:
    """The directory of the bundled model; whoever changes it takes a copy."""
    return made_once(shared / "e2e-micro", lambda out: _convert(whisper_hailo, out))


@pytest.fixture(scope="session")
def micro_hailo(whisper_hailo: Command, shared: Path) -> Path:
    """Likewise with graphs of fixed sizes."""
    return made_once(
        shared / "e2e-hailo", lambda out: _convert(whisper_hailo, out, "--hailo")
    )


def _convert(whisper_hailo: Command, out: Path, *words: str) -> None:
    result = whisper_hailo("convert", "micro", out, *words)
    assert result.returncode == 0, result.stderr
    forms = "hailo/encoder-10s.onnx, hailo/decoder-10s-32.onnx"
    assert (forms in result.stdout) is ("--hailo" in words)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser, where there is one."""
    from tests.e2e.browser import browser

    with browser() as started:
        yield started


@pytest.fixture
def view() -> Iterator[WebView]:
    """The server of a page of captions."""
    from tests.e2e.serving import stage

    with stage() as started:
        yield started


@contextmanager
def ended_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill a process whose words, or whose end, are waited for too long."""
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def heeds_interrupts() -> None:
    """In the child: jobs that a script starts in the background ignore them, and hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    """The error line of a failed run; fails when there is more, less, or a traceback."""
    lines = [
        line
        for line in result.stderr.splitlines()
        if line.startswith("whisper-hailo: ")
    ]
    assert "Traceback" not in result.stderr
    assert len(lines) == 1, result.stderr
    return lines[0]
