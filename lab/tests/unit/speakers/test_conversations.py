"""Conversations made of utterances."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.speakers.conversations import ConversationPlan, make_conversation
from whisper_hailo_lab.speakers.voices import (
    Utterance,
    Voice,
    cut_utterances,
    split_voices,
    voice_name,
)


def _voice(name: str, n_utterances: int = 12) -> Voice:
    rng = np.random.default_rng(len(name))
    size = 2 * SAMPLE_RATE_HZ
    utterances = [
        Utterance(
            rng.normal(0, 0.1, size).astype(np.float32), ((0, 12_000), (20_000, size))
        )
        for _ in range(n_utterances)
    ]
    return Voice(name, "en", tuple(utterances))


_VOICES = [_voice(name) for name in ("a", "bb", "ccc", "dddd")]
_NOISES = [np.random.default_rng(9).normal(size=5_000).astype(np.float32)]


def test_make_conversation_same_seed_gives_same_samples() -> None:
    plan = ConversationPlan(3, 40, "seed-3")
    first = make_conversation(_VOICES, _NOISES, plan)
    second = make_conversation(_VOICES, _NOISES, plan)
    np.testing.assert_array_equal(first.audio, second.audio)
    assert first.turns == second.turns


@pytest.mark.parametrize("n_speakers", [1, 2, 4])
def test_make_conversation_has_speakers_and_length(n_speakers: int) -> None:
    conversation = make_conversation(
        _VOICES, _NOISES, ConversationPlan(n_speakers, 20, "x")
    )
    assert len({turn.speaker for turn in conversation.turns}) == n_speakers
    assert 18 <= conversation.audio.size / SAMPLE_RATE_HZ <= 40
    assert conversation.turns[-1].end_s <= conversation.audio.size / SAMPLE_RATE_HZ
    assert np.abs(conversation.audio).max() <= 1


def test_make_conversation_some_turns_overlap() -> None:
    conversation = make_conversation(_VOICES, _NOISES, ConversationPlan(4, 80, "y"))
    turns = conversation.turns
    changes = [
        (before, after)
        for before, after in pairwise(turns)
        if before.speaker != after.speaker
    ]
    n_overlapping = sum(after.start_s < before.end_s for before, after in changes)
    assert 0 < n_overlapping < len(changes) / 2


def test_make_conversation_turns_end_at_pauses() -> None:
    conversation = make_conversation(_VOICES, _NOISES, ConversationPlan(1, 8, "z"))
    lengths_s = {round(turn.end_s - turn.start_s, 3) for turn in conversation.turns}
    assert lengths_s == {0.75}


@pytest.mark.parametrize(
    ("name", "identifier", "expected"),
    [
        ("librispeech", "sherpa_1221-135766-0001", "librispeech-1221"),
        ("aishell", "BAC009S0150W0240", "aishell-S0150"),
        ("asterisk_es", "vm-intro", "allison"),
        ("mfa_spontaneous", "mfa_whisper", None),
        ("fleurs", "fleurs-de-001", None),
        ("nospeech_music", "1", None),
    ],
)
def test_voice_name_is_of_one_person(
    name: str, identifier: str, expected: str | None
) -> None:
    recording = SpeechRecording(name, identifier, "", "en", 1.0, "", (Path("a"),))
    assert voice_name(recording) == expected


def test_split_voices_gives_languages_to_both_halves() -> None:
    voices = [Voice(str(index), "en" if index < 6 else "de", ()) for index in range(10)]
    first, second = split_voices(voices, 1)
    assert {voice.name for voice in first}.isdisjoint(voice.name for voice in second)
    for half in (first, second):
        assert sorted(voice.language for voice in half) == [
            "de",
            "de",
            "en",
            "en",
            "en",
        ]


class _Loudness:
    """Takes loud frames for speech."""

    def reset(self) -> None: ...

    def probability(self, frame: FloatArray) -> float:
        return float(np.abs(frame).max() > 0.01)


def test_cut_utterances_at_pauses() -> None:
    loud = np.full(3 * SAMPLE_RATE_HZ, 0.1, np.float32)
    pause = np.zeros(SAMPLE_RATE_HZ // 2, np.float32)
    audio = np.concatenate(
        [pause, loud, pause, loud, pause, loud[:4000], pause, loud, loud]
    )
    utterances = cut_utterances(audio, _Loudness())
    assert [round(item.audio.size / SAMPLE_RATE_HZ) for item in utterances] == [7, 6]
    assert len(utterances[0].speech) >= 2
