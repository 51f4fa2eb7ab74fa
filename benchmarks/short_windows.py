"""Windows as short as their audio beside one of 10 s: time, and the price in words.

    python -m benchmarks.short_windows [--limit N]

Both windows hear the same audio and are padded to 1500 positions for free. Words: `micro` on the
frozen English clips, each cut behind the last word that a window has room for. Time: processor time
in turns, on the same audio, and on tiny's dimensions with random weights and 28 tokens. Writes
`benchmarks/results/short_windows.json` and the table of `docs/speed.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks import tables
from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo_lab.machine import this_machine
from whisper_hailo_lab.marks import mark_of
from whisper_hailo_lab.report.short_windows import table
from whisper_hailo_lab.score import score_file
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.weights import random_checkpoint

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "micro"
SETS = ("seen", "unseen", "noisy")
WINDOWS_S = (2.0, 4.0, 6.0, 8.0, 10.0)
FULL_S = WINDOWS_S[-1]
STEP_S = 2.0
MARGIN_S = 1.0
ROUNDS = 15
INT8 = ConvertOptions(quantize="int8", encoder_quantize="int8")


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a clip, and what is said in it."""

    name: str
    audio: FloatArray
    text: str


def cuts(window_s: float, limit: int | None) -> Iterator[Cut]:
    """The clips that are too long for the next shorter window, cut for this one.

    Args:
        window_s: the window, of which a second stays free.
        limit: of each set, only so many clips.
    """
    lines = (DATA / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    room_s = window_s - MARGIN_S
    for name in SETS:
        for entry in [e for e in entries if e["set"] == name][:limit]:
            words = [word for sentence in entry["sentences"] for word in sentence["words"]]
            heard = [word for word in words if word[2] <= room_s]
            audio = load_audio(DATA / name / f"{entry['id']}.ogg")
            is_whole = len(heard) == len(words) and audio.size <= room_s * SAMPLE_RATE_HZ
            if not is_whole:
                audio = audio[: round((heard[-1][2] if heard else 0.0) * SAMPLE_RATE_HZ)]
            if audio.size > (room_s - STEP_S) * SAMPLE_RATE_HZ and heard:
                yield Cut(f"{name}/{entry['id']}", audio, " ".join(word[0] for word in heard))


def measure_words(window_s: float, limit: int | None) -> dict[str, Any]:
    """What both windows make of the same audio, and the time that each takes."""
    options = DecodingOptions(language="en")
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        opened = [stack.enter_context(_micro(size_s)) for size_s in (window_s, FULL_S)]
        for number, cut in enumerate(cuts(window_s, limit)):
            order = (0, 1) if number % 2 else (1, 0)
            texts, took_ms = ["", ""], [0.0, 0.0]
            for which in order:
                begin = process_time()
                texts[which] = opened[which].transcribe(cut.audio, options).text
                took_ms[which] = (process_time() - begin) * 1000.0
            scores = [score_file(cut.text, text, language="en").words for text in texts]
            counts = [[s.substitutions, s.deletions, s.insertions, s.hits] for s in scores]
            rows.append({"clip": cut.name, "counts": counts, "cpu_ms": took_ms})
    return {"window_s": window_s, "clips": rows}


def _micro(window_s: float) -> Transcriber:
    return Transcriber.from_model(
        "micro", window_s=window_s, margin_s=MARGIN_S, threads=1, convert=INT8
    )


def measure_time() -> list[dict[str, Any]]:
    """Tiny's dimensions: processor time of the encoder and of everything, in turns."""
    model = str(random_checkpoint("tiny", ROOT / "build" / "speed" / "tiny"))
    options = DecodingOptions(language="en", max_new_tokens=28)
    noise = np.random.default_rng(0).standard_normal(round(FULL_S * SAMPLE_RATE_HZ))
    found: dict[float, list[tuple[float, float]]] = {size_s: [] for size_s in WINDOWS_S}
    with ExitStack() as stack:
        opened = {}
        for size_s in WINDOWS_S:
            made = Transcriber.from_model(
                model, window_s=size_s, margin_s=MARGIN_S, threads=1, convert=INT8
            )
            opened[size_s] = stack.enter_context(made)
        for number in range(1 + ROUNDS):
            for size_s, transcriber in opened.items():
                n_samples = round((size_s - MARGIN_S) * SAMPLE_RATE_HZ)
                audio = (0.1 * noise[:n_samples]).astype(np.float32)
                taken = _timed(transcriber, lambda t=transcriber, a=audio: t.transcribe(a, options))
                if number:
                    found[size_s].append(taken)
    return [
        {"window_s": size_s, "encoder_ms": [e for e, _ in times], "all_ms": [a for _, a in times]}
        for size_s, times in found.items()
    ]


def _timed(transcriber: Transcriber, work: Callable[[], object]) -> tuple[float, float]:
    """Processor milliseconds of the encoder and of everything."""
    encoder: Any = transcriber.encoder
    spent_ms: list[float] = []
    encode = encoder.encode

    def timed(mel: FloatArray) -> FloatArray:
        begin = process_time()
        features: FloatArray = encode(mel)
        spent_ms.append((process_time() - begin) * 1000.0)
        return features

    encoder.encode = timed
    try:
        begin = process_time()
        work()
        return sum(spent_ms), (process_time() - begin) * 1000.0
    finally:
        del encoder.encode


def run(limit: int | None) -> dict[str, Any]:
    """Everything."""
    words = []
    for window_s in WINDOWS_S[:-1]:
        print(f"words in {window_s:g} s", file=sys.stderr)
        words.append(measure_words(window_s, limit))
    return {
        "machine": this_machine().label,
        "weights": mark_of(tables.MICRO),
        "limit": limit,
        "words": words,
        "times": measure_time(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Windows as short as the audio.")
    parser.add_argument("--limit", type=int, help="only so many clips per set; nothing is kept")
    words = parser.parse_args()
    use_cache(ROOT / "build" / "speed-cache")
    result = run(words.limit)
    if words.limit is not None:
        print(table(result).markdown())
        return
    tables.SHORT_WINDOWS.write_text(json.dumps(result) + "\n", encoding="utf-8")
    tables.write()


if __name__ == "__main__":
    main()
