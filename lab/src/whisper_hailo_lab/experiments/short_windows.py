"""Windows as short as their audio beside one of 10 s: time, and the price in words.

    python -m whisper_hailo_lab.experiments.short_windows [--limit N]

Both windows hear the same audio and are padded to 1500 positions for free. Words: `micro` on the
frozen English clips, each cut behind the last word that a window has room for. Time: processor time
in turns, on the same audio, and on tiny's dimensions with random weights and 28 tokens. Keeps the
result.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.data.clips import measured_on, spoken_clips
from whisper_hailo_lab.documents.short_windows import RESULT, table
from whisper_hailo_lab.documents.tables import keep
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.machine import by_processor_time
from whisper_hailo_lab.score import score_file
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.weights import random_checkpoint

logger = logging.getLogger(__name__)

SETS: Final = ("seen", "unseen", "noisy")
WINDOWS_S: Final = (2.0, 4.0, 6.0, 8.0, 10.0)
FULL_S: Final = WINDOWS_S[-1]
STEP_S: Final = 2.0
MARGIN_S: Final = 1.0
ROUNDS: Final = 15
INT8: Final = ConvertOptions(quantize="int8", encoder_quantize="int8")


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a clip, and what is said in it."""

    name: str
    audio: FloatArray
    text: str


def cuts(window_s: float, limit: int | None) -> Iterator[Cut]:
    """The clips that are too long for the next shorter window, cut for this one."""
    room_s = window_s - MARGIN_S
    for name in SETS:
        for clip in spoken_clips(name, limit):
            spoken = [word for word, _, end_s in clip.words if end_s <= room_s]
            audio = load_audio(clip.path)
            is_whole = len(spoken) == len(clip.words) and audio.size <= room_s * SAMPLE_RATE_HZ
            if not is_whole:
                last_s = clip.words[len(spoken) - 1][2] if spoken else 0.0
                audio = audio[: round(last_s * SAMPLE_RATE_HZ)]
            if audio.size > (room_s - STEP_S) * SAMPLE_RATE_HZ and spoken:
                yield Cut(f"{name}/{clip.id}", audio, " ".join(spoken))


def measure_words(window_s: float, limit: int | None) -> dict[str, Any]:
    """What both windows make of the same audio, and the time that each takes."""
    options = DecodingOptions(language="en")
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened("micro", size_s)) for size_s in (window_s, FULL_S)]
        stack.enter_context(by_processor_time())
        for number, cut in enumerate(cuts(window_s, limit)):
            transcripts = {
                which: opened[which].transcribe(cut.audio, options)
                for which in ((0, 1) if number % 2 else (1, 0))
            }
            rows.append(
                {
                    "clip": cut.name,
                    "counts": [
                        score_file(cut.text, transcripts[which].text, language="en").words.counts
                        for which in (0, 1)
                    ],
                    "cpu_ms": [transcripts[which].timings.total_ms for which in (0, 1)],
                }
            )
    return {"window_s": window_s, "clips": rows}


def measure_time() -> list[dict[str, Any]]:
    """Tiny's dimensions: processor time of the encoder and of everything, in turns."""
    model = str(random_checkpoint("tiny", BUILD / "speed" / "tiny"))
    options = DecodingOptions(language="en", max_new_tokens=28)
    noise = np.random.default_rng(0).standard_normal(round(FULL_S * SAMPLE_RATE_HZ))
    rows: list[dict[str, Any]] = [
        {"window_s": size_s, "encoder_ms": [], "all_ms": []} for size_s in WINDOWS_S
    ]
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened(model, size_s)) for size_s in WINDOWS_S]
        stack.enter_context(by_processor_time())
        for number in range(1 + ROUNDS):
            for size_s, transcriber, row in zip(WINDOWS_S, opened, rows, strict=True):
                n_samples = round((size_s - MARGIN_S) * SAMPLE_RATE_HZ)
                audio = (0.1 * noise[:n_samples]).astype(np.float32)
                times = transcriber.transcribe(audio, options).timings
                if number:
                    row["encoder_ms"].append(times.encode_ms)
                    row["all_ms"].append(times.total_ms)
    return rows


def _opened(model: str, window_s: float) -> Transcriber:
    return replace(
        Transcriber.from_model(
            model, window_s=window_s, margin_s=MARGIN_S, threads=1, convert=INT8
        ),
        encode_ahead=False,
    )


def measure_all(limit: int | None) -> dict[str, Any]:
    """Words and times, and what they were measured on."""
    words = []
    for window_s in WINDOWS_S[:-1]:
        logger.info("words in %g s", window_s)
        words.append(measure_words(window_s, limit))
    return measured_on(limit) | {"words": words, "times": measure_time()}


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("--limit", type=int, help="only so many clips per set; nothing is kept")
    limit = parser.parse_args().limit
    use_cache(BUILD / "speed-cache")
    result = measure_all(limit)
    if limit is None:
        keep(RESULT, result)
    else:
        emit(table(result).markdown())


if __name__ == "__main__":
    sys.exit(run(main))
