"""Programs that take a stream of sound on standard input and tell what they show, line by line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.process import script


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody said in one go.

    Attributes:
        text: in words.
        start_s: its first word begins, in seconds of the stream.
        end_s: its last word ends.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Shown:
    """All that a program shows at a time.

    Attributes:
        at_s: since the stream began.
        settled: text that never changes again, from the beginning of the stream on.
        running: what may change, behind it.
    """

    at_s: float
    settled: str
    running: str


@dataclass(frozen=True, slots=True)
class Latency:
    """Of the utterances of which a program recognised a word.

    Attributes:
        first_s: from the beginning of each to its first word on the screen.
        final_s: from the end of each until its last word is settled.
        n_unheard: utterances of which it recognised none.
    """

    first_s: tuple[float, ...]
    final_s: tuple[float, ...]
    n_unheard: int

    def figures(self) -> dict[str, float]:
        """Medians and 95th percentiles, in seconds."""
        found = {}
        for name, values in (("first", self.first_s), ("final", self.final_s)):
            found[f"{name}_s_median"] = round(float(np.median(values)), 2)
            found[f"{name}_s_p95"] = round(float(np.percentile(values, 95)), 2)
        return found


def words_of(text: str) -> list[str]:
    """Words without case and marks."""
    stripped = (re.sub(r"[^\w']", "", word.casefold()) for word in text.split())
    return [word for word in stripped if word]


def latency(said: Sequence[Utterance], shown: Sequence[Shown]) -> Latency:
    """When each utterance was there, by the place of its words in the last text shown.

    Settled text only grows, so that the words of an utterance keep their places; running text
    stands behind it, and its first word counts when so many words are shown.

    Args:
        said: in order.
        shown: all that was shown, in order; the last has the whole text.
    """
    told = [words_of(utterance.text) for utterance in said]
    last = words_of(f"{shown[-1].settled} {shown[-1].running}") if shown else []
    places = _places([word for words in told for word in words], last)
    settled = [len(words_of(one.settled)) for one in shown]
    all_words = [
        count + len(words_of(one.running)) for one, count in zip(shown, settled, strict=True)
    ]
    first_s, final_s = [], []
    begins = np.cumsum([0, *map(len, told)])
    for utterance, (begin, end) in zip(said, pairwise(begins), strict=True):
        own = [places[at] for at in range(begin, end) if at in places]
        if not own:
            continue
        times = [one.at_s for one in shown]
        first = next(
            at_s
            for at_s, count in zip(times, all_words, strict=True)
            if at_s >= utterance.start_s and count > own[0]
        )
        final = next(
            (at_s for at_s, count in zip(times, settled, strict=True) if count > own[-1]), times[-1]
        )
        first_s.append(first - utterance.start_s)
        final_s.append(final - utterance.end_s)
    return Latency(tuple(first_s), tuple(final_s), len(said) - len(first_s))


def rewritten_per_word(shown: Sequence[Shown]) -> float:
    """Return how many words on the screen changed or vanished, by the words of the last text.

    Words behind a changed one count: they may have moved.
    """
    n_rewritten, before = 0, list[str]()
    for one in shown:
        now = words_of(f"{one.settled} {one.running}")
        pairs = zip(before, now, strict=False)
        n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        n_rewritten += len(before) - n_same
        before = now
    return n_rewritten / max(1, len(before))


def _places(expected: list[str], got: list[str]) -> dict[int, int]:
    """Where in a text the words that were recognised stand, by their places in what was said."""
    blocks = SequenceMatcher(None, expected, got, autojunk=False).get_matching_blocks()
    return {block.a + offset: block.b + offset for block in blocks for offset in range(block.size)}


BLOCK_S: Final = 0.1
_PATIENCE_S: Final = 120.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

Reader: TypeAlias = Callable[[dict[str, Any]], tuple[str, str]]
"""Makes settled and running text, from the stream's beginning on, of each line in turn."""


@dataclass(frozen=True, slots=True)
class LiveProgram:
    """A program and how it is understood.

    Attributes:
        command: words that start it; it takes 16 kHz mono 16-bit samples.
        ready: what its standard error says when it listens.
        reader: makes a reader of its lines.
    """

    command: tuple[str, ...]
    ready: str
    reader: Callable[[], Reader]


@dataclass(frozen=True, slots=True)
class StreamRun:
    """One stream through a program.

    Attributes:
        shown: all that it showed.
        processor_s: processor time, from when it listened to its end.
        peak_mib: of its memory.
    """

    shown: tuple[Shown, ...]
    processor_s: float
    peak_mib: float


def ours(model: str) -> LiveProgram:
    """`whisper-hailo caption` with its defaults, on one thread."""
    command = (sys.executable, "-m", "whisper_hailo", "caption", "-", "--model", model)
    return LiveProgram(
        (*command, "--threads", "1", "--language", "en", "--json"), "listening", OurEvents
    )


def rival(name: str, python: str, weights: Path, *arguments: str) -> LiveProgram:
    """Return a script of `lab/benchmarks/rivals`, in an environment of its own."""
    command = (python, str(script(f"live_{name}.py")), str(weights), *arguments)
    return LiveProgram(command, "ready", lambda: lambda line: (line["settled"], line["running"]))


@dataclass
class OurEvents:
    """Reads our own events: completed segments, and the partial text of the one that runs."""

    completed: list[str] = field(default_factory=list)
    committed: str = ""
    tentative: str = ""

    def __call__(self, event: dict[str, Any]) -> tuple[str, str]:
        if event["event"] == "completed":
            self.completed.append(event["text"])
            self.committed = self.tentative = ""
        elif event["event"] == "partial":
            self.committed = event["committed_text"]
            self.tentative = "".join(word["text"] for word in event["tentative"])
        return " ".join([*self.completed, self.committed]), self.tentative


def stream_to(program: LiveProgram, audio: FloatArray) -> StreamRun:
    """Play a stream to it at the speed of speech.

    Args:
        program: started, and ended.
        audio: `(n_samples,)` float32 at 16 kHz mono.

    Raises:
        WhisperHailoError: it does not start, or ends early.
    """
    pcm = np.round(audio * 32767).astype("<i2")
    with _running(program) as process:
        listened_s = _processor_s(process.pid)
        begin_s, shown = time.monotonic(), list[Shown]()
        listener = threading.Thread(
            target=_listen, args=(process, program.reader(), shown, begin_s), daemon=True
        )
        listener.start()
        n_block = round(BLOCK_S * SAMPLE_RATE_HZ)
        for at in range(0, pcm.size, n_block):
            block = pcm[at : at + n_block]
            due_s = begin_s + (at + block.size) / SAMPLE_RATE_HZ  # when its last sample was said
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                _pipe(process.stdin).write(block.tobytes())
                _pipe(process.stdin).flush()
            except OSError as error:
                raise WhisperHailoError(f"{program.command[1]} ended early ({error})") from error
        _pipe(process.stdin).close()
        listener.join(_PATIENCE_S)
        took_s, peak_mib = _resources(process)
    return StreamRun(tuple(shown), took_s - listened_s, peak_mib)


@contextmanager
def _running(program: LiveProgram) -> Iterator[subprocess.Popen[bytes]]:
    """The program, once it has said that it listens."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        program.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    said: list[str] = []
    ready = threading.Event()
    threading.Thread(target=_watch, args=(process, program.ready, said, ready), daemon=True).start()
    try:
        if not ready.wait(_PATIENCE_S) or process.poll() is not None:
            raise WhisperHailoError(f"{program.command[1]} does not listen ({said[-1:]})")
        yield process
    finally:
        process.kill()
        process.wait()


def _watch(
    process: subprocess.Popen[bytes], pattern: str, said: list[str], ready: threading.Event
) -> None:
    for line in _pipe(process.stderr):
        said.append(line.decode(errors="replace").rstrip())
        if re.search(pattern, said[-1]):
            ready.set()
    ready.set()  # it ended


def _listen(
    process: subprocess.Popen[bytes], read: Reader, shown: list[Shown], begin_s: float
) -> None:
    for line in _pipe(process.stdout):
        at_s = time.monotonic() - begin_s
        settled, running = read(json.loads(line))
        shown.append(Shown(at_s, settled, running))


def _pipe(pipe: Any) -> Any:  # noqa: ANN401 - a pipe that was asked for is there
    return pipe


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def _resources(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Processor time and peak memory of a program that is about to end."""
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
