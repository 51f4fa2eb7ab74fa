"""Speaks a plan sentence by sentence, with pauses, and keeps the time of each sentence and word."""

from dataclasses import dataclass
from random import Random

import numpy as np
import soxr

from lab.training.engines import Engine, Sound, Word
from lab.training.speech import PEAK, SAMPLE_RATE_HZ, edges
from lab.training.text.plans import Plan
from lab.training.voices import Voice

EDGE_S = 0.03
"""Silence kept at either end of an utterance, as in `speech.speak`."""
PAUSES_S = (0.12, 1.1)
"""Shortest and longest pause between the sentences of an utterance."""


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """One sentence with its times, in seconds from the start of the utterance.

    Attributes:
        text: what is said.
        start_s: where its sound starts.
        end_s: where its sound ends.
        words: its words with times; none if the engine gave none.
    """

    text: str
    start_s: float
    end_s: float
    words: tuple[Word, ...]


def speak_sentence(
    engine: Engine, text: str, voice: Voice
) -> tuple[np.ndarray, tuple[Word, ...]]:
    """Speaks one sentence.

    Returns:
        `(n_samples,)` float32 at 16 kHz of peak 0.8 with nothing silent at its ends, and its
        words with times in seconds from its first sample.

    Raises:
        ValueError: the engine gave silence.
    """
    sound: Sound = engine.speak(text, voice)
    # Declaring another source rate than the true one warps speed and pitch together.
    samples = sound.samples.astype(np.float32) / 32768
    audio = soxr.resample(samples, sound.rate_hz * voice.warp, SAMPLE_RATE_HZ)
    peak = float(np.abs(audio).max(initial=0.0))
    if peak == 0.0:
        raise ValueError(f"{voice} gave silence for {text!r}; is the voice installed?")
    audio = audio * (PEAK / peak)
    first, last = edges(audio)
    audio = np.asarray(audio[first:last], np.float32)
    length_s = audio.size / SAMPLE_RATE_HZ
    cut_s = first / SAMPLE_RATE_HZ
    times = [
        [
            min(max(0.0, t / voice.warp - cut_s), length_s)
            for t in (word.start_s, word.end_s)
        ]
        for word in sound.words
    ]
    words = (
        Word(word.text, *pair) for word, pair in zip(sound.words, times, strict=True)
    )
    return audio, tuple(words)


def speak_plan(
    engine: Engine, plan: Plan, voice: Voice, rng: Random
) -> tuple[np.ndarray, list[SpokenSentence]]:
    """Speaks all sentences of a plan with one voice.

    Returns:
        `(n_samples,)` int16 at 16 kHz with `EDGE_S` of silence at both ends, and the sentences.
    """
    edge = round(EDGE_S * SAMPLE_RATE_HZ)
    parts, sentences, at = [np.zeros(edge, np.float32)], [], edge
    for number, text in enumerate(plan.sentences):
        if number:
            pause = int(rng.uniform(*PAUSES_S) * SAMPLE_RATE_HZ)
            parts.append(np.zeros(pause, np.float32))
            at += pause
        audio, heard = speak_sentence(engine, text, voice)
        start_s = at / SAMPLE_RATE_HZ
        words = tuple(
            Word(w.text, w.start_s + start_s, w.end_s + start_s) for w in heard
        )
        at += audio.size
        parts.append(audio)
        sentences.append(SpokenSentence(text, start_s, at / SAMPLE_RATE_HZ, words))
    parts.append(np.zeros(edge, np.float32))
    return (np.concatenate(parts) * 32767).astype(np.int16), sentences
