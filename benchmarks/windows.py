"""Short windows beside full ones, and words against their true times, through the product.

    python -m benchmarks.windows [run] [--limit N] [--sets NAME ...]
    python -m benchmarks.windows table [--write]

`run` transcribes the frozen clips of `tests/data/micro` with 10 s and with 30 s windows and times
of words, everything else as a user has it, and writes `benchmarks/results/windows.json` and the
tables of `docs/benchmarks.md`, which are functions of that file alone. The clips are synthesised,
so that the true time of every word is known; a word counts where it was heard as it was said.
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

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.bench.machine import this_machine
from whisper_hailo.bench.score import FileScore, Score, corpus, difference_interval, score_file
from whisper_hailo.core.types import Transcript
from whisper_hailo.core.version import __version__
from whisper_hailo.decoding.option_groups import WordOptions
from whisper_hailo.decoding.options import DecodingOptions

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "micro"
RESULT = ROOT / "benchmarks" / "results" / "windows.json"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- windows: begin -->", "<!-- windows: end -->"
SETS = ("seen", "unseen", "noisy", "long", "german")
SHORT_S, FULL_S = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Clip:
    """A clip, what is said in it, and when each word of it begins."""

    path: Path
    language: str
    text: str
    words: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to hear a set."""

    window_s: float
    timestamps: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.window_s:g} s{', by timestamps' if self.timestamps else ''}"


CASES = (Case(SHORT_S), Case(FULL_S), Case(SHORT_S, timestamps=True))


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
    rows = [row for case in CASES for row in measure(case, sets, limit)]
    return {"version": __version__, "machine": this_machine().label, "limit": limit, "rows": rows}


def table(result: dict[str, Any]) -> str:
    """Markdown: error rates by window, then times of words."""
    rows = {
        (row["case"], row["set"]): {**row, "counts": [Score(*counts) for counts in row["counts"]]}
        for row in result["rows"]
    }
    sets = [name for name in SETS if (CASES[0].name, name) in rows]
    limit = result["limit"]
    which = "all frozen clips" if limit is None else f"the first {limit} clips of each frozen set"
    lines = [
        f"`make windows`: `micro` on {which} of `tests/data/micro`, default settings with "
        f"times of words; {result['machine']}. The difference is in points, with a bootstrap "
        "interval over the clips, both windows drawn together.",
        "",
        "| set | clips | words | "
        f"{' | '.join(f'WER {case.name}' for case in CASES)} | 10 s less 30 s |",
        "|---|---|---|" + "---|" * (len(CASES) + 1),
    ]
    for name in sets:
        short = rows[CASES[0].name, name]["counts"]
        cells = [_rate(rows.get((case.name, name))) for case in CASES]
        full = rows[CASES[1].name, name]["counts"]
        low, high = difference_interval(short, full)
        point, n_words = corpus(short).rate - corpus(full).rate, corpus(short).reference_count
        lines.append(
            f"| {name} | {len(short)} | {n_words} | {' | '.join(cells)} | "
            f"{100 * point:+.1f} ({100 * low:+.1f} to {100 * high:+.1f}) |"
        )
    lines += [
        "",
        "Starts of the words that were heard as they were said, against their true starts:",
        "",
        "| set | window | words | median error s | mean error s | within 0.1 s | within 0.2 s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sets:
        for case in CASES:
            if (case.name, name) in rows:
                lines.append(_starts(name, case, rows[case.name, name]["start_errors_s"]))
    return "\n".join(lines)


def _rate(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    return f"{100 * corpus(row['counts']).rate:.1f} %"


def _starts(name: str, case: Case, errors_s: Sequence[float]) -> str:
    if not errors_s:
        return f"| {name} | {case.name} | 0 | - | - | - | - |"
    off = np.abs(np.array(errors_s))
    return (
        f"| {name} | {case.name} | {off.size} | {np.median(off):.2f} | {np.mean(errors_s):+.2f} | "
        f"{100 * np.mean(off <= 0.1):.0f} % | {100 * np.mean(off <= 0.2):.0f} % |"
    )


def filled(page: str, result: dict[str, Any]) -> str:
    """The page with the tables of this result in their place."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(result)}\n{END}{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Short windows beside full ones, and word times.")
    parser.add_argument("command", nargs="?", choices=("run", "table"), default="run")
    parser.add_argument("--limit", type=int, help="only so many clips per set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--write", action="store_true", help="the table into docs/benchmarks.md")
    words = parser.parse_args()
    if words.command == "run":
        result = run(words.sets, words.limit)
        if len(words.sets) < len(SETS):  # a look, which is not kept
            print(table(result))
            return
        RESULT.write_text(json.dumps(result) + "\n", encoding="utf-8")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    if words.command == "table" and not words.write:
        print(table(result))
    else:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")


if __name__ == "__main__":
    main()
