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
from whisper_hailo_lab.captions.latency import Shown, Utterance, measure_latency
from whisper_hailo_lab.data.joined import PAUSE_S
from whisper_hailo_lab.data.speech import SpeechRecording, read_speech, speech_folder
from whisper_hailo_lab.score import score_file

logger = logging.getLogger(__name__)

KINDS: Final = {
    "read": ("librispeech", "ljspeech", "vctk", "fleurs"),
    "spontaneous": ("mfa_spontaneous", "earnings22", "ami"),
    "telephone": ("asterisk_en", "telephone_gsm_derived", "osr_harvard"),
    "noisy": ("noisy_mix_derived", "vctk_noisy"),
}
"""Sets of English recordings by kind of speech."""

LEVELS_DB: Final = (-32.0, -22.0)
"""Root mean square of each recording: people at one microphone, not recordings 40 dB apart."""


@dataclass(frozen=True, slots=True)
class SpokenStream:
    """Recordings of people, joined with pauses.

    Attributes:
        audio: `(n_samples,)` float32 at 16 kHz mono.
        utterances: text and times of each recording.
    """

    audio: FloatArray
    utterances: tuple[Utterance, ...]

    @property
    def text(self) -> str:
        return " ".join(utterance.text for utterance in self.utterances)

    @property
    def seconds(self) -> float:
        return self.audio.size / SAMPLE_RATE_HZ


def join_kind(
    recordings: Sequence[SpeechRecording], kind: str, most_s: float
) -> SpokenStream:
    """Join the English recordings of a kind; see `join_recordings`."""
    chosen = [
        recording
        for recording in recordings
        if recording.set in KINDS[kind] and recording.language == "en"
    ]
    return join_recordings(chosen, most_s, seed=kind)


def join_english(most_s: float) -> SpokenStream:
    """Join all English recordings; see `join_recordings`."""
    recordings = read_speech(speech_folder())
    english = [recording for recording in recordings if recording.language == "en"]
    return join_recordings(english, most_s, seed="continuous")


def join_unbroken(recordings: Sequence[SpeechRecording], language: str) -> SpokenStream:
    """Join the long recordings of a language: people who hardly pause."""
    chosen = [
        recording
        for recording in recordings
        if recording.language == language
        and recording.set in UNBROKEN
        and recording.seconds > UNBROKEN_S
    ]
    return join_recordings(chosen, MOST_S, seed=language, pause_s=(0.1, 0.2))


def join_recordings(
    recordings: Sequence[SpeechRecording],
    most_s: float,
    *,
    seed: str,
    pause_s: tuple[float, float] = PAUSE_S,
) -> SpokenStream:
    """Join recordings in a seeded order with pauses, until one would begin after `most_s`."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    order = sorted(recordings, key=lambda recording: recording.key)
    rng.shuffle(order)
    pieces = [np.zeros(SAMPLE_RATE_HZ // 2, np.float32)]
    utterances: list[Utterance] = []
    n_samples = pieces[0].size
    for recording in order:
        if n_samples >= most_s * SAMPLE_RATE_HZ:
            break
        audio = _set_level(recording.load(), rng.uniform(*LEVELS_DB))
        begin_s = n_samples / SAMPLE_RATE_HZ
        end_s = begin_s + audio.size / SAMPLE_RATE_HZ
        utterances.append(Utterance(recording.text, begin_s, end_s))
        pause = np.zeros(round(rng.uniform(*pause_s) * SAMPLE_RATE_HZ), np.float32)
        pieces += [audio, pause]
        n_samples += audio.size + pause.size
    return SpokenStream(np.concatenate(pieces), tuple(utterances))


def _set_level(audio: FloatArray, level_db: float) -> FloatArray:
    """Return the audio with another root mean square, and no sample beyond 1."""
    power = float(np.mean(np.square(audio, dtype=np.float64)))
    gain = 10 ** (level_db / 20) / max(power**0.5, 1e-9)
    levelled: FloatArray = np.clip(audio * np.float32(gain), -1, 1)
    return levelled


@dataclass(slots=True)
class CoreClock:
    """Clock of a core that does nothing but captions: processor time, and waits set forward.

    Attributes:
        times_slower: how much slower the core is than this machine.
        ahead_s: seconds that were set forward.
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
class Playback:
    """One stream through the captioner.

    Attributes:
        captioner: the captioner, which has the statistics.
        shown: everything that was shown.
        behind_s: backlog of captions at each block.
        processor_s: seconds that captions took.
        settled: texts of completed segments.
    """

    captioner: Captioner
    shown: list[Shown] = field(default_factory=list)
    behind_s: list[float] = field(default_factory=list)
    processor_s: float = 0.0
    settled: list[str] = field(default_factory=list)

    def note_event(self, event: Event, at_s: float) -> None:
        """Add what an event shows."""
        if isinstance(event, Completed):
            self.settled.append(event.text)
            self.shown.append(Shown(at_s, " ".join(self.settled), ""))
        elif isinstance(event, Partial):
            tentative = "".join(word.text for word in event.tentative)
            committed = "".join(word.text for word in event.committed)
            self.shown.append(
                Shown(at_s, " ".join([*self.settled, committed]), tentative)
            )


def play_stream(
    engine: SpeechRecognizer,
    stream: SpokenStream,
    options: CaptionOptions,
    times_slower: float = 1.0,
) -> Playback:
    """Caption a stream at the speed of speech; audio that has been waiting is one block."""
    clock = CoreClock(times_slower)
    run = Playback(Captioner(engine, make_detector(), options, clock.now))
    audio = stream.audio
    begin_s = clock.now()
    begin_cpu_s = time.thread_time()
    start = 0
    while start < audio.size:
        clock.wait_until(begin_s + (start + FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        n_played = min(audio.size, int((clock.now() - begin_s) * SAMPLE_RATE_HZ))
        end = max(start + FRAME_SAMPLES, n_played - n_played % FRAME_SAMPLES)
        # The backlog is measured at the end of the last frame.
        run.behind_s.append((end - start - FRAME_SAMPLES) / SAMPLE_RATE_HZ)
        captured_s = begin_s + end / SAMPLE_RATE_HZ
        for event in run.captioner.feed(audio[start:end], captured_s):
            run.note_event(event, clock.now() - begin_s)
        start = end
    for event in run.captioner.finish():
        run.note_event(event, clock.now() - begin_s)
    run.processor_s = time.thread_time() - begin_cpu_s
    return run


def word_error_percent(reference: str, hypothesis: str, language: str = "en") -> float:
    """Return the word error rate of normalised texts, in percent."""
    rate = score_file(reference, hypothesis, "normalised", language).words.rate
    return round(100 * rate, 2)


def figures_of(
    run: Playback, stream: SpokenStream, language: str = "en"
) -> dict[str, Any]:
    """Return the figures of one stream."""
    last = run.shown[-1]
    statistics = run.captioner.statistics
    n_words = statistics.words_in.total()
    return {
        "seconds": round(stream.seconds, 1),
        "wer": word_error_percent(
            stream.text, f"{last.settled} {last.running}", language
        ),
        **measure_latency(stream.utterances, run.shown).figures(),
        "share": round(run.processor_s / stream.seconds, 3),
        "rewritten": round(statistics.n_corrected / max(1, n_words), 3),
        "behind_s": round(max(run.behind_s), 2),
        "settle_s_median": round(float(np.median(statistics.settle_s)), 2),
        "settle_s_p95": round(float(np.percentile(statistics.settle_s, 95)), 2),
        "skipped_partials": statistics.n_skipped,
        "partials": statistics.n_partials,
        "words": n_words,
    }


MODELS: Final = ("base", "tiny.en")
MOST_S: Final = 150.0
"""Seconds of each kind of speech."""

ENCODERS: Final = {"30 s": None, "10 s": 10.0}
"""Windows of an encoder on the CPU, and on a chip."""


@contextmanager
def caption_engine(
    model: str, window_s: float | None = None, language: str = "en"
) -> Iterator[tuple[Transcriber, WhisperRecognizer]]:
    """Yield the engine of `whisper-hailo caption --language ...` on one thread, warm."""
    with Transcriber.from_model(model, window_s=window_s, threads=1) as transcriber:
        options = caption_defaults(transcriber.default_anti_repetition)
        engine = WhisperRecognizer(transcriber, replace(options, language=language))
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
                    offline_wer = word_error_percent(stream.text, whole)
                    rows.append(about | {"policy": "offline", "wer": offline_wer})
                    run = play_stream(engine, stream, CaptionOptions())
                    rows.append(
                        about | {"policy": "agreement", **figures_of(run, stream)}
                    )
                    logger.info("%s", rows[-1])
    return {"models": list(MODELS), "rows": rows}


UNBROKEN: Final = ("earnings22", "fleurs", "long_form", "mfa_spontaneous")
UNBROKEN_S: Final = 18.0
"""Shorter recordings are single sentences."""

UNBROKEN_RUNS: Final = (("base", "en"), ("base", "de"), ("tiny.en", "en"))


def caption_unbroken() -> dict[str, Any]:
    """Caption people who hardly pause, beside transcripts of the whole recordings."""
    recordings = read_speech(speech_folder())
    rows = []
    for model, language in UNBROKEN_RUNS:
        stream = join_unbroken(recordings, language)
        with caption_engine(model, language=language) as (transcriber, engine):
            whole = transcriber.transcribe(stream.audio, language=language).text
            run = play_stream(engine, stream, CaptionOptions())
        whole_wer = word_error_percent(stream.text, whole, language)
        row = {
            "model": model,
            "language": language,
            "whole_wer": whole_wer,
            **figures_of(run, stream, language),
        }
        rows.append(row)
        logger.info("%s", row)
    return {"models": ["base", "tiny.en"], "rows": rows}


CONTINUOUS_S: Final = 1800.0
SLOWER: Final = {"base": (1.0, 4.0), "tiny.en": (1.0,)}
"""Cores by model, as how much slower than this machine they are."""


def caption_continuously() -> dict[str, Any]:
    """Caption half an hour of speech of all kinds, on this core and on slower ones."""
    stream = join_english(CONTINUOUS_S)
    rows = []
    for model, cores in SLOWER.items():
        with caption_engine(model) as (_, engine):
            for times_slower in cores:
                run = play_stream(engine, stream, CaptionOptions(), times_slower)
                figures = figures_of(run, stream)
                rows.append({"model": model, "times_slower": times_slower, **figures})
                logger.info("%s", rows[-1])
    return {"models": list(SLOWER), "rows": rows}
