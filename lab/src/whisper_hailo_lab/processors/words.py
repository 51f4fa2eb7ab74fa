"""Word error rates of the bundled model in the arithmetic of this processor.

    python -m whisper_hailo_lab.processors.words INTO.json --name TEXT [--forms NAME ...]
                                                 [--every N]

Puts a row into a file: words, and errors by form. An emulated processor takes minutes for what
takes this one seconds, so it may hear every N-th recording only.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any, Final

from whisper_hailo import ConvertOptions, DecodingOptions, Transcriber
from whisper_hailo.backends.session import saturates
from whisper_hailo.cli.streams import emit_json
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.data.clips import recordings, said
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import MICRO
from whisper_hailo_lab.runs.machine import mark_of
from whisper_hailo_lab.score import evaluate

SETS: Final = ("seen", "unseen", "noisy")
FORMS: Final = {
    "float32": ConvertOptions("none"),
    "8 bits": ConvertOptions("int8", "int8", half=False),
    "4 bits": ConvertOptions("int4", "int8", half=False),
    "8 bits, float16": ConvertOptions("int8", "int8", half=True),
}
USUAL: Final = tuple(FORMS)[:3]


def errors(form: str, paths: list[Path]) -> tuple[int, int]:
    """Wrong words and all words of the recordings."""
    english = DecodingOptions(language="en")
    with Transcriber.from_model(
        "micro", convert=FORMS[form], window_s=10.0, threads=1
    ) as transcriber:
        pairs = [(said(path), transcriber.transcribe(path, english).text) for path in paths]
    words = evaluate(pairs).words
    return words.errors, words.reference_count


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("into", type=Path)
    parser.add_argument("--name", required=True, help="of the arithmetic")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=USUAL)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    paths = recordings(*SETS)[:: given.every]
    found = {form: errors(form, paths) for form in given.forms}
    row = {
        "machine": platform.machine(),
        "name": given.name,
        "in_pairs": saturates(),
        "words": max(words for _, words in found.values()),
        "errors": {form: wrong for form, (wrong, _) in found.items()},
    }
    emit_json(row)
    write_file(given.into, json.dumps(with_row(given.into, row), indent=2) + "\n")


def with_row(path: Path, row: dict[str, Any]) -> dict[str, Any]:
    """What a file holds of the present weights, this row in the place of one of its name."""
    weights, rows = mark_of(MICRO), []
    if path.is_file():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["weights"] == weights:
            rows = [old for old in kept["rows"] if old["name"] != row["name"]]
    return {"weights": weights, "rows": [*rows, row]}


if __name__ == "__main__":
    sys.exit(run(main))
