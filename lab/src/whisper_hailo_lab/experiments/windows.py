"""Short windows beside full ones, and words against their true times, through the product.

    python -m whisper_hailo_lab.experiments.windows [--limit N] [--sets NAME ...]

Transcribes the frozen clips of `tests/data/micro` with 10 s and with 30 s windows and times of
words, everything else as a user has it, and keeps the result. The clips are synthesised, so that
the true time of every word is known; a word counts where it was heard as it was said.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from whisper_hailo import Transcriber
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.data.clips import SpokenClip, measured_on, spoken_clips
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.documents.windows import CASES, RESULT, SETS, WindowCase, tables
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.rates import corpus
from whisper_hailo_lab.score import FileScore, score_file

logger = logging.getLogger(__name__)


def plain(word: str) -> str:
    """Letters and digits in lower case."""
    return "".join(c for c in word.casefold() if c.isalnum())


def start_errors(clip: SpokenClip, transcript: Transcript) -> list[float]:
    """Heard start less true start, in seconds, of every word heard as it was said."""
    said = [plain(word) for word, *_ in clip.words]
    words = [word for segment in transcript.segments for word in segment.words]
    matcher = SequenceMatcher(a=said, b=[plain(word.text) for word in words], autojunk=False)
    return [
        words[block.b + i].start_s - clip.words[block.a + i][1]
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    ]


def measure(case: WindowCase, sets: Sequence[str], limit: int | None) -> Iterator[dict[str, Any]]:
    """A row per set: raw texts, counts of errors, and how far words are off."""
    exact = ConvertOptions("none")
    with Transcriber.from_model(
        "micro", convert=exact, window_s=case.window_s, threads=1
    ) as transcriber:
        for name in sets:
            if case.timestamps and name != "long":
                continue  # one window each: there is nothing to seek
            scores: list[FileScore] = []
            errors: list[float] = []
            for clip in spoken_clips(name, limit):
                options = DecodingOptions(
                    language=clip.language, timestamps=case.timestamps, word_timestamps=True
                )
                transcript = transcriber.transcribe(clip.path, options)
                scores.append(score_file(clip.text, transcript.text, language=clip.language))
                errors += start_errors(clip, transcript)
            rate = corpus(score.words for score in scores).rate
            logger.info("%s %s: %.3f", case.name, name, rate)
            yield {
                "case": case.name,
                "set": name,
                "counts": [score.words.counts for score in scores],
                "texts": [[score.reference, score.hypothesis] for score in scores],
                "start_errors_s": [round(error, 3) for error in errors],
            }


def measure_all(sets: Sequence[str], limit: int | None) -> dict[str, Any]:
    """Every case, and what it was measured on."""
    rows = [row for case in CASES for row in measure(case, sets, limit)]
    return measured_on(limit) | {"rows": rows}


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--limit", type=int, help="only so many clips per set")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    words = parser.parse_args()
    result = measure_all(words.sets, words.limit)
    if len(words.sets) < len(SETS):  # a look, which is not kept
        emit(tables(result, result["weights"])["windows"])
    else:
        keep(RESULT, result)


if __name__ == "__main__":
    sys.exit(run(main))
