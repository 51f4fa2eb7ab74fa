"""Text to speech by the installed engines: one process per utterance, the same bits every time."""

import io
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import soxr

from lab.training.voices import Voice

SAMPLE_RATE_HZ = 16_000
PEAK = 0.8
_EDGE_LEVEL = 0.01
"""Samples quieter than this (of a peak of 1) at either end count as silence."""
_EDGE_KEPT_S = 0.03


def _espeak(text: str, voice: Voice) -> bytes:
    speed = round(175 * voice.rate)
    command = ["espeak-ng", "-v", voice.name, "-s", str(speed), "-p", str(voice.pitch)]
    return subprocess.run(
        [*command, "--stdout", text], check=True, capture_output=True
    ).stdout


def _into_file(command: list[str], text: str | None = None) -> bytes:
    """Runs a program that writes the WAV file named by its last argument, which is added here."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        given = text.encode() if text else None
        subprocess.run(
            [*command, file.name], input=given, check=True, capture_output=True
        )
        return Path(file.name).read_bytes()


def _flite(text: str, voice: Voice) -> bytes:
    command = [
        "flite",
        "-voice",
        voice.name,
        "--setf",
        f"duration_stretch={1 / voice.rate:.3f}",
    ]
    if voice.pitch:
        command += ["--setf", f"int_f0_target_mean={voice.pitch}"]
    return _into_file([*command, "-t", text, "-o"])


def _festival(text: str, voice: Voice) -> bytes:
    return _into_file(["text2wave", "-eval", f"(voice_{voice.name})", "-o"], text)


_ENGINES = {"espeak": _espeak, "flite": _flite, "festival": _festival}


def engine_versions() -> dict[str, str]:
    """Returns the version of each installed engine, and soxr's."""
    versions = {"soxr": soxr.__version__}
    for engine in ("espeak-ng", "flite", "festival"):
        if shutil.which(engine):
            command = [engine, "--version"]
            output = subprocess.run(
                command, check=False, capture_output=True, text=True
            ).stdout
            found = re.search(r"(?<![\d.])\d+\.\d+(\.\d+)?", output)
            versions[engine] = found[0] if found else "unknown"
    return versions


def edges(audio: np.ndarray) -> tuple[int, int]:
    """Returns the first loud sample of `audio` `(n_samples,)` and the one behind the last."""
    loud = np.flatnonzero(np.abs(audio) > _EDGE_LEVEL)
    return (int(loud[0]), int(loud[-1]) + 1) if loud.size else (0, 0)


def _trim(audio: np.ndarray) -> np.ndarray:
    """Cuts the engine's own silence from both ends, but for 30 ms."""
    first, end = edges(audio)
    if end == 0:
        return audio[:0]
    kept = round(_EDGE_KEPT_S * SAMPLE_RATE_HZ)
    return audio[max(0, first - kept) : end - 1 + kept]


def speak(text: str, voice: Voice) -> np.ndarray:
    """Speaks `text`.

    Returns:
        `(n_samples,)` int16, 16 kHz mono, peak at 0.8, trimmed at both ends.

    Raises:
        ValueError: the engine gave silence.
    """
    data = bytearray(_ENGINES[voice.engine](text, voice))
    audio, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
    # Declaring another source rate than the true one warps speed and pitch together.
    audio = soxr.resample(audio, rate_hz * voice.warp, SAMPLE_RATE_HZ)
    peak = float(np.abs(audio).max(initial=0.0))
    if peak == 0.0:
        raise ValueError(f"{voice} gave silence for {text!r}; is the voice installed?")
    return np.asarray(_trim(audio * (PEAK / peak)) * 32767, dtype=np.int16)
