r"""What a short window does to a model, and what cures it: padding, penalty, boost.

    python -m lab.training.illness CHECKPOINT tests/data/micro \
        --out lab/training/results/illness.json

Runs the product's own pipeline over a frozen set: for every padding target, with and without the
repetition penalty and the end-of-transcript boost, the share of clips that used up their token
budget (runaway), the word error rate and the tokens written. In 30 s windows there is nothing left
to pad.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from whisper_hailo import Transcriber
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.decoding.options import AntiRepetition, DecodingOptions
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.score import score_texts

TARGETS = (0, 600, 700, 1000, 1500)
RULES = ((1.0, 0.0), (1.1, 0.0), (1.0, 0.2), (1.1, 0.2))
"""Repetition penalty and boost."""


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the grid.

    Attributes:
        pad_to: padding target in positions, 0 for none.
        runaway: share of clips in per cent that never ended.
        wer: corpus word error rate in per cent.
        tokens: mean number per clip.
    """

    window_s: float
    pad_to: int
    penalty: float
    boost: float
    clips: int
    runaway: float
    wer: float
    insertions: int
    tokens: float


def measure(
    transcriber: Transcriber,
    clips: list[Path],
    window_s: float,
    options: DecodingOptions,
) -> Row:
    """Runs one cell over `clips`, each with its reference beside it."""
    anti_repetition = options.anti_repetition
    pairs = []
    runaway = 0
    tokens = 0
    for clip in clips:
        transcript = transcriber.transcribe(clip, options)
        pairs.append(
            (clip.with_suffix(".txt").read_text(encoding="utf-8"), transcript.text)
        )
        runaway += any(segment.runaway for segment in transcript.segments)
        tokens += sum(len(segment.tokens) for segment in transcript.segments)
    words = score_texts(pairs).words
    return Row(
        window_s,
        anti_repetition.pad_to or 0,
        anti_repetition.repetition_penalty,
        anti_repetition.eot_boost,
        len(clips),
        round(100 * runaway / len(clips), 1),
        round(100 * words.rate, 2),
        words.insertions,
        round(tokens / len(clips), 1),
    )


def grid(checkpoint: str, clips: list[Path], budget: int | None) -> list[Row]:
    """Returns all rows: 10 s windows with every target, then 30 s windows.

    `budget` is the number of tokens that a window may have; `None` is half the text context.
    """
    rows = []
    for window_s, targets in ((10.0, TARGETS), (30.0, (0,))):
        with Transcriber.from_model(
            checkpoint, convert=ConvertOptions("none"), window_s=window_s
        ) as transcriber:
            for target in targets:
                for penalty, boost in RULES:
                    anti_repetition = AntiRepetition(target, penalty, boost)
                    options = DecodingOptions(
                        language="en",
                        anti_repetition=anti_repetition,
                        max_new_tokens=budget,
                    )
                    rows.append(measure(transcriber, clips, window_s, options))
                    sys.stderr.write(f"{rows[-1]}\n")
    return rows


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        description="The short-window illness and its cures."
    )
    parser.add_argument("checkpoint")
    parser.add_argument("sets", type=Path, help="folder of the frozen test sets")
    parser.add_argument("--set", default="seen")
    parser.add_argument("--clips", type=int, default=80)
    parser.add_argument(
        "--budget", type=int, help="tokens per window; half the text context"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    clips = sorted((unpack_clips(options.sets) / options.set).glob("*.ogg"))[
        : options.clips
    ]
    rows = [asdict(row) for row in grid(options.checkpoint, clips, options.budget)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
