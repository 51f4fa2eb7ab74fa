"""Word error rates of the bundled model in the arithmetic of this processor.

    python -m benchmarks.processors.words [--name TEXT] [--forms NAME ...] [--every N]

Prints a line of JSON: words, and errors by form. An emulated processor takes minutes for what takes
this one seconds, so it may hear every N-th recording only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path

from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.backends.saturation import saturates
from whisper_hailo.bench.score import evaluate

CLIPS = Path(__file__).parents[2] / "tests" / "data" / "micro"
SETS = ("seen", "unseen", "noisy")
FORMS = {
    "float32": ConvertOptions(),
    "8 bits": ConvertOptions("int8", "int8", half=False),
    "4 bits": ConvertOptions("int4", "int8", half=False),
    "8 bits, float16": ConvertOptions("int8", "int8", half=True),
}
USUAL = tuple(FORMS)[:3]


def errors(form: str, paths: list[Path]) -> tuple[int, int]:
    """Wrong words and all words of the recordings."""
    with Transcriber.from_model("micro", convert=FORMS[form], window_s=10.0) as transcriber:
        pairs = [
            (path.with_suffix(".txt").read_text("utf-8"), transcriber.transcribe(path).text)
            for path in paths
        ]
    words = evaluate(pairs).words
    return words.errors, words.reference_count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default=os.environ.get("HIDE", ""), help="of the arithmetic")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=USUAL)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    paths = [
        path
        for name in SETS
        for path in sorted((CLIPS / name).iterdir())
        if path.suffix in {".ogg", ".flac"}
    ][:: given.every]
    found = {form: errors(form, paths) for form in given.forms}
    told = {
        "machine": platform.machine(),
        "name": given.name,
        "in_pairs": saturates(),
        "words": max(words for _, words in found.values()),
        "errors": {form: wrong for form, (wrong, _) in found.items()},
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
