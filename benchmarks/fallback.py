"""What trying doubtful text again at higher temperatures gives, and what it costs.

    python -m benchmarks.fallback [--limit N]

Transcribes frozen clips of `micro` and sounds without speech with the fallback off and on (OpenAI
Whisper's schedule and thresholds, windows of 10 s) and writes `benchmarks/results/fallback.json`
and the table of `docs/benchmarks.md`, a function of that file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import tables
from benchmarks.sounds import music, noise
from benchmarks.windows import DATA, clips, result_of
from whisper_hailo import Transcriber
from whisper_hailo.audio import AudioSource
from whisper_hailo.decoding.option_groups import OPENAI_TEMPERATURES, Search
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.score import score_file

SPOKEN = ("seen", "noisy", "unseen", "long")
SEARCHES = {"off": Search(), "on": Search(temperatures=OPENAI_TEMPERATURES)}
SOUND_S = 8.0


def sounds() -> list[AudioSource]:
    """Noises of three colours and music."""
    noises = [noise(SOUND_S, colour, seed) for colour in (0.0, 1.0, 2.0) for seed in range(3)]
    return [*noises, *(music(SOUND_S, seed) for seed in range(3))]


def recordings(limit: int) -> Iterator[tuple[str, list[tuple[str, AudioSource]]]]:
    """Per set: texts and audio."""
    for name in SPOKEN:
        yield name, [(clip.text, clip.path) for clip in clips(name, limit)]
    yield "silence", [("", path) for path in sorted((DATA / "silence").glob("*.ogg"))[:limit]]
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
            heard = transcriber.transcribe(audio, DecodingOptions(search=how))
            words = score_file(text, heard.text).words
            found = row[search]
            found["counts"].append(
                [words.substitutions, words.deletions, words.insertions, words.hits]
            )
            found["decode_ms"] += heard.timings.decode_ms
            found["segments"] += len(heard.segments)
            found["hot"] += sum(segment.temperature > 0 for segment in heard.segments)
            found["with_text"] += bool(heard.text)
    print(name, {s: round(row[s]["decode_ms"]) for s in SEARCHES}, file=sys.stderr)
    return row


def run(limit: int) -> dict[str, Any]:
    """All sets."""
    with Transcriber.from_model("micro", threads=1) as transcriber:
        transcriber.transcribe(sounds()[0])  # warm-up
        rows = [measure(transcriber, name, pairs) for name, pairs in recordings(limit)]
    return result_of(rows, limit)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the temperature fallback costs and gives.")
    parser.add_argument("--limit", type=int, default=40, help="clips per set")
    result = run(parser.parse_args().limit)
    tables.FALLBACK.write_text(json.dumps(result) + "\n", encoding="utf-8")
    tables.write()


if __name__ == "__main__":
    main()
