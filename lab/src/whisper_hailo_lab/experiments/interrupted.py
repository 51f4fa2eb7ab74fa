"""An hour-long recording: when its first text is there, and what is left of it after kill -9.

    python -m whisper_hailo_lab.experiments.interrupted [--minutes N] [--kills N]

The frozen clips of `micro`, with half a second between them, again and again, are one recording.
The command transcribes it straight through; then it is killed at random places, and another run
goes on each time. Keeps the result, from which the table of `docs/measurements/archives.md`
follows.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.data.clips import measured_on, recordings
from whisper_hailo_lab.documents.interrupted import RESULT
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run

COMMAND: Final = (sys.executable, "-m", "whisper_hailo", "transcribe", "--model", "micro")
FORMATS: Final = ("txt", "srt", "json")
_PAUSE_S: Final = 0.5
_LOOK_S: Final = 0.01


def write_recording(path: Path, minutes: float) -> None:
    """Write the frozen clips, again and again, as one WAV file."""
    import soundfile

    pause = np.zeros(round(_PAUSE_S * SAMPLE_RATE_HZ), np.float32)
    clips = recordings("long", "seen", "unseen")
    audio = np.concatenate([part for clip in clips for part in (load_audio(clip), pause)])
    n_samples = round(60 * minutes * SAMPLE_RATE_HZ)
    soundfile.write(path, np.resize(audio, n_samples), SAMPLE_RATE_HZ, subtype="PCM_16")


def first_text_s(recording: Path) -> float:
    """Seconds from the start of the command to the first line on standard output."""
    begin = time.perf_counter()
    with subprocess.Popen(
        [*COMMAND, "--quiet", str(recording)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        process.stdout.readline()
        took_s = time.perf_counter() - begin
        process.kill()
    return took_s


def transcribe(recording: Path, out: Path, n_bytes: float = math.inf) -> tuple[bool, int]:
    """Transcribe into a folder, and kill the command when it has kept so many bytes of its work.

    Returns:
        whether it was killed, and the most bytes that were kept.
    """
    words = ["--quiet", "--resume", "--format", ",".join(FORMATS), "--output-dir", str(out)]
    journal, most = out / f"{recording.stem}.part.jsonl", 0
    with subprocess.Popen([*COMMAND, *words, str(recording)]) as process:
        while process.poll() is None:
            try:
                most = max(most, journal.stat().st_size)
            except FileNotFoundError:  # not yet, or no more
                continue
            finally:
                time.sleep(_LOOK_S)
            if most >= n_bytes:
                process.send_signal(signal.SIGKILL)
                process.wait()
                return True, most
    return False, most


def texts(out: Path) -> dict[str, str]:
    """What there is in a folder, by the names of its files; nothing where there is none yet."""
    paths = sorted(out.iterdir()) if out.is_dir() else []
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def measure(minutes: float, n_kills: int, seed: int) -> dict[str, Any]:
    """The first text, a straight run, and runs that are killed once each."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as work:
        recording = Path(work) / "recording.wav"
        write_recording(recording, minutes)
        first_s = first_text_s(recording)
        begin = time.perf_counter()
        _, all_bytes = transcribe(recording, Path(work) / "straight")
        straight_s = time.perf_counter() - begin
        straight = texts(Path(work) / "straight")
        kills = []
        for index in range(n_kills):
            out = Path(work) / str(index)
            killed, n_bytes = transcribe(recording, out, float(rng.uniform(0, all_bytes)))
            transcribe(recording, out)
            kills.append({
                "killed": killed,
                "at": n_bytes / all_bytes,
                "same": texts(out) == straight,
            })  # fmt: skip
    return {
        "minutes": minutes,
        "first_text_s": first_s,
        "straight_s": straight_s,
        "cpus": len(os.sched_getaffinity(0)),
        "lines": straight["recording.txt"].count("\n"),
        "kills": kills,
    }


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the places")
    given = parser.parse_args()
    keep(RESULT, measured_on(None) | measure(given.minutes, given.kills, given.seed))


if __name__ == "__main__":
    sys.exit(run(main))
