"""Speaks a plan sentence by sentence, with pauses, and keeps the time of each sentence and word."""

import io
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import soundfile
import soxr

from lab.training.engines import Engine, Sound, Word
from lab.training.text.plans import Plan
from lab.training.voices import Voice

EDGE_S = 0.03
"""Silence kept at either end of an utterance, as in `speech.speak`."""
PAUSES_S = (0.12, 1.1)
"""Shortest and longest pause between the sentences of an utterance."""
SAMPLE_RATE_HZ = 16_000
PEAK = 0.8
_EDGE_LEVEL = 0.01
"""Samples quieter than this (of a peak of 1) at either end count as silence."""
_EDGE_KEPT_S = 0.03


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """One sentence with its times, in seconds from the start of the utterance.

    Attributes:
        text: what is said.
        start_s: where its sound starts.
        end_s: where its sound ends.
        words: its words with times; none if the engine gave none.
    """

    text: str
    start_s: float
    end_s: float
    words: tuple[Word, ...]


def speak_sentence(
    engine: Engine, text: str, voice: Voice
) -> tuple[np.ndarray, tuple[Word, ...]]:
    """Speaks one sentence.

    Returns:
        `(n_samples,)` float32 at 16 kHz of peak 0.8 with nothing silent at its ends, and its
        words with times in seconds from its first sample.

    Raises:
        ValueError: the engine gave silence.
    """
    sound: Sound = engine.speak(text, voice)
    # Declaring another source rate than the true one warps speed and pitch together.
    samples = sound.samples.astype(np.float32) / 32768
    audio = soxr.resample(samples, sound.rate_hz * voice.warp, SAMPLE_RATE_HZ)
    peak = float(np.abs(audio).max(initial=0.0))
    if peak == 0.0:
        raise ValueError(f"{voice} gave silence for {text!r}; is the voice installed?")
    audio = audio * (PEAK / peak)
    first, last = edges(audio)
    audio = np.asarray(audio[first:last], np.float32)
    length_s = audio.size / SAMPLE_RATE_HZ
    cut_s = first / SAMPLE_RATE_HZ
    times = [
        [
            min(max(0.0, t / voice.warp - cut_s), length_s)
            for t in (word.start_s, word.end_s)
        ]
        for word in sound.words
    ]
    words = (
        Word(word.text, *pair) for word, pair in zip(sound.words, times, strict=True)
    )
    return audio, tuple(words)


def speak_plan(
    engine: Engine, plan: Plan, voice: Voice, rng: Random
) -> tuple[np.ndarray, list[SpokenSentence]]:
    """Speaks all sentences of a plan with one voice.

    Returns:
        `(n_samples,)` int16 at 16 kHz with `EDGE_S` of silence at both ends, and the sentences.
    """
    edge = round(EDGE_S * SAMPLE_RATE_HZ)
    parts = [np.zeros(edge, np.float32)]
    sentences = []
    at = edge
    for number, text in enumerate(plan.sentences):
        if number:
            pause = int(rng.uniform(*PAUSES_S) * SAMPLE_RATE_HZ)
            parts.append(np.zeros(pause, np.float32))
            at += pause
        audio, heard = speak_sentence(engine, text, voice)
        start_s = at / SAMPLE_RATE_HZ
        words = tuple(
            Word(w.text, w.start_s + start_s, w.end_s + start_s) for w in heard
        )
        at += audio.size
        parts.append(audio)
        sentences.append(SpokenSentence(text, start_s, at / SAMPLE_RATE_HZ, words))
    parts.append(np.zeros(edge, np.float32))
    return (np.concatenate(parts) * 32767).astype(np.int16), sentences


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
