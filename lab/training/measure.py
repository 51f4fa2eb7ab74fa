"""Every figure of a checkpoint on the frozen test sets.

    python -m lab.training.measure CHECKPOINT tests/data/micro --out lab/training/results/micro.json

Plain greedy decoding in float32 by torch, so that the figures are the model's own. Word error
rates come with a bootstrap interval over clips. A segment time is right when the nearest time of
its kind that the model wrote is within `TOLERANCE_S`.
"""

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from tokenizers import Tokenizer

from lab.training import whisper_vocabulary as ids
from lab.training.checkpoint import load_checkpoint, trimmed
from lab.training.evaluate import Recognizer
from lab.training.targets import Task
from whisper_hailo_lab.clip_archives import read_manifest, unpack_clips
from whisper_hailo_lab.score import score_texts

TOLERANCE_S = 0.2
SPOKEN = ("seen", "unseen", "noisy", "german")
NO_SPEECH_THRESHOLD = 0.6


@dataclass(frozen=True, slots=True)
class Clips:
    """One frozen set: `(n_samples,)` float32 audio and the manifest's entries, in order."""

    audio: list[np.ndarray]
    entries: list[dict[str, Any]]

    @property
    def task(self) -> Task:
        """Plain transcription in the set's language."""
        return Task(self.entries[0]["language"] or "en")


def read_sets(folder: Path, limit: int | None = None) -> dict[str, Clips]:
    """Reads all frozen sets, at most `limit` clips of each."""
    sets: dict[str, Clips] = {}
    unpacked = unpack_clips(folder)
    for entry in read_manifest(folder):
        clips = sets.setdefault(entry["set"], Clips([], []))
        if limit is None or len(clips.entries) < limit:
            path = unpacked / entry["set"] / f"{entry['id']}.ogg"
            clips.audio.append(soundfile.read(path, dtype="float32")[0])
            clips.entries.append(entry)
    return sets


def text_figures(
    references: list[str], hypotheses: list[str], language: str
) -> dict[str, Any]:
    """Returns the word error rate in per cent with its interval and counts."""
    scored = score_texts(zip(references, hypotheses, strict=True), language=language)
    low, high = scored.wer_interval()
    words = scored.words
    return {
        "clips": len(references),
        "words": words.reference_count,
        "wer": round(100 * words.rate, 2),
        "interval": [round(100 * low, 1), round(100 * high, 1)],
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
    }


def transcription(recognizer: Recognizer, clips: Clips) -> dict[str, Any]:
    """Returns the figures of plain transcription."""
    texts = recognizer.texts(clips.audio, clips.task)
    return text_figures([e["text"] for e in clips.entries], texts, clips.task.language)


def translation(recognizer: Recognizer, clips: Clips) -> dict[str, Any]:
    """Returns the figures of translation into English."""
    texts = recognizer.texts(clips.audio, Task(clips.task.language, translate=True))
    return text_figures([e["translation"] for e in clips.entries], texts, "en")


def boundaries(tokens: list[int]) -> tuple[list[float], list[float]]:
    """Returns starts and ends in seconds among a text's tokens: they come in turns."""
    steps = [
        token - ids.FIRST_TIMESTAMP for token in tokens if token >= ids.FIRST_TIMESTAMP
    ]
    times = [step * ids.TIMESTAMP_STEP_S for step in steps]
    return times[0::2], times[1::2]


def segment_times(recognizer: Recognizer, sets: list[Clips]) -> dict[str, Any]:
    """Returns how many true starts and ends have one of the model's nearby."""
    total = within = same_number = n_clips = 0
    for clips in sets:
        task = Task(clips.task.language, timestamps=True)
        lines, _ = recognizer.tokens(clips.audio, task)
        for line, entry in zip(lines, clips.entries, strict=True):
            starts, ends = boundaries(line)
            sentences = entry["sentences"]
            n_clips += 1
            same_number += len(starts) == len(sentences)
            for sentence in sentences:
                for found, true_s in (
                    (starts, sentence["start_s"]),
                    (ends, sentence["end_s"]),
                ):
                    total += 1
                    within += any(
                        abs(time_s - true_s) <= TOLERANCE_S for time_s in found
                    )
    return {
        "boundaries": total,
        "within": within,
        "share": round(100 * within / total, 1),
        "clips": n_clips,
        "same_number_of_segments": same_number,
    }


def detection(recognizer: Recognizer, sets: list[Clips]) -> dict[str, Any]:
    """Returns how often the language is told."""
    correct = total = 0
    for clips in sets:
        codes = recognizer.languages(clips.audio)
        correct += sum(code == clips.task.language for code in codes)
        total += len(codes)
    return {
        "clips": total,
        "correct": correct,
        "share": round(100 * correct / total, 1),
    }


def silence(recognizer: Recognizer, clips: Clips) -> dict[str, Any]:
    """Returns how many clips without speech give text, and how many are called silent."""
    lines, no_speech = recognizer.tokens(clips.audio, Task())
    return {
        "clips": len(lines),
        "with_text": sum(
            bool(recognizer.tokenizer.decode(line).strip()) for line in lines
        ),
        "called_silent": sum(p > NO_SPEECH_THRESHOLD for p in no_speech),
    }


def figures(recognizer: Recognizer, sets: dict[str, Clips]) -> dict[str, Any]:
    """Returns all figures at one window."""
    spoken = [sets[name] for name in SPOKEN]
    report: dict[str, Any] = {
        name: transcription(recognizer, sets[name]) for name in SPOKEN
    }
    if recognizer.window_s >= 30:
        report["long"] = transcription(recognizer, sets["long"])
    report["phrases"] = transcription(recognizer, sets["phrases"])
    report["translation"] = translation(recognizer, sets["phrases"])
    report["silence"] = silence(recognizer, sets["silence"])
    report["segment_times"] = segment_times(recognizer, spoken)
    report["language_detection"] = detection(recognizer, [*spoken, sets["phrases"]])
    return report


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description="All figures of a checkpoint.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("sets", type=Path, help="folder of the frozen test sets")
    parser.add_argument(
        "--windows", type=float, nargs="+", default=[10.0, 30.0], help="seconds"
    )
    parser.add_argument("--limit", type=int, help="clips of each set")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, kept = trimmed(*load_checkpoint(options.checkpoint))
    tokenizer = Tokenizer.from_file(str(options.checkpoint / "tokenizer.json"))
    sets = read_sets(options.sets, options.limit)
    weights = (options.checkpoint / "model.safetensors").read_bytes()
    report: dict[str, Any] = {
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "windows": {},
    }
    for window_s in options.windows:
        recognizer = Recognizer(model, kept, tokenizer, window_s)
        report["windows"][f"{window_s:g}"] = figures(recognizer, sets)
    text = json.dumps(report, indent=1) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
