"""What trying doubtful text again at higher temperatures gives, and what it costs.

    python -m whisper_hailo_lab.experiments.fallback [--limit N]

Transcribes frozen clips of `micro` and sounds without speech with the fallback off and on (OpenAI
Whisper's schedule and thresholds, windows of 10 s) and keeps the result.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.audio import AudioSource
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DEFAULT_TEMPERATURES, DecodingOptions, SearchOptions
from whisper_hailo_lab.data.clips import measured_on, recordings, spoken_clips
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.score import score_file

RESULT: Final = RESULTS / "fallback.json"
_CHORDS = (
    (261.6, 329.6, 392.0),
    (220.0, 261.6, 329.6),
    (174.6, 220.0, 261.6),
    (196.0, 246.9, 293.7),
)
_BEAT_S = 0.5


def music(seconds: float, seed: int = 0) -> FloatArray:
    """Four chords of decaying harmonics in turn, a drum on every beat, a hat between."""
    rng = np.random.default_rng(seed)
    n_beat = round(_BEAT_S * SAMPLE_RATE_HZ)
    t = np.arange(n_beat) / SAMPLE_RATE_HZ
    drum = np.sin(2 * np.pi * 60 * t * np.exp(-8 * t)) * np.exp(-12 * t)
    hat = rng.standard_normal(n_beat) * np.exp(-60 * t)
    beats = []
    for beat in range(int(np.ceil(seconds / _BEAT_S))):
        notes = [(hz, k) for hz in _CHORDS[beat // 4 % 4] for k in (1, 2, 3, 4)]
        chord = sum(np.sin(2 * np.pi * hz * k * t) / k for hz, k in notes)
        beats.append(0.12 * chord * np.exp(-1.5 * t) + 0.5 * drum + 0.1 * np.roll(hat, n_beat // 2))
    samples = np.concatenate(beats)[: round(seconds * SAMPLE_RATE_HZ)]
    return np.clip(samples, -1, 1).astype(np.float32)


def noise(seconds: float, colour: float = 0.0, seed: int = 0) -> FloatArray:
    """Noise whose power falls by frequency to this power: 0 is white, 1 pink, 2 brown."""
    rng = np.random.default_rng(seed)
    n = round(seconds * SAMPLE_RATE_HZ)
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum[1:] /= np.arange(1, spectrum.size) ** (colour / 2)
    spectrum[0] = 0
    samples = np.fft.irfft(spectrum, n)
    quiet: FloatArray = (0.2 * samples / np.abs(samples).max()).astype(np.float32)
    return quiet


logger = logging.getLogger(__name__)

SPOKEN: Final = ("seen", "noisy", "unseen", "long")
SEARCHES: Final = {"off": SearchOptions(), "on": SearchOptions(temperatures=DEFAULT_TEMPERATURES)}
SOUND_S: Final = 8.0


def sounds() -> list[AudioSource]:
    """Noises of three colours and music."""
    noises = [noise(SOUND_S, colour, seed) for colour in (0.0, 1.0, 2.0) for seed in range(3)]
    return [*noises, *(music(SOUND_S, seed) for seed in range(3))]


def sets(limit: int) -> Iterator[tuple[str, list[tuple[str, AudioSource]]]]:
    """Per set: texts and audio."""
    for name in SPOKEN:
        yield name, [(clip.text, clip.path) for clip in spoken_clips(name, limit)]
    yield "silence", [("", path) for path in recordings("silence")[:limit]]
    yield "noise and music", [("", sound) for sound in sounds()]


def measure(
    transcriber: Transcriber, name: str, pairs: Sequence[tuple[str, Any]]
) -> dict[str, Any]:
    """Both searches on one set, one recording after the other, in turns."""
    row: dict[str, Any] = {"set": name, "clips": len(pairs)}
    for search in SEARCHES:
        row[search] = {"counts": [], "decode_ms": 0.0, "hot": 0, "segments": 0, "with_text": 0}
    for text, audio in pairs:
        for search, how in SEARCHES.items():
            transcript = transcriber.transcribe(audio, DecodingOptions(language="en", search=how))
            found = row[search]
            found["counts"].append(score_file(text, transcript.text).words.counts)
            found["decode_ms"] += transcript.timings.decode_ms
            found["segments"] += len(transcript.segments)
            found["hot"] += sum(segment.temperature > 0 for segment in transcript.segments)
            found["with_text"] += bool(transcript.text)
    logger.info("%s %s", name, {s: round(row[s]["decode_ms"]) for s in SEARCHES})
    return row


def measure_all(limit: int) -> dict[str, Any]:
    """Every set, and what it was measured on."""
    with Transcriber.from_model("micro", convert=ConvertOptions("none"), threads=1) as transcriber:
        transcriber.transcribe(sounds()[0])  # warm-up
        rows = [measure(transcriber, name, pairs) for name, pairs in sets(limit)]
    return measured_on(limit) | {"rows": rows}


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--limit", type=int, default=40, help="clips per set")
    keep(RESULT, measure_all(parser.parse_args().limit))


if __name__ == "__main__":
    sys.exit(run(main))
