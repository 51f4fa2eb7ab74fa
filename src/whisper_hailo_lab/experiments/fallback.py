"""What trying doubtful text again at higher temperatures gives, and what it costs.

    python -m whisper_hailo_lab.experiments.fallback [--limit N]

Transcribes frozen clips of `micro` and sounds without speech with the fallback off and on (OpenAI
Whisper's schedule and thresholds, windows of 10 s) and keeps the result, from which the table of
`docs/measurements/benchmarks.md` follows.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from whisper_hailo import Transcriber
from whisper_hailo.audio import AudioSource
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.decoding.option_groups import DEFAULT_TEMPERATURES, SearchOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.data.clips import measured_on, recordings, spoken_clips
from whisper_hailo_lab.data.sounds import music, noise
from whisper_hailo_lab.documents.fallback import RESULT
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.score import score_file

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
