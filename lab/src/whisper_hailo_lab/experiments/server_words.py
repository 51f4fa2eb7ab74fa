"""Recordings of people through every protocol of the server: the command's words, and their cost.

    python -m whisper_hailo_lab.experiments.server_words [--model base] [--each 20] [--keep]
        [--protocols NAME ...]

Transcribes up to `--each` recordings of every set of `SETS` with the command, then asks a server
with the same model for each of them by every protocol. `--keep` puts the rows into the result that
`docs/measurements/server.md` shows.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import soundfile

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    SpokenFile,
    asr_client,
    inference_client,
    openai_client,
    processor_ms,
    realtime_client,
    start_server,
    wyoming_client,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import read_result, update_result

logger = logging.getLogger(__name__)

SETS: Final = (
    "librispeech",
    "fleurs",
    "picovoice",
    "alsa_speaker_test",
    "noisy_mix_derived",
)
"""Read and noisy English, German, and commands."""

LANGUAGES: Final = ("en", "de")


PROTOCOLS: Final[dict[str, Callable[[str, str, SpokenFile], Ask]]] = {
    "OpenAI, `json`": lambda http, _, file: openai_client(http, file),
    "OpenAI, `verbose_json`": lambda http, _, file: openai_client(
        http, file, "verbose_json"
    ),
    "whisper-asr-webservice": lambda http, _, file: asr_client(http, file),
    "whisper.cpp": lambda http, _, file: inference_client(http, file),
    "Wyoming": lambda _, wyoming, file: wyoming_client(wyoming, file),
    "realtime, 24 kHz": lambda http, _, file: realtime_client(http, file),
    "realtime, 16 kHz": lambda http, _, file: realtime_client(http, file, 16_000),
}
"""Clients of a file, given the addresses of HTTP and of Wyoming."""


@dataclass(frozen=True, slots=True)
class ProtocolRow:
    """Figures of one protocol.

    Attributes:
        protocol: its name.
        same: texts with the command's words.
        asked: requests.
        seconds: seconds of audio.
        cpu_s: processor seconds of the server.
    """

    protocol: str
    same: int
    asked: int
    seconds: float
    cpu_s: float


def command_texts(model: str, files: Sequence[SpokenFile]) -> list[str]:
    """Transcribe files with the command, one language at a time."""
    texts: dict[Path, str] = {}
    for language in LANGUAGES:
        paths = [file.path for file in files if file.language == language]
        if paths:
            texts |= _run_command(model, language, paths)
    return [texts[file.path] for file in files]


def _run_command(model: str, language: str, paths: Sequence[Path]) -> dict[Path, str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "whisper_hailo", "transcribe"]
        command += ["--model", model]
        command += ["--language", language, "--threads", "1", "--output-dir", folder]
        subprocess.run([*command, *map(str, paths)], check=True, capture_output=True)
        return {
            path: (Path(folder) / f"{path.stem}.txt").read_text(encoding="utf-8")
            for path in paths
        }


def ask_all(
    protocol: str,
    clients: Sequence[Ask],
    expected: Sequence[str],
    server: int,
    seconds: float,
) -> ProtocolRow:
    """Ask once for each file and compare the words.

    Args:
        protocol: name for the row.
        clients: one client per file.
        expected: text of the command per file.
        server: process id of the server.
        seconds: audio of all files.
    """
    before_ms = processor_ms(server)
    n_same = 0
    for ask, text in zip(clients, expected, strict=True):
        answer = ask()
        if answer.split() == text.split():
            n_same += 1
        else:
            logger.info("%s: %r, the command: %r", protocol, answer, text)
    cpu_s = (processor_ms(server) - before_ms) / 1000
    return ProtocolRow(
        protocol, n_same, len(clients), round(seconds, 1), round(cpu_s, 2)
    )


def write_files(
    recordings: Sequence[SpeechRecording], folder: Path
) -> list[SpokenFile]:
    """Write recordings as 16 kHz WAV files."""
    files = []
    for index, recording in enumerate(recordings):
        path = folder / f"{index}.wav"
        soundfile.write(path, recording.load(), SAMPLE_RATE_HZ, subtype="PCM_16")
        files.append(SpokenFile(path, recording.language))
    return files


def choose_recordings(
    recordings: Sequence[SpeechRecording], each: int
) -> list[SpeechRecording]:
    """Return up to `each` English and German recordings of every set."""
    chosen = []
    for name in SETS:
        of_set = [
            recording
            for recording in recordings
            if recording.set == name and recording.language in LANGUAGES
        ]
        chosen += of_set[:each]
    return chosen


def measure_protocols(
    model: str, each: int, protocols: Collection[str]
) -> list[ProtocolRow]:
    """Measure some protocols."""
    recordings = choose_recordings(read_speech(speech_folder()), each)
    seconds = sum(recording.seconds for recording in recordings)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(recordings, Path(folder))
        texts = command_texts(model, files)
        with start_server(1, model=model) as (server, (http, wyoming)):
            for protocol in protocols:
                make_client = PROTOCOLS[protocol]
                clients = [make_client(http, wyoming, file) for file in files]
                rows.append(ask_all(protocol, clients, texts, server, seconds))
                emit(f"{rows[-1]}\n")
    return rows


def main() -> None:
    """Print a row for each protocol."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--model", default="base")
    parser.add_argument("--each", type=int, default=20, help="recordings of each set")
    parser.add_argument(
        "--protocols", nargs="+", default=list(PROTOCOLS), choices=PROTOCOLS
    )
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    measured = measure_protocols(arguments.model, arguments.each, arguments.protocols)
    rows = [asdict(row) for row in measured]
    if arguments.keep:
        kept = read_result(RESULT).get("words", {}).get("rows", [])
        newest = {row["protocol"]: row for row in [*kept, *rows]}
        rows = [newest[protocol] for protocol in PROTOCOLS if protocol in newest]
        words = {
            "model": arguments.model,
            "machine": this_machine().label,
            "rows": rows,
        }
        update_result(RESULT, words=words)


if __name__ == "__main__":
    sys.exit(run_program(main))
