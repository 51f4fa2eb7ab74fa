"""Running `serve` and `caption` commands, and a talk that is captioned for a page."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile

from tests.e2e.conftest import DEMO, ended_in_time
from whisper_hailo.live.events import CaptionWord, Completed, Partial
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import Controls
from whisper_hailo.serve.routes.captions.access import PageAddress
from whisper_hailo.serve.routes.captions.view import WebView

CAPTION = (
    "--model",
    "micro",
    "--threads",
    "1",
    "--min-partial",
    "0.5",
    "--web",
    "--web-port",
    "0",
)
QUICK = ("--model", "micro", "--threads", 1, "--min-partial", 0.5)
SENTENCES: Final = (
    "Good evening, and welcome to everybody who is here in the room, and to all who follow us from "
    "home.",
    "Tonight we talk about captions: who reads them, why they are late, and what can be done.",
    "Most people who switch captions on can hear perfectly well.",
    "They are in a loud place, or they listen in their third language, or somebody sleeps next "
    "door.",
    "But for one person in six captions are how they take part at all.",
    "So the words have to be there when the joke is told, not when everybody has stopped laughing.",
)
EACH_S: Final = 4.0
BEGAN_S: Final = 1_763_841_600.0
"""On the wall: 2025-11-22, 20:00 UTC."""


def write_long_talk(folder: Path) -> Path:
    """Write the bundled recording ten times over: a talk that outlasts a test."""
    samples, rate_hz = soundfile.read(DEMO)
    path = folder / "talk.flac"
    soundfile.write(path, np.tile(samples, 10), rate_hz)
    return path


@contextmanager
def serving(
    environment: dict[str, str],
    *words: object,
    stdout: int = subprocess.DEVNULL,
    descriptors: int = 1024,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its page's address; it is told to end when the block does.

    Args:
        environment: of the process.
        words: further ones of the command line.
        stdout: where its standard output goes.
        descriptors: that the process may have.
    """
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "caption",
        *CAPTION,
        *map(str, words),
    ]
    with subprocess.Popen(
        ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command],
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            said = ""
            with ended_in_time(process):
                while not (found := re.search(r"captions at (\S+)", said)):
                    line = process.stderr.readline()
                    assert line, f"ended before it served anything: {said}"
                    said += line
            yield process, found[1]
        finally:
            process.terminate()
            with ended_in_time(process):
                process.communicate()


@dataclass
class Served:
    """The process, and what it said.

    Attributes:
        process: of the command.
        said: on standard error, as far as it was read.
    """

    process: subprocess.Popen[str]
    said: str = ""

    def wait_for(self, pattern: str) -> str:
        """The first group of a pattern, once it was said."""
        assert self.process.stderr is not None
        with ended_in_time(self.process):
            while not (found := re.search(pattern, self.said)):
                line = self.process.stderr.readline()
                assert line, f"ended before it said {pattern}: {self.said}"
                self.said += line
        return found[1]

    def end(self, *, told: bool = False) -> int:
        """Tell it to end, unless it was told, and read the rest of what it says."""
        if not told:
            self.process.terminate()
        with ended_in_time(self.process):
            self.said += self.process.communicate()[1]
        return self.process.returncode


@contextmanager
def serve(environment: dict[str, str], *words: object) -> Iterator[Served]:
    """The command with the bundled model; it is told to end when the block does."""
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "serve",
        "--model",
        "micro",
        "--threads",
        "1",
    ]
    with subprocess.Popen(
        [*command, *map(str, words)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        served = Served(process)
        try:
            yield served
        finally:
            if process.returncode is None:
                process.terminate()
                with ended_in_time(process):
                    process.communicate()


def words_of(text: str, begin_s: float | None = None) -> tuple[CaptionWord, ...]:
    """Words of a text; from `begin_s` on a quarter of a second each."""
    words = []
    for index, word in enumerate(text.split()):
        at_s = None if begin_s is None else begin_s + 0.25 * index
        end_s = None if at_s is None else at_s + 0.25
        words.append(CaptionWord(f" {word}", 0.95, at_s, end_s))
    return tuple(words)


def said(
    index: int,
    text: str,
    start_s: float | None = None,
    *,
    words: Sequence[CaptionWord] | None = None,
    language: str = "en",
    **further: Any,
) -> Completed:
    """The final text of a segment, which begins where those before it end.

    Args:
        index: its id.
        text: of it.
        start_s: where it begins.
        words: instead of those of the text.
        language: in which it was said.
        further: fields of the event.
    """
    start_s = EACH_S * index if start_s is None else start_s
    end_s = start_s + EACH_S
    told = tuple(words_of(text, start_s) if words is None else words)
    return Completed(
        segment_id=index,
        start_s=start_s,
        end_s=end_s,
        words=told,
        reason="silence",
        heard_s=end_s,
        at_s=end_s,
        language=language,
        wall_s=BEGAN_S + start_s,
        **further,
    )


def saying(
    index: int, settled: str, unsettled: str = "", start_s: float | None = None
) -> Partial:
    """What is being said."""
    start_s = EACH_S * index if start_s is None else start_s
    settled_words = words_of(settled)
    unsettled_words = words_of(unsettled)
    end_s = start_s + 1.0
    return Partial(
        segment_id=index,
        start_s=start_s,
        end_s=end_s,
        committed=settled_words,
        tentative=unsettled_words,
        heard_s=end_s,
        at_s=end_s,
        language="en",
        wall_s=BEGAN_S + start_s,
    )


def give(view: WebView, sentences: Sequence[str] = SENTENCES, begin: int = 0) -> int:
    """A talk; the id of the segment behind it."""
    for index, text in enumerate(sentences, begin):
        view.put(said(index, text))
    return begin + len(sentences)


@contextmanager
def stage(
    *,
    port: int = 0,
    browser: BrowserSource | None = None,
    controls: Controls | None = None,
    statistics: Callable[[], CaptionStatistics] = CaptionStatistics,
    **options: Any,
) -> Iterator[WebView]:
    """The page's server, at a place with options."""
    place = PageAddress(port=port, **options)
    with WebView(statistics, place, browser=browser, controls=controls) as view:
        yield view
