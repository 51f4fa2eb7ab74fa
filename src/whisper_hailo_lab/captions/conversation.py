"""Streams made of frozen recordings: a conversation with pauses, and somebody who reads aloud."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.clips import recordings, said, sentences_said

SNR_DB = 25.0
PAUSES_S = (0.1, 5.0)
READING_PAUSE_S = 0.3


def conversation(path: Path, minutes: float, seed: int = 0) -> Path:
    """Write a conversation, and what was said beside it: `.txt`, and `.json` with times.

    Args:
        path: of the audio, ending in `.flac`.
        minutes: it is at least that long.
        seed: the same seed makes the same samples.
    """
    rng = np.random.default_rng(seed)
    clips = recordings("seen", "unseen")

    def drawn() -> tuple[Path, float, float]:
        clip = clips[int(rng.integers(len(clips)))]
        loudness = rng.uniform(0.5, 1.0)
        return clip, loudness, float(np.exp(rng.uniform(*np.log(PAUSES_S))))

    _written(path, minutes, drawn, rng)
    return path


def reading(path: Path, minutes: float) -> Path:
    """Write somebody reading aloud, and what was read beside it.

    Recordings of several sentences follow each other in the order of their names, so that the
    pauses are those between sentences, and segments are longer than in a conversation.

    Args:
        path: of the audio, ending in `.flac`.
        minutes: it is at least that long.
    """
    sentences = cycle(recordings("long"))
    _written(
        path, minutes, lambda: (next(sentences), 1.0, READING_PAUSE_S), np.random.default_rng(0)
    )
    return path


def _written(
    path: Path,
    minutes: float,
    following: Callable[[], tuple[Path, float, float]],
    rng: np.random.Generator,
) -> None:
    """Recordings one after another, each with its loudness and the pause behind it, in noise."""
    parts: list[FloatArray] = [np.zeros(8000, np.float32)]
    texts: list[str] = []
    sentences: list[dict[str, str | float]] = []
    known = sentences_said()
    n_wanted = round(minutes * 60 * SAMPLE_RATE_HZ)
    while sum(part.size for part in parts) < n_wanted:
        clip, loudness, pause_s = following()
        begin_s = sum(part.size for part in parts) / SAMPLE_RATE_HZ
        sentences += [
            {"text": text, "start_s": begin_s + start_s, "end_s": begin_s + end_s}
            for text, start_s, end_s in known[clip]
        ]
        parts.append(load_audio(clip) * np.float32(loudness))
        texts.append(said(clip))
        parts.append(np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.float32))
    audio = np.concatenate(parts)
    level = np.sqrt(np.mean(audio[audio != 0] ** 2)) * 10 ** (-SNR_DB / 20)
    audio = audio + rng.normal(0, level, audio.size).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.clip(audio, -1, 1), SAMPLE_RATE_HZ)
    path.with_suffix(".txt").write_text(" ".join(texts) + "\n", encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(sentences), encoding="utf-8")
