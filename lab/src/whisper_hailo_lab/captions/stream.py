"""A synthetic conversation, the engine that captions it, and its word error rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import soundfile

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import WhisperRecognizer, warm_up
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo_lab.captions.engines import CommonSetup, open_engine
from whisper_hailo_lab.data.clips import find_clips, text_beside
from whisper_hailo_lab.score import score_file

SNR_DB: Final = 25.0
PAUSES_S: Final = (0.1, 5.0)
LOUDNESS: Final = (0.5, 1.0)


def write_conversation(path: Path, minutes: float, seed: int = 0) -> Path:
    """Write a conversation in noise, and its words beside it as `.txt`.

    Args:
        path: audio file, ending in `.flac`.
        minutes: least length.
        seed: the same seed makes the same samples.
    """
    rng = np.random.default_rng(seed)
    clips = find_clips("seen", "unseen")
    parts: list[FloatArray] = [np.zeros(SAMPLE_RATE_HZ // 2, np.float32)]
    texts: list[str] = []
    n_samples = parts[0].size
    while n_samples < minutes * 60 * SAMPLE_RATE_HZ:
        index = int(rng.integers(len(clips)))
        clip = clips[index]
        gain = np.float32(rng.uniform(*LOUDNESS))
        speech = load_audio(clip) * gain
        # Short pauses are more frequent: their logarithms are uniform.
        log_s = rng.uniform(*np.log(PAUSES_S))
        pause_s = float(np.exp(log_s))
        pause = np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.float32)
        parts += [speech, pause]
        n_samples += speech.size + pause.size
        texts.append(text_beside(clip))
    audio = np.concatenate(parts)
    speech_level = np.sqrt(np.mean(audio[audio != 0] ** 2))
    noise_level = speech_level * 10 ** (-SNR_DB / 20)
    noise = rng.normal(0, noise_level, audio.size)
    audio = audio + noise.astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.clip(audio, -1, 1), SAMPLE_RATE_HZ)
    path.with_suffix(".txt").write_text(" ".join(texts) + "\n", encoding="utf-8")
    return path


@contextmanager
def warm_engine(model: str) -> Iterator[WhisperRecognizer]:
    """Yield the float32 engine of `whisper-hailo caption` on one thread, warm."""
    with ExitStack() as stack:
        engine = open_engine(CommonSetup(model), "none", stack)
        warm_up(engine)
        yield engine


def word_error_percent(reference: str, hypothesis: str) -> float:
    """Return the word error rate of normalised English texts, in percent."""
    rate = score_file(reference, hypothesis, "normalised", "en").words.rate
    return round(100 * rate, 2)


def completed_text(events: list[Event]) -> str:
    """Return all completed segments as one text."""
    completed = (event for event in events if isinstance(event, Completed))
    return " ".join(event.text for event in completed if event.text)


def caption_file(path: Path, model: str, options: CaptionOptions) -> str:
    """Return the captions of a recording, computed as fast as possible."""
    with warm_engine(model) as engine, FileSource(path) as source:
        captioner = Captioner(engine, make_detector(), options)
        return completed_text(list(CaptionStream(source, captioner).events()))
