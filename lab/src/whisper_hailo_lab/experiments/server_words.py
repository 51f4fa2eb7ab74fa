"""Recordings of people through every protocol of the server: the command's words, and their cost.

    python -m whisper_hailo_lab.experiments.server_words [--model base] [--each 20] [--keep]

Transcribes up to `--each` recordings of every set of `SETS` with the command, then asks a server
with the same model for each of them by every protocol. `--keep` puts the rows into the result that
`docs/measurements/server.md` has its table of.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder
from whisper_hailo_lab.documents.server import RESULT
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    asr_client,
    cpu_ms,
    inference_client,
    openai_client,
    realtime_client,
    serving,
    wyoming_client,
)
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.runs.machine import this_machine

logger = logging.getLogger(__name__)

SETS: Final = ("librispeech", "fleurs", "picovoice", "alsa_speaker_test", "noisy_mix_derived")
"""Read and noisy English, German, and commands."""

Client = Callable[[list[str], Path, str], Ask]
"""Makes what asks for one file: of the server's addresses, the file and its language."""

PROTOCOLS: Final[dict[str, Client]] = {
    "OpenAI, `json`": lambda at, file, code: openai_client(
        at[0], file=file.read_bytes(), language=code
    ),
    "OpenAI, `verbose_json`": lambda at, file, code: openai_client(
        at[0], file=file.read_bytes(), language=code, response_format="verbose_json"
    ),
    "whisper-asr-webservice": lambda at, file, code: asr_client(
        at[0], file=file.read_bytes(), language=code
    ),
    "whisper.cpp": lambda at, file, code: inference_client(
        at[0], file=file.read_bytes(), language=code
    ),
    "Wyoming": lambda at, file, code: wyoming_client(at[1], _samples(file), language=code),
    "realtime": lambda at, file, code: realtime_client(at[0], _samples(file), language=code),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one protocol.

    Attributes:
        protocol: its name.
        same: texts that are the command's.
        asked: requests.
        seconds: of audio.
        cpu_s: processor seconds of the server.
    """

    protocol: str
    same: int
    asked: int
    seconds: float
    cpu_s: float


def _samples(file: Path) -> FloatArray:
    return np.asarray(soundfile.read(file, dtype="float32")[0], np.float32)


def command_texts(model: str, language: str, files: Sequence[Path]) -> list[str]:
    """Transcribe files of one language with the command."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--model", model, "--language", language, "--threads", "1", "--output-dir", folder]
        command = [sys.executable, "-m", "whisper_hailo", "transcribe", *words, *map(str, files)]
        subprocess.run(command, check=True, capture_output=True)
        return [(Path(folder) / f"{file.stem}.txt").read_text(encoding="utf-8") for file in files]


def ask_all(protocol: str, asks: Sequence[tuple[Ask, str]], process: int, seconds: float) -> Row:
    """Ask once for each file and compare the words."""
    before_ms = cpu_ms(process)
    same = 0
    for ask, expected in asks:
        heard = ask()
        is_same = heard.split() == expected.split()
        if not is_same:
            logger.info("%s: %r, the command: %r", protocol, heard, expected)
        same += is_same
    cpu_s = (cpu_ms(process) - before_ms) / 1000
    return Row(protocol, same, len(asks), round(seconds, 1), round(cpu_s, 2))


def prepare(recordings: Sequence[SpeechRecording], folder: Path) -> dict[str, list[Path]]:
    """Write recordings as 16 kHz WAV files, by language."""
    files: dict[str, list[Path]] = {}
    for index, recording in enumerate(recordings):
        file = folder / f"{index}.wav"
        soundfile.write(file, recording.load(), SAMPLE_RATE_HZ, subtype="PCM_16")
        files.setdefault(recording.language, []).append(file)
    return files


def choose(recordings: Sequence[SpeechRecording], each: int) -> list[SpeechRecording]:
    """Return up to `each` recordings of English and German of every set."""
    return [
        recording
        for name in SETS
        for recording in [r for r in recordings if r.set == name and r.language in ("en", "de")][
            :each
        ]
    ]


def measure(model: str, each: int) -> list[Row]:
    """Measure every protocol."""
    chosen = choose(read_speech(speech_folder()), each)
    seconds = sum(recording.seconds for recording in chosen)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = prepare(chosen, Path(folder))
        texts = {code: command_texts(model, code, found) for code, found in files.items()}
        with serving(1, model=model) as (process, addresses):
            for protocol, client in PROTOCOLS.items():
                asks = [
                    (client(addresses, file, code), text)
                    for code, found in files.items()
                    for file, text in zip(found, texts[code], strict=True)
                ]
                rows.append(ask_all(protocol, asks, process, seconds))
                emit(f"{rows[-1]}\n")
    return rows


def main() -> None:
    """Print a row for each protocol."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--model", default="base")
    parser.add_argument("--each", type=int, default=20, help="recordings of each set")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    rows = measure(arguments.model, arguments.each)
    if arguments.keep:
        kept = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
        words = {"model": arguments.model, "machine": this_machine().label}
        kept["words"] = words | {"rows": [asdict(row) for row in rows]}
        write_file(RESULT, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
