"""A conversation made of frozen clips: voices take turns, pauses from 0.1 to 5 s, noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

DATA = Path(__file__).parents[2] / "tests" / "data" / "micro"
SNR_DB = 25.0
PAUSES_S = (0.1, 5.0)


def conversation(path: Path, minutes: float, seed: int = 0) -> Path:
    """Write a conversation, and what was said beside it.

    Args:
        path: of the audio, ending in `.flac`.
        minutes: it is at least that long.
        seed: the same seed makes the same samples.
    """
    rng = np.random.default_rng(seed)
    clips = sorted(clip for name in ("seen", "unseen") for clip in (DATA / name).glob("*.ogg"))
    parts: list[FloatArray] = [np.zeros(8000, np.float32)]
    texts: list[str] = []
    n_wanted = round(minutes * 60 * SAMPLE_RATE_HZ)
    while sum(part.size for part in parts) < n_wanted:
        clip = clips[int(rng.integers(len(clips)))]
        parts.append(load_audio(clip) * np.float32(rng.uniform(0.5, 1.0)))
        texts.append(clip.with_suffix(".txt").read_text(encoding="utf-8").strip())
        pause_s = float(np.exp(rng.uniform(*np.log(PAUSES_S))))
        parts.append(np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.float32))
    audio = np.concatenate(parts)
    level = np.sqrt(np.mean(audio[audio != 0] ** 2)) * 10 ** (-SNR_DB / 20)
    audio = audio + rng.normal(0, level, audio.size).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.clip(audio, -1, 1), SAMPLE_RATE_HZ)
    path.with_suffix(".txt").write_text(" ".join(texts) + "\n", encoding="utf-8")
    return path
