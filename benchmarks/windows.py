"""Short windows beside full ones, and words against their true times, through the product.

    python -m benchmarks.windows [--limit N] [--sets NAME ...]

Transcribes the frozen clips of `tests/data/micro` with 10 s and with 30 s windows and times of
words, everything else as a user has it, and writes `benchmarks/results/windows.json` and the tables
of `docs/benchmarks.md`, which are functions of that file alone. The clips are synthesised, so that
the true time of every word is known; a word counts where it was heard as it was said.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.windows_table import CASES, SETS, Case, table
from whisper_hailo import Transcriber
from whisper_hailo.core.types import Transcript
from whisper_hailo.core.version import __version__
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.machine import this_machine
from whisper_hailo_lab.marks import mark_of
from whisper_hailo_lab.score import FileScore, Score, corpus, score_file

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "micro"


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip, what is said in it, and when each word of it begins."""

    path: Path
    language: str
    text: str
    words: tuple[tuple[str, float], ...]


def clips(name: str, limit: int | None = None) -> list[Clip]:
    """So many clips of a frozen set, in order."""
    lines = (DATA / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [entry for entry in map(json.loads, lines) if entry["set"] == name]
    return [
        Clip(
            DATA / name / f"{entry['id']}.ogg",
            entry["language"],
            entry["text"],
            tuple(
                (word, start_s)
                for sentence in entry["sentences"]
                for word, start_s, _ in sentence["words"]
            ),
        )
        for entry in entries[:limit]
    ]


def plain(word: str) -> str:
    """Letters and digits in lower case."""
    return "".join(c for c in word.casefold() if c.isalnum())


def start_errors(clip: Clip, heard: Transcript) -> list[float]:
    """Heard start less true start, in seconds, of every word heard as it was said."""
    said = [plain(word) for word, _ in clip.words]
    words = [word for segment in heard.segments for word in segment.words]
    matcher = SequenceMatcher(a=said, b=[plain(word.text) for word in words], autojunk=False)
    return [
        words[block.b + i].start_s - clip.words[block.a + i][1]
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    ]


def measure(case: Case, sets: Sequence[str], limit: int | None) -> Iterator[dict[str, Any]]:
    """A row per set: raw texts, counts of errors, and how far words are off."""
    with Transcriber.from_model("micro", window_s=case.window_s, threads=1) as transcriber:
        for name in sets:
            if case.timestamps and name != "long":
                continue  # one window each: there is nothing to seek
            scores: list[FileScore] = []
            errors: list[float] = []
            for clip in clips(name, limit):
                options = DecodingOptions(
                    language=clip.language, timestamps=case.timestamps, words=WordOptions()
                )
                heard = transcriber.transcribe(clip.path, options)
                scores.append(score_file(clip.text, heard.text, language=clip.language))
                errors += start_errors(clip, heard)
            print(
                f"{case.name} {name}: {corpus(s.words for s in scores).rate:.3f}", file=sys.stderr
            )
            yield {
                "case": case.name,
                "set": name,
                "counts": [_counts(score.words) for score in scores],
                "texts": [[score.reference, score.hypothesis] for score in scores],
                "start_errors_s": [round(error, 3) for error in errors],
            }


def _counts(score: Score) -> list[int]:
    return [score.substitutions, score.deletions, score.insertions, score.hits]


def run(sets: Sequence[str], limit: int | None) -> dict[str, Any]:
    """All cases."""
    return result_of([row for case in CASES for row in measure(case, sets, limit)], limit)


def result_of(rows: Sequence[dict[str, Any]], limit: int | None) -> dict[str, Any]:
    """Rows and what they were measured on."""
    return {
        "version": __version__,
        "machine": this_machine().label,
        "weights": mark_of(tables.MICRO),
        "limit": limit,
        "rows": list(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Short windows beside full ones, and word times.")
    parser.add_argument("--limit", type=int, help="only so many clips per set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    words = parser.parse_args()
    result = run(words.sets, words.limit)
    if len(words.sets) < len(SETS):  # a look, which is not kept
        print(table(result, result["weights"]))
        return
    tables.WINDOWS.write_text(json.dumps(result) + "\n", encoding="utf-8")
    tables.write()


if __name__ == "__main__":
    main()
