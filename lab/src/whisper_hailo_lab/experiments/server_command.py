"""A spoken command beside long uploads: processor time, and the windows of others before it.

    python -m whisper_hailo_lab.experiments.server_command [--model base] [--hours 4] [--keep]

Asks for a command of about three seconds by OpenAI's API, first alone, then while `--uploads` mp3
files of `--hours` hours and four recordings of ten minutes are transcribed. Other programs on the
machine do not matter: it counts the server's processor time from the request to the answer, and
the windows of other recordings that were decoded meanwhile. `--keep` puts the rows into the result
that `docs/measurements/server.md` shows.
"""

from __future__ import annotations

import argparse
import io
import logging
import re
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    RefusedError,
    SpokenFile,
    openai_client,
    start_server,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import read_result, update_result

logger = logging.getLogger(__name__)

COMMAND_S: Final = (2.5, 3.5)
"""Length of the command."""

_LANGUAGE: Final = "en"
_PIECE_S: Final = 598.0  # mp3 adds some, and a server takes four hours at most
_N_SHORTER: Final = 4
"""Recordings of ten minutes beside the uploads."""

_N_WARM_UPS: Final = 3
_PAUSE_S: Final = 0.5
"""Between commands: the others get on."""

_WINDOWS: Final = re.compile(
    r'^whisper_hailo_windows_total\{priority="(\w+)"\} (\S+)$', re.MULTILINE
)
_UNFINISHED: Final = re.compile(r"^whisper_hailo_unfinished (\S+)$", re.MULTILINE)
_COMMAND_PRIORITY: Final = "interactive"


@dataclass(frozen=True, slots=True)
class CommandCost:
    """Cost of one command.

    Attributes:
        cpu_s: processor seconds of the server from the request to the answer.
        n_windows: windows of other recordings that were decoded meanwhile.
    """

    cpu_s: float
    n_windows: int


@dataclass(frozen=True, slots=True)
class CommandRow:
    """Figures of commands under one load.

    Attributes:
        model: what the server runs.
        beside: what else it does.
        n_commands: commands that were answered.
        median_cpu_s: their median processor time, of the server as a whole.
        max_cpu_s: the largest.
        max_windows: most windows of others during one command.
    """

    model: str
    beside: str
    n_commands: int
    median_cpu_s: float
    max_cpu_s: float
    max_windows: int


def processor_s(pid: int) -> float:
    """Return the processor seconds of a process so far, all threads together."""
    # The kernel's number for the clock of another process, as clock_getcpuclockid makes it.
    return time.clock_gettime((~pid << 3) | 2)


def summarize_costs(
    model: str, beside: str, costs: Sequence[CommandCost]
) -> CommandRow:
    """Return the row of some commands."""
    seconds = [cost.cpu_s for cost in costs]
    return CommandRow(
        model=model,
        beside=beside,
        n_commands=len(costs),
        median_cpu_s=round(statistics.median(seconds), 3),
        max_cpu_s=round(max(seconds), 3),
        max_windows=max(cost.n_windows for cost in costs),
    )


def measure_commands(address: str, pid: int, ask: Ask, count: int) -> list[CommandCost]:
    """Ask some times, one after the other.

    Args:
        address: of the server, for its metrics.
        pid: its process.
        ask: asks for the command.
        count: commands.
    """
    costs = []
    for _ in range(count):
        time.sleep(_PAUSE_S)
        windows_before = count_other_windows(address)
        begin_s = processor_s(pid)
        ask()
        cpu_s = processor_s(pid) - begin_s
        costs.append(CommandCost(cpu_s, count_other_windows(address) - windows_before))
        logger.info("%s", costs[-1])
    return costs


def count_other_windows(address: str) -> int:
    """Return how many windows a server has decoded that are of no command."""
    page = read_metrics(address)
    counts = [
        float(value)
        for priority, value in _WINDOWS.findall(page)
        if priority != _COMMAND_PRIORITY
    ]
    return round(sum(counts))


def read_metrics(address: str) -> str:
    """Return the metrics of a server."""
    with urllib.request.urlopen(f"{address}/metrics") as answer:  # noqa: S310
        return str(answer.read().decode())


def wait_for_uploads(address: str, count: int) -> None:
    """Wait until a server has received so many recordings: what follows is their decoding."""
    while True:
        match = _UNFINISHED.search(read_metrics(address))
        if match is not None and float(match[1]) >= count:
            return
        time.sleep(_PAUSE_S)


@contextmanager
def run_others(clients: Sequence[Ask]) -> Iterator[None]:
    """Let clients ask again and again until the block ends."""
    ended = threading.Event()

    def ask_again(ask: Ask) -> None:
        while not ended.is_set():
            try:
                ask()
            except RefusedError:
                ended.wait(_PAUSE_S)
            except OSError as error:  # the server ends before its answers
                if not ended.is_set():
                    logger.warning("a client beside the command failed: %s", error)
                return

    threads = [
        threading.Thread(target=ask_again, args=(ask,), daemon=True) for ask in clients
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()


def choose_command(recordings: Sequence[SpeechRecording]) -> SpeechRecording:
    """Return the first recording that is as long as a command."""
    return next(
        recording
        for recording in recordings
        if recording.language == _LANGUAGE
        and COMMAND_S[0] <= recording.seconds <= COMMAND_S[1]
    )


def join_speech(recordings: Sequence[SpeechRecording], seconds: float) -> FloatArray:
    """Return `(n_samples,)` of recordings in one language, repeated until they last so long."""
    chosen = [
        recording.load() for recording in recordings if recording.language == _LANGUAGE
    ]
    joined = np.concatenate(chosen)
    n_samples = round(seconds * SAMPLE_RATE_HZ)
    return np.resize(joined, n_samples)


def write_repeated(path: Path, piece: FloatArray, count: int) -> SpokenFile:
    """Write a piece of audio `count` times in a row into an mp3 file, which is encoded once."""
    encoded = io.BytesIO()
    soundfile.write(encoded, piece, SAMPLE_RATE_HZ, format="MP3")
    content = encoded.getvalue()
    # The first frame has no sound, but the number of frames and of bytes.
    first = content.index(content[:2], 2)
    header = bytearray(content[:first])
    counts = header.index(b"Xing") + 8
    n_frames = int.from_bytes(header[counts : counts + 4])
    n_bytes = first + count * (len(content) - first)
    header[counts : counts + 4] = (count * n_frames).to_bytes(4)
    header[counts + 4 : counts + 8] = n_bytes.to_bytes(4)
    path.write_bytes(bytes(header) + count * content[first:])
    return SpokenFile(path, _LANGUAGE)


def measure_model(
    model: str, *, hours: float, n_uploads: int, count: int
) -> list[CommandRow]:
    """Return the rows of one model: alone, and beside the others."""
    recordings = read_speech(speech_folder())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = folder / "command.wav"
        soundfile.write(command, choose_command(recordings).load(), SAMPLE_RATE_HZ)
        piece = join_speech(recordings, _PIECE_S)
        shorter = write_repeated(folder / "shorter.mp3", piece, 1)
        n_pieces = max(1, round(hours * 3600 / _PIECE_S))
        upload = write_repeated(folder / "upload.mp3", piece, n_pieces)
        with start_server(1, model=model, scheme="http") as (pid, (address,)):
            ask = openai_client(address, SpokenFile(command, _LANGUAGE))
            measure_commands(address, pid, ask, _N_WARM_UPS)
            rows = [
                summarize_costs(
                    model, "alone", measure_commands(address, pid, ask, count)
                )
            ]
            emit(f"{rows[-1]}\n")
            others = [openai_client(address, upload)] * n_uploads
            others += [openai_client(address, shorter)] * _N_SHORTER
            beside = f"{n_uploads} x {hours:g} h, {_N_SHORTER} x 10 min"
            with run_others(others):
                wait_for_uploads(address, len(others))
                costs = measure_commands(address, pid, ask, count)
            rows.append(summarize_costs(model, beside, costs))
            emit(f"{rows[-1]}\n")
    return rows


def main() -> None:
    """Print a row for each model and load."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--model", nargs="+", default=["base"])
    parser.add_argument("--hours", type=float, default=4.0, help="of each upload")
    parser.add_argument("--uploads", type=int, default=2)
    parser.add_argument("--commands", type=int, default=40)
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    for model in arguments.model:
        rows = measure_model(
            model,
            hours=arguments.hours,
            n_uploads=arguments.uploads,
            count=arguments.commands,
        )
        if arguments.keep:
            kept = read_result(RESULT).get("command", {}).get("rows", [])
            others = [row for row in kept if row["model"] != model]
            command = {
                "machine": this_machine().label,
                "rows": [*others, *(asdict(row) for row in rows)],
            }
            update_result(RESULT, command=command)


if __name__ == "__main__":
    sys.exit(run_program(main))
