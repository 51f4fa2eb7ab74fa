"""Captions of joined recordings of people with real checkpoints, by the clock of a free core."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.audio.vad import FRAME_SAMPLES, make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import (
    SpeechRecognizer,
    WhisperRecognizer,
    caption_defaults,
    warm_up,
)
from whisper_hailo_lab.captions.beside.programs import Shown, Utterance, latency
from whisper_hailo_lab.captions.stream import percent_wrong
from whisper_hailo_lab.data.joined import PAUSE_S
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder

logger = logging.getLogger(__name__)

KINDS: Final = {
    "read": ("librispeech", "ljspeech", "vctk", "fleurs"),
    "spontaneous": ("mfa_spontaneous", "earnings22", "ami"),
    "telephone": ("asterisk_en", "telephone_gsm_derived", "osr_harvard"),
    "noisy": ("noisy_mix_derived", "vctk_noisy"),
}
"""Sets of English recordings of each kind of speech."""

LEVELS_DB: Final = (-32.0, -22.0)
"""Root mean square of each recording: people at one microphone, not recordings 40 dB apart."""


@dataclass(frozen=True, slots=True)
class SpokenStream:
    """Recordings of people, joined with pauses.

    Attributes:
        audio: `(n_samples,)` float32 at 16 kHz mono.
        utterances: each recording's text, with its times.
    """

    audio: FloatArray
    utterances: tuple[Utterance, ...]

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    @property
    def seconds(self) -> float:
        return self.audio.size / SAMPLE_RATE_HZ


def join_kind(recordings: Sequence[SpeechRecording], kind: str, most_s: float) -> SpokenStream:
    """Join the recordings of a kind in a seeded order, with pauses of `PAUSE_S`.

    Args:
        recordings: all of them.
        kind: of `KINDS`.
        most_s: seconds after which no recording begins.
    """
    own = [r for r in recordings if r.set in KINDS[kind] and r.language == "en"]
    return join_recordings(own, most_s, seed=kind)


def join_recordings(
    recordings: Sequence[SpeechRecording], most_s: float, *, seed: str
) -> SpokenStream:
    """Join recordings in a seeded order, with pauses, until one would begin behind `most_s`."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    order = sorted(recordings, key=lambda recording: recording.key)
    rng.shuffle(order)
    pieces, utterances = [np.zeros(SAMPLE_RATE_HZ // 2, np.float32)], list[Utterance]()
    n_samples = pieces[0].size
    for recording in order:
        if n_samples >= most_s * SAMPLE_RATE_HZ:
            break
        audio = _at_level(recording.load(), rng.uniform(*LEVELS_DB))
        begin_s = n_samples / SAMPLE_RATE_HZ
        end_s = begin_s + audio.size / SAMPLE_RATE_HZ
        utterances.append(Utterance(recording.text, begin_s, end_s))
        pause = np.zeros(round(rng.uniform(*PAUSE_S) * SAMPLE_RATE_HZ), np.float32)
        pieces += [audio, pause]
        n_samples += audio.size + pause.size
    return SpokenStream(np.concatenate(pieces), tuple(utterances))


def join_english(most_s: float) -> SpokenStream:
    """Join all English recordings; see `join_recordings`."""
    english = [r for r in read_speech(speech_folder()) if r.language == "en"]
    return join_recordings(english, most_s, seed="continuous")


def _at_level(audio: FloatArray, level_db: float) -> FloatArray:
    """Return the audio with another root mean square, and no sample beyond 1."""
    power = float(np.mean(np.square(audio, dtype=np.float64)))
    gain = 10 ** (level_db / 20) / max(power**0.5, 1e-9)
    levelled: FloatArray = np.clip(audio * np.float32(gain), -1, 1)
    return levelled


@dataclass(slots=True)
class CoreClock:
    """Time on a core that does nothing but captions: processor time, and waiting set forward.

    Attributes:
        times_slower: than this machine the core is.
    """

    times_slower: float = 1.0
    ahead_s: float = 0.0

    def now(self) -> float:
        """Return seconds."""
        return self.ahead_s + self.times_slower * time.thread_time()

    def wait_until(self, moment_s: float) -> None:
        """Let the time until a moment pass."""
        self.ahead_s += max(0.0, moment_s - self.now())


@dataclass(slots=True)
class Play:
    """One stream through the captioner.

    Attributes:
        captioner: with its statistics.
        shown: all that was shown.
        behind_s: how far captions were behind at each block.
        processor_s: seconds that captions took.
    """

    captioner: Captioner
    shown: list[Shown] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)
    processor_s: float = 0.0


def play(
    engine: SpeechRecognizer,
    stream: SpokenStream,
    options: CaptionOptions,
    times_slower: float = 1.0,
) -> Play:
    """Caption a stream at the speed of speech; what waits is taken as one block."""
    clock = CoreClock(times_slower)
    run = Play(Captioner(engine, make_detector(), options, clock.now))
    settled: list[str] = []
    begin_s, begin_cpu_s, at = clock.now(), time.thread_time(), 0
    audio = stream.audio
    while at < audio.size:
        clock.wait_until(begin_s + (at + FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        n_come = min(audio.size, int((clock.now() - begin_s) * SAMPLE_RATE_HZ))
        n_come = max(at + FRAME_SAMPLES, n_come - n_come % FRAME_SAMPLES)
        # As at the end of its last frame; it waits while the captioner computes.
        run.behind_s.append((n_come - at - FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        captured_s = begin_s + n_come / SAMPLE_RATE_HZ
        for event in run.captioner.feed(audio[at:n_come], captured_s):
            run.shown += _shown(event, settled, clock.now() - begin_s)
        at = n_come
    for event in run.captioner.finish():
        run.shown += _shown(event, settled, clock.now() - begin_s)
    run.processor_s = time.thread_time() - begin_cpu_s
    return run


def _shown(event: Event, settled: list[str], at_s: float) -> Iterator[Shown]:
    if isinstance(event, Completed):
        settled.append(event.text)
        yield Shown(at_s, " ".join(settled), "")
    elif isinstance(event, Partial):
        tentative = "".join(word.text for word in event.tentative)
        committed = "".join(word.text for word in event.committed)
        yield Shown(at_s, " ".join([*settled, committed]), tentative)


def figures_of(run: Play, stream: SpokenStream) -> dict[str, Any]:
    """Return the figures of one stream."""
    last = run.shown[-1]
    statistics = run.captioner.statistics
    return {
        "seconds": round(stream.seconds, 1),
        "wer": percent_wrong(stream.text, f"{last.settled} {last.running}"),
        **latency(stream.utterances, run.shown).figures(),
        "share": round(run.processor_s / stream.seconds, 3),
        "rewritten": round(statistics.n_corrected / max(1, statistics.words_in.total()), 3),
        "behind_s": round(max(run.behind_s), 2),
        "skipped_partials": statistics.n_skipped,
        "partials": statistics.n_partials,
        "words": statistics.words_in.total(),
    }


MODELS: Final = ("base", "tiny.en")
MOST_S: Final = 150.0
"""Of each kind of speech."""

ENCODERS: Final = {
    "30 s": None,
    "10 s": 10.0,
}
"""The windows of an encoder on the CPU, and on a chip."""


@contextmanager
def caption_engine(
    model: str, window_s: float | None = None
) -> Iterator[tuple[Transcriber, WhisperRecognizer]]:
    """Yield the engine of `whisper-hailo caption --language en` on one thread, warm."""
    with Transcriber.from_model(model, window_s=window_s, threads=1) as transcriber:
        options = caption_defaults(transcriber.default_anti_repetition)
        engine = WhisperRecognizer(transcriber, replace(options, language="en"))
        warm_up(engine)
        yield transcriber, engine


def compare_policies() -> dict[str, Any]:
    """Caption all kinds of speech with both models and encoders."""
    recordings = read_speech(speech_folder())
    streams = {kind: join_kind(recordings, kind, MOST_S) for kind in KINDS}
    rows = []
    for model in MODELS:
        for encoder, window_s in ENCODERS.items():
            with caption_engine(model, window_s) as (transcriber, engine):
                for kind, stream in streams.items():
                    about = {"model": model, "encoder": encoder, "speech": kind}
                    whole = transcriber.transcribe(stream.audio, language="en").text
                    rows.append(
                        about | {"policy": "offline", "wer": percent_wrong(stream.text, whole)}
                    )
                    run = play(engine, stream, CaptionOptions())
                    rows.append(about | {"policy": "agreement", **figures_of(run, stream)})
                    logger.info("%s", rows[-1])
    return {"models": list(MODELS), "rows": rows}


CONTINUOUS_S: Final = 1800.0
SLOWER: Final = {"base": (1.0, 4.0), "tiny.en": (1.0,)}
"""How much slower than this machine the core is, of each model."""


def caption_continuously() -> dict[str, Any]:
    """Caption half an hour of speech of all kinds, on this core and on slower ones."""
    stream = join_english(CONTINUOUS_S)
    rows = []
    for model, all_slower in SLOWER.items():
        with caption_engine(model) as (_, engine):
            for slower in all_slower:
                run = play(engine, stream, CaptionOptions(), slower)
                figures = figures_of(run, stream)
                rows.append({"model": model, "times_slower": slower, **figures})
                logger.info("%s", rows[-1])
    return {"models": list(SLOWER), "rows": rows}
