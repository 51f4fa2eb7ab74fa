"""Word error rates of the bundled model on its frozen test sets.

    python benchmarks/micro_wer.py [--windows 10 30] [--quantize none int8 int4] [--json]

Every row runs the whole pipeline, from the audio file to the text, with the default settings but
for what its columns say. The interval is a bootstrap over files. Silent clips have no words: their
figure is the share of clips that gave any text.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.bench.score import Evaluation, evaluate

DATA = Path(__file__).parents[1] / "tests" / "data" / "micro"
SPOKEN = ("seen", "noisy", "unseen")


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a way to run the model."""

    window_s: float
    quantize: str


def clips(name: str) -> list[Path]:
    """Audio files of one test set, in order."""
    return sorted(path for path in (DATA / name).iterdir() if path.suffix in {".ogg", ".flac"})


def texts(transcriber: Transcriber, name: str) -> list[tuple[str, str]]:
    """Reference and hypothesis of every clip of a set."""
    return [
        (path.with_suffix(".txt").read_text(encoding="utf-8"), transcriber.transcribe(path).text)
        for path in clips(name)
    ]


def measure(case: Case, sets: Sequence[str] = SPOKEN) -> dict[str, Any]:
    """Sets under one case, and the silent clips."""
    convert = ConvertOptions(quantize=case.quantize)
    row: dict[str, Any] = {"window_s": case.window_s, "decoder": case.quantize}
    with Transcriber.from_model("micro", convert=convert, window_s=case.window_s) as transcriber:
        for name in sets:
            pairs = texts(transcriber, name)
            row[name] = summary(evaluate(pairs), evaluate(pairs, form="simple"))
        silent = texts(transcriber, "silence")
        row["silence"] = {"clips": len(silent), "with_text": sum(bool(said) for _, said in silent)}
    return row


def summary(normalised: Evaluation, simple: Evaluation) -> dict[str, Any]:
    """Corpus figures of a set: the field's form, and the study's beside it."""
    words = normalised.words
    low, high = normalised.wer_interval()
    return {
        "wer": words.rate,
        "interval": [low, high],
        "words": words.reference_count,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "cer": normalised.characters.rate,
        "simple_mean_wer": simple.mean_wer,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: one line per case, WER in percent with its interval."""
    lines = [
        "| window | decoder | " + " | ".join(SPOKEN) + " | silent clips with text |",
        "|---|---|" + "---|" * (len(SPOKEN) + 1),
    ]
    for row in rows:
        cells = [f"{row['window_s']:g} s", str(row["decoder"])]
        cells += [_cell(row[name]) for name in SPOKEN]
        silence = row["silence"]
        cells.append(f"{silence['with_text']} of {silence['clips']}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(figures: dict[str, Any]) -> str:
    low, high = figures["interval"]
    return (
        f"{100 * figures['wer']:.1f} % ({100 * low:.1f}-{100 * high:.1f}; "
        f"{figures['substitutions']} S {figures['deletions']} D {figures['insertions']} I "
        f"of {figures['words']})"
    )


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="Word error rates of the bundled model.")
    parser.add_argument("--windows", type=float, nargs="+", default=[10.0, 30.0])
    parser.add_argument("--quantize", nargs="+", default=["none", "int8", "int4"])
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    words = parser.parse_args()
    rows = [measure(Case(w, q)) for w in words.windows for q in words.quantize]
    print("\n".join(json.dumps(row) for row in rows) if words.json else table(rows))


if __name__ == "__main__":
    main()
