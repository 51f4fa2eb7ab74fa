"""Conversations made of utterances, and the turns that are known from how they were made."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.speakers.voices import Utterance, Voice

PAUSE_S: Final = (0.1, 0.8)
OVERLAP_S: Final = (0.2, 1.0)
OVERLAP_SHARE: Final = 0.2
"""Of the changes between two people, with both of them speaking for a moment."""
_STAYS_SHARE: Final = 0.25
"""Of the turns, after which the same person goes on."""
_LEVEL_DB: Final = (-32.0, -22.0)
"""Mean power of a person's speech: some sit closer to the microphone."""
_NOISE_DB: Final = (-30.0, -12.0)
"""Room noise relative to the speech."""
_REVERBERATION_S: Final = (0.15, 0.4)
_DIRECT_SHARE: Final = 0.75
"""Of the power that arrives without a reflection, in rooms with reverberation."""
_LEAD_S: Final = 0.5
"""Room noise before the first and after the last word."""


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """What a conversation is made of.

    Attributes:
        seed: the same plan and seed give the same samples.
        seconds: about how long it is.
    """

    n_speakers: int
    seconds: float
    seed: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recording and who speaks in it.

    Attributes:
        audio: `(n_samples,)` float32 at 16 kHz mono.
        turns: in order of time; two may overlap.
    """

    name: str
    audio: FloatArray
    turns: tuple[Turn, ...]


def make_conversation(
    voices: Sequence[Voice], noises: Sequence[FloatArray], plan: ConversationPlan
) -> Conversation:
    """Return a conversation of people who are chosen by the plan's seed.

    Args:
        voices: people to choose from.
        noises: recorded room noise, `(n_samples,)` each.
        plan: how many of them speak, and how long.
    """
    rng = random.Random(plan.seed)  # noqa: S311 - no secret
    people = rng.sample(list(voices), plan.n_speakers)
    order = _speaking_order(people, plan, rng)
    room_s = rng.uniform(*_REVERBERATION_S) if rng.random() < 0.5 else 0.0
    rooms = {voice.name: _impulse_response(room_s, rng) for voice in people}
    gains = {voice.name: rng.uniform(*_LEVEL_DB) for voice in people}
    audio = np.zeros(round(_LEAD_S * SAMPLE_RATE_HZ), np.float32)
    turns: list[Turn] = []
    end = audio.size
    previous = ""
    for name, utterance in order:
        start = end + _gap_samples(previous, name, utterance, rng)
        spoken = _place_in_room(_set_level(utterance.audio, gains[name]), rooms[name])
        audio = _mix_at(audio, spoken, start)
        for begin, finish in utterance.speech:
            turns.append(
                Turn(
                    (start + begin) / SAMPLE_RATE_HZ,
                    (start + finish) / SAMPLE_RATE_HZ,
                    name,
                )
            )
        end = start + utterance.audio.size
        previous = name
    audio = np.pad(audio, (0, round(_LEAD_S * SAMPLE_RATE_HZ)))
    audio = audio + _room_noise(audio, noises, rng)
    peak = float(np.abs(audio).max())
    if peak > 1:
        audio = audio / peak
    turns.sort(key=lambda turn: (turn.start_s, turn.end_s))
    return Conversation(plan.seed, audio.astype(np.float32), tuple(turns))


def _speaking_order(
    people: Sequence[Voice], plan: ConversationPlan, rng: random.Random
) -> list[tuple[str, Utterance]]:
    """Return who says what, until the time is over or nobody has anything left to say."""
    left: dict[str, list[Utterance]] = {}
    for voice in people:
        utterances = list(voice.utterances)
        rng.shuffle(utterances)
        left[voice.name] = utterances
    # Some people talk more than others.
    weights = {voice.name: rng.uniform(0.5, 2.0) for voice in people}
    order: list[tuple[str, Utterance]] = []
    seconds = 0.0
    # Everybody speaks once in the first rounds, else the number of speakers would be a guess.
    names = [voice.name for voice in people]
    rng.shuffle(names)
    opening = names * 2
    previous = ""
    while seconds < plan.seconds:
        candidates = [name for name in left if left[name]]
        others = [name for name in candidates if name != previous]
        if not candidates:
            break
        if opening:
            name = opening.pop()
        elif others and (previous not in candidates or rng.random() > _STAYS_SHARE):
            name = rng.choices(others, [weights[item] for item in others])[0]
        else:
            name = previous if previous in candidates else candidates[0]
        if not left[name]:
            continue
        utterance = left[name].pop()
        order.append((name, utterance))
        seconds += utterance.audio.size / SAMPLE_RATE_HZ
        previous = name
    return order


def _gap_samples(
    previous: str, name: str, utterance: Utterance, rng: random.Random
) -> int:
    """Return the samples between two turns, below zero where they overlap."""
    overlaps = rng.random() < OVERLAP_SHARE
    if previous and previous != name and overlaps:
        longest = utterance.audio.size // 2
        return -min(longest, round(rng.uniform(*OVERLAP_S) * SAMPLE_RATE_HZ))
    return round(rng.uniform(*PAUSE_S) * SAMPLE_RATE_HZ)


def _set_level(audio: FloatArray, level_db: float) -> FloatArray:
    power = float(np.mean(audio.astype(np.float64) ** 2)) + 1e-12
    scaled: FloatArray = (audio * np.sqrt(10 ** (level_db / 10) / power)).astype(
        np.float32
    )
    return scaled


def _impulse_response(room_s: float, rng: random.Random) -> FloatArray:
    """Return a direct sound followed by decaying noise; 60 dB down after `room_s`."""
    if not room_s:
        return np.ones(1, np.float32)
    noise = np.random.default_rng(rng.getrandbits(32))
    n_samples = round(room_s * SAMPLE_RATE_HZ)
    decay = 10 ** (-3 * np.arange(n_samples) / n_samples)
    tail = noise.normal(size=n_samples) * decay
    tail[: SAMPLE_RATE_HZ // 200] = 0
    tail *= np.sqrt((1 - _DIRECT_SHARE) / _DIRECT_SHARE / float(np.sum(tail**2)))
    tail[0] = 1
    response: FloatArray = tail.astype(np.float32)
    return response


def _place_in_room(audio: FloatArray, response: FloatArray) -> FloatArray:
    if response.size == 1:
        return audio
    size = audio.size + response.size - 1
    n_fft = 1 << (size - 1).bit_length()
    spectrum = np.fft.rfft(audio, n_fft) * np.fft.rfft(response, n_fft)
    heard: FloatArray = np.fft.irfft(spectrum, n_fft)[:size].astype(np.float32)
    return heard


def _mix_at(audio: FloatArray, spoken: FloatArray, start: int) -> FloatArray:
    missing = start + spoken.size - audio.size
    if missing > 0:
        audio = np.pad(audio, (0, missing))
    audio[start : start + spoken.size] += spoken
    return audio


def _room_noise(
    audio: FloatArray, noises: Sequence[FloatArray], rng: random.Random
) -> FloatArray:
    """Return recorded or pink noise as long as the audio."""
    generator = np.random.default_rng(rng.getrandbits(32))
    if rng.random() < 0.5:
        noise = rng.choice(list(noises))
        repeats = audio.size // noise.size + 1
        noise = np.tile(noise, repeats)[: audio.size]
    else:
        spectrum = np.fft.rfft(generator.normal(size=audio.size))
        spectrum /= np.sqrt(np.arange(1, spectrum.size + 1))
        noise = np.fft.irfft(spectrum, audio.size).astype(np.float32)
    speech_db = 10 * np.log10(float(np.mean(audio.astype(np.float64) ** 2)) + 1e-12)
    return _set_level(noise.astype(np.float32), speech_db + rng.uniform(*_NOISE_DB))


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of speech of one person."""

    start_s: float
    end_s: float
    speaker: str


def read_rttm(text: str) -> dict[str, list[Turn]]:
    """Return the turns of each recording of a file in NIST's format."""
    turns: dict[str, list[Turn]] = defaultdict(list)
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        start_s = float(fields[3])
        turns[fields[1]].append(Turn(start_s, start_s + float(fields[4]), fields[7]))
    return turns


def write_rttm(name: str, turns: Iterable[Turn]) -> str:
    """Return turns in NIST's format."""
    lines = [
        f"SPEAKER {name} 1 {turn.start_s:.3f} {turn.end_s - turn.start_s:.3f} "
        f"<NA> <NA> {turn.speaker} <NA> <NA>\n"
        for turn in turns
    ]
    return "".join(lines)
