"""One stream through the captioner in real time, and what was heard of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from whisper_hailo import Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import WhisperRecognizer, warm_up
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo_lab.captions.engines import CommonSetup, engine_of
from whisper_hailo_lab.captions.event_checks import violations
from whisper_hailo_lab.data.clips import recordings, said, sentences_said
from whisper_hailo_lab.score import score_file

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


@contextmanager
def warm_engine(model: str, threads: int) -> Iterator[WhisperRecognizer]:
    """The engine of `whisper-hailo caption`, warm."""
    with ExitStack() as stack:
        engine = engine_of(CommonSetup(model, threads=threads), "none", stack)
        warm_up(engine)
        yield engine


def percent_wrong(reference: str, hypothesis: str) -> float:
    """Word error rate of normalised English texts, in percent."""
    rate = score_file(reference, hypothesis, "normalised", "en").words.rate
    return round(100 * rate, 2)


def text_of(events: list[Event]) -> str:
    """All completed segments as one text."""
    return " ".join(e.text for e in events if isinstance(e, Completed) and e.text)


def captioned(path: Path, model: str, options: CaptionOptions) -> str:
    """What captions hear in a recording, as fast as it goes."""
    with warm_engine(model, 1) as engine, FileSource(path) as source:
        captioner = Captioner(engine, make_detector(), options)
        return text_of(list(CaptionStream(source, captioner).events()))


def real_time(path: Path, model: str, threads: int) -> dict[str, Any]:
    """The recording at the speed of speech, and its offline transcription for comparison."""
    with warm_engine(model, threads) as engine:
        captioner = Captioner(engine, make_detector())
        begin_s, cpu_s = time.perf_counter(), time.process_time()
        with FileSource(path, real_time=True) as source:
            events = list(CaptionStream(source, captioner).events())
        wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - cpu_s
    figures = captioner.statistics.as_json()  # its memory is that of captions alone
    with Transcriber.from_model(
        model, convert=ConvertOptions("none"), threads=threads
    ) as transcriber:
        offline = {
            strategy: transcriber.transcribe(
                path, DecodingOptions(language="en"), long=LongOptions(strategy=strategy)
            ).text
            for strategy in ("auto", "vad")
        }
    live, reference = text_of(events), said(path)
    return {
        "wer_live": percent_wrong(reference, live),
        "wer_offline": percent_wrong(reference, offline["auto"]),
        "wer_offline_vad": percent_wrong(reference, offline["vad"]),
        "violations": list(violations(events)),
        "wall_s": round(wall_s, 1),
        "cpu_share": round(cpu_s / wall_s, 3),
        "reasons": {
            reason: sum(isinstance(e, Completed) and e.reason == reason for e in events)
            for reason in ("silence", "length", "end")
        },
        **figures,
    }
