"""Speakers who have a channel each: whose turn it is, in the events and in the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.live.scripted import Fickle, Loudness, Speller, silence, speech
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed, Event, Partial, Started
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.outputs.files import CaptionFile
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.sources.source import AudioQueue, Block, LoudestChannel, Voices
from whisper_hailo_lab.captions.event_checks import violations


def voices(channel: int, n_samples: int) -> Voices:
    return np.full(n_samples, channel, np.int8)


def spoken(*turns: tuple[int, list[int]]) -> tuple[FloatArray, Voices]:
    """Words of speakers in turns without a pause, and silence behind."""
    parts = [(speech(words), speaker) for speaker, words in turns]
    audio = np.concatenate([*(part for part, _ in parts), silence(0.5)])
    who = np.concatenate(
        [*(voices(speaker, part.size) for part, speaker in parts), voices(0, 8000)]
    )
    return audio, who


def told(
    audio: FloatArray, who: Voices, options: CaptionOptions | None = None, piece: int = 1600
) -> list[Event]:
    captioner = Captioner(Speller(), Loudness(), options)
    events: list[Event] = []
    for at in range(0, audio.size, piece):
        events += captioner.feed(audio[at : at + piece], None, who[at : at + piece])
    events += captioner.finish()
    assert list(violations(events)) == []
    return events


def turns(events: list[Event]) -> list[tuple[int | None, str, str]]:
    return [(e.speaker, e.text, e.reason) for e in events if isinstance(e, Completed)]


def test_another_speaker_begins_another_segment_without_a_pause() -> None:
    events = told(*spoken((0, [0, 1, 2, 3]), (1, [4, 5, 6]), (0, [7, 8, 9])))
    assert turns(events) == [
        (0, "w0 w1 w2 w3", "turn"),
        (1, "w4 w5 w6", "turn"),
        (0, "w7 w8 w9", "silence"),
    ]
    starts = [event.speaker for event in events if isinstance(event, Started)]
    assert starts == [0, 1, 0]
    said = {(e.segment_id, e.speaker) for e in events if isinstance(e, Partial)}
    assert said == {(0, 0), (1, 1), (2, 0)}


def test_committed_word_is_of_who_had_the_turn_when_shown() -> None:
    """A short one of the other's has settled before ten frames say that it is their turn."""
    audio, who = spoken((0, [0, 1]), (1, [2, 3, 4]))
    rest = np.s_[10_080:12_960]  # what is left of it ends at 0.63 s
    audio, who = np.delete(audio, rest), np.delete(who, rest)
    options = CaptionOptions(settle_s=0.0, min_partial_s=0.128, min_speech_s=0.0, pre_roll_s=0.0)
    events = told(audio, who, options, piece=512)
    shown = [e.committed_text for e in events if isinstance(e, Partial) and e.segment_id == 0]
    assert shown[-1] == "w0 w1 part-of-w2"
    assert turns(events) == [(0, "w0 w1 part-of-w2", "turn"), (1, "w3 w4", "silence")]


def test_a_short_word_between_is_no_turn() -> None:
    said, who = spoken((0, [0, 1, 2, 3, 4, 5]))
    who[8000:12_000] = 1
    assert turns(told(said, who)) == [(0, "w0 w1 w2 w3 w4 w5", "silence")]


def test_where_they_are_not_told_apart_nobody_is_named() -> None:
    captioner = Captioner(Speller(), Loudness())
    audio, _ = spoken((0, [0, 1]), (1, [2, 3]))
    events = [*captioner.feed(audio), *captioner.finish()]
    assert turns(events) == [(None, "w0 w1 w2 w3", "silence")]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 8)), min_size=1, max_size=12),
    st.integers(0, 99),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_guarantees_hold_whoever_speaks(
    said: list[tuple[int, int]], seed: int, settle_s: float
) -> None:
    rng = np.random.default_rng(seed)
    parts = [(speaker, speech(range(n))) for speaker, n in said]
    audio = np.concatenate([part for _, part in parts])
    who = np.concatenate([voices(speaker, part.size) for speaker, part in parts])
    captioner = Captioner(Fickle(seed), Loudness(), CaptionOptions(settle_s=settle_s))
    events: list[Event] = []
    at = 0
    while at < audio.size:
        end = at + int(rng.integers(1, 9000))
        events += captioner.feed(audio[at:end], None, who[at:end])
        at = end
    events += captioner.finish()
    assert list(violations(events)) == []


def test_loudest_channel_has_turn_also_between_its_sounds() -> None:
    loudest = LoudestChannel()
    loud, quiet = np.full(512, 0.5, np.float32), np.full(512, 0.01, np.float32)
    pieces = [(loud, quiet), (0 * loud, quiet), (0 * loud, quiet), (quiet, loud), (quiet, loud)]
    heard = [int(loudest.voices(np.stack(piece, axis=1), 1)[0]) for piece in pieces]
    assert heard == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("power", "turn"), [(0.64, 0), (0.70, 1)])
def test_louder_channel_takes_the_turn(power: float, turn: int) -> None:
    """Four tenths of the power of before count, and six tenths of that of now."""
    loudest = LoudestChannel()
    both = np.zeros((100, 2), np.float32)
    both[:, 0] = 1.0
    assert loudest.voices(both, 3).tolist() == [0, 0, 0]
    both[:, 0], both[:, 1] = 0.0, np.sqrt(power)
    assert loudest.voices(both[:50], 2).tolist() == [turn, turn], "however long the piece is"


def test_channels_of_a_recording_are_mixed_and_told_apart(tmp_path: Path) -> None:
    path, half = tmp_path / "two.wav", np.full(16_000, 0.5, np.float32)
    left, right = np.concatenate([half, 0 * half]), np.concatenate([0 * half, half])
    soundfile.write(path, np.stack([left, right], axis=1), 16_000)
    with FileSource(path, split=True) as source:
        blocks = list(source.blocks())
    audio = np.concatenate([block.audio for block in blocks])
    who = np.concatenate([block.voices for block in blocks if block.voices is not None])
    assert {block.audio.size for block in blocks[:-1]} == {512}
    np.testing.assert_allclose(audio, (left + right) / 2, atol=1e-4)
    assert who.size == audio.size == 32_000
    assert np.flatnonzero(who != (np.arange(32_000) >= 16_000)).size <= 512
    mono = tmp_path / "one.wav"
    soundfile.write(mono, half, 16_000)
    with pytest.raises(AudioError, match="1 channel, --channels split takes 2"):
        FileSource(mono, split=True).open()


def test_a_recording_that_was_told_apart_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []

    class Channel(Closing):
        def close(self) -> None:
            closed.append(1)

    monkeypatch.setattr("whisper_hailo.live.sources.file.open_audio", lambda _: Channel())
    path = tmp_path / "two.wav"
    soundfile.write(path, np.zeros((160, 2)), 16_000)
    with FileSource(path, split=True):
        assert closed == []
    assert closed == [1, 1]


def test_what_waits_to_be_heard_keeps_its_speakers() -> None:
    backlog = AudioQueue(limit_s=1.0)
    backlog.put(Block(np.ones(10_000, np.float32), voices=voices(0, 10_000)))
    backlog.put(Block(np.ones(6_000, np.float32), voices=voices(1, 6_000)))
    backlog.put(Block(np.ones(5, np.float32), voices=voices(2, 5)))  # they are lost
    first = next(backlog.blocks())
    backlog.put(Block(np.ones(5, np.float32), voices=voices(2, 5)))
    backlog.end()
    second = next(backlog.blocks())
    assert first.voices is not None
    assert second.voices is not None
    assert np.bincount(first.voices).tolist() == [10_000, 6_000]
    assert first.n_lost == 5
    assert second.voices.tolist() == [2] * 5


@pytest.mark.parametrize(
    ("ending", "shown"),
    [
        ("srt", ["Speaker 1: w0 w1", "Speaker 2: w2 w3"]),
        ("vtt", ["<v Speaker 1>w0 w1", "<v Speaker 2>w2 w3"]),
        ("txt", ["Speaker 1: w0 w1", "Speaker 2: w2 w3"]),
    ],
)
def test_files_say_whose_turn_it_is(tmp_path: Path, ending: str, shown: list[str]) -> None:
    path = tmp_path / f"a.{ending}"
    with CaptionFile(path) as file:
        for event in told(*spoken((0, [0, 1]), (1, [2, 3]))):
            file.put(event)
    lines = path.read_text().splitlines()
    assert [line for line in lines if "w" in line] == shown
