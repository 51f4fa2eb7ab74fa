"""Writes the generated tables of `lab/training/README.md` and of the data card.

They come from measured results.

    python -m lab.training.tables            write
    python -m lab.training.tables --check    fail if a table is not what the results say

A table stands between `<!-- table NAME -->` and `<!-- end -->`.
"""

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "lab" / "training" / "results"
LAST_RUN = max((ROOT / "lab" / "training" / "runs").glob("micro-*.zip"))
PAGES = (
    ROOT / "lab/training/README.md",
    ROOT / "src/whisper_hailo/assets/micro/README.md",
)
TEXT_ROWS = {
    "seen": "unseen sentences, seen voices",
    "unseen": "unseen voices and engine setting",
    "noisy": "noise at 10 dB",
    "german": "German",
    "phrases": "German phrases",
    "translation": "the same, translated to English",
    "long": "English, 18 to 28 s",
}


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text_cell(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return ""
    low, high = figures["interval"]
    counts = "/".join(
        str(figures[name]) for name in ("substitutions", "deletions", "insertions")
    )
    return f"{figures['wer']:.1f} ({low:.1f} to {high:.1f}; {counts})"


def figures_table(report: dict[str, Any]) -> str:
    """Returns the table of `lab.training.measure`'s report: a column for each window."""
    windows: dict[str, Any] = report["windows"]
    last = list(windows.values())[-1]
    rows = [
        [
            label,
            str(last[name]["words"]),
            *(_text_cell(w.get(name)) for w in windows.values()),
        ]
        for name, label in TEXT_ROWS.items()
        if name in last
    ]
    silent = [
        f"{w['silence']['with_text']} of {w['silence']['clips']}"
        for w in windows.values()
    ]
    times = [
        f"{w['segment_times']['share']:.1f} % of {w['segment_times']['boundaries']}"
        for w in windows.values()
    ]
    codes = [
        f"{w['language_detection']['share']:.1f} % of {w['language_detection']['clips']}"
        for w in windows.values()
    ]
    rows.append(["clips without speech that gave text", "", *silent])
    rows.append(["segment starts and ends within 0.2 s", "", *times])
    rows.append(["language told", "", *codes])
    return markdown(["", "words", *(f"{name} s window" for name in windows)], rows)


def illness_table(rows: list[dict[str, Any]]) -> str:
    """Returns the grid of `lab.training.illness`: runaway share, error rate and tokens by cell."""
    rules = sorted(
        {(row["penalty"], row["boost"]) for row in rows}, key=lambda r: (r[1], r[0])
    )
    heads = [
        ", ".join(
            [f"penalty {p:g}"] * (p > 1) + [f"boost {b:g}"] * (b > 0) or ["neither"]
        )
        for p, b in rules
    ]
    lines = []
    for window_s, pad_to in dict.fromkeys(
        (row["window_s"], row["pad_to"]) for row in rows
    ):
        cells = {
            (row["penalty"], row["boost"]): row
            for row in rows
            if (row["window_s"], row["pad_to"]) == (window_s, pad_to)
        }
        texts = [
            f"{cells[rule]['runaway']:.1f} / {cells[rule]['wer']:.1f} / {cells[rule]['tokens']:.1f}"
            for rule in rules
        ]
        lines.append([f"{window_s:g} s", str(pad_to) if pad_to else "none", *texts])
    return markdown(["window", "padded to", *heads], lines)


def run_table(log: list[dict[str, Any]]) -> str:
    """Returns the run's course, a row for every thousandth step and the last."""
    rows = [
        [
            str(entry["step"]),
            f"{entry['minutes']:.0f}",
            f"{entry['loss']:.2f}",
            f"{entry['ctc']:.2f}",
            f"{entry['dev']['wer']:.1f}",
            f"{entry['dev-de']['wer']:.1f}",
        ]
        for entry in log
        if "dev" in entry and (entry["step"] % 1000 == 0 or entry is log[-1])
    ]
    return markdown(
        ["step", "minutes", "loss", "CTC", "English WER", "German WER"], rows
    )


def _json(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    return json.loads(path.read_text(encoding="utf-8"))


TABLES: dict[str, Callable[[], str]] = {
    "figures": lambda: figures_table(_json(RESULTS / "micro.json")),
    "illness": lambda: illness_table(_json(RESULTS / "illness.json")),
    "ill": lambda: illness_table(_json(RESULTS / "ill.json")),
    "run": lambda: run_table(
        [
            json.loads(line)
            for line in zipfile.Path(LAST_RUN, "log.jsonl")
            .read_text(encoding="utf-8")
            .splitlines()
        ]
    ),
}


def filled(page: str) -> str:
    """Returns a page with all its tables as the results say."""

    def table(found: re.Match[str]) -> str:
        return f"<!-- table {found[1]} -->\n\n{TABLES[found[1]]()}\n\n<!-- end -->"

    return re.sub(
        r"<!-- table ([^>]+?) -->.*?<!-- end -->", table, page, flags=re.DOTALL
    )


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="Writes the tables of the training pages."
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if options.check and filled(page) != page:
            sys.exit(
                f"{path} has a stale table; write it anew: python -m lab.training.tables"
            )
        path.write_text(filled(page), encoding="utf-8")


if __name__ == "__main__":
    main()
