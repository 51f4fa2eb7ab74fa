"""Speakers of recordings, from the audio to the segments, with people who whistle."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fakes.voices_of_tones import tone_diarizer, whistle
from whisper_hailo.audio.stream import ChannelOf
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, Segment, Word
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.arguments import merge_speaker_kwargs
from whisper_hailo.transcription.transcriber import Transcriber

_TALK = whistle([(0, 4.0), (None, 0.5), (1, 4.0)])


@pytest.fixture(autouse=True)
def _tones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tone_diarizer() as diarizer:
        monkeypatch.setattr(SpeakerFinder, "load", lambda _: diarizer)
        yield


@pytest.mark.parametrize(
    ("value", "speakers"),
    [
        (True, "auto"),
        (False, None),
        (None, None),
        (2, "2"),
        ("2-5", "2-5"),
        ("auto", "auto"),
    ],
)
def test_merge_speaker_kwargs_takes_numbers_and_switches(
    value: object, speakers: str | None
) -> None:
    keywords = {"speakers": value, "language": "en"}
    assert merge_speaker_kwargs(keywords) == SpeakerOptions(speakers)
    assert keywords == {"language": "en"}


def test_merge_speaker_kwargs_takes_options() -> None:
    options = SpeakerOptions("2", ("Anna",))
    assert merge_speaker_kwargs({"speakers": options}) == options


@pytest.mark.parametrize("value", [0, -1, "none", 2.5])
def test_merge_speaker_kwargs_refuses_other_values(value: object) -> None:
    with pytest.raises(OptionError):
        merge_speaker_kwargs({"speakers": value})


def _attributions(monkeypatch: pytest.MonkeyPatch) -> list[SpeakerAttribution]:
    """Return what segments are given to speakers with, as it is made."""
    attributions = []
    find = SpeakerFinder.find

    def keep(*given: object, **named: object) -> SpeakerAttribution:
        attributions.append(find(*given, **named))  # type: ignore[arg-type]
        return attributions[-1]

    monkeypatch.setattr(SpeakerFinder, "find", keep)
    return attributions


def test_transcribe_finds_speakers_of_any_source(
    micro: Transcriber, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "talk.wav"
    soundfile.write(
        path, np.stack([_TALK, _TALK], axis=1), SAMPLE_RATE_HZ, subtype="FLOAT"
    )
    attributions = _attributions(monkeypatch)
    sources = [
        path,
        str(path),
        io.BytesIO(path.read_bytes()),
        ChannelOf(path, 1),
        _TALK,
    ]
    for source in sources:
        transcript = micro.transcribe(source, speakers=True, speaker_names="Anna")
        assert transcript.duration_s == pytest.approx(8.5, abs=0.01)
    assert len(attributions) == len(sources)
    segment = Segment(0, 8.5, "a b", (), 0.0, 0.0)
    words = (Word(1, 2, " a", 1.0), Word(6, 7, " b", 1.0))
    for attribution in attributions:
        parts = attribution.attribute(replace(segment, words=words))
        assert [part.speaker for part in parts] == ["Anna", 1]


def test_transcribe_many_finds_speakers_of_each(
    micro: Transcriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributions = _attributions(monkeypatch)
    list(micro.transcribe_many([_TALK, _TALK], speakers=2))
    assert len(attributions) == 2


def test_transcribe_speakers_gives_words_their_speaker(micro: Transcriber) -> None:
    transcript = micro.transcribe(ASSETS / "jfk.flac", speakers=1)
    assert transcript.segments
    for segment in transcript.segments:
        assert segment.words
        assert {word.speaker for word in segment.words} == {segment.speaker}


def test_transcribe_many_unreadable_file_fails_alone(
    micro: Transcriber, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF")
    first, second = micro.transcribe_many([broken, _TALK], speakers=True)
    assert isinstance(first, Exception)
    assert not isinstance(second, Exception)
