"""What the channels of a recording said, on one timeline."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from whisper_hailo.audio import open_audio
from whisper_hailo.audio.stream import merge_channels, split_channels
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript

SETTINGS = Settings("toy", "none", "none", 30.0, 0.0, 0, 1.0, 0.0, "none", 1)


def said(start_s: float, end_s: float, text: str) -> Segment:
    return Segment(start_s, end_s, text, (), -0.1, 0.0)


def transcript(*segments: Segment, duration_s: float = 9.0, ms: float = 5.0) -> Transcript:
    return Transcript(
        audio="call.wav",
        duration_s=duration_s,
        language="en",
        task="transcribe",
        segments=segments,
        timings=Timings(load_ms=100.0, decode_ms=ms, total_ms=2 * ms),
        settings=SETTINGS,
    )


def test_speakers_take_turns_in_order_of_time() -> None:
    caller = transcript(said(0.0, 1.0, "hello"), said(4.0, 5.0, "fine"), duration_s=5.0)
    callee = transcript(said(2.0, 3.0, "how are you"), said(4.0, 4.5, "ah"), duration_s=9.5, ms=7.0)
    both = merge_channels([caller, callee])
    assert [(one.text, one.speaker) for one in both.segments] == [
        ("hello", 0),
        ("how are you", 1),
        ("ah", 1),  # begins with the other, ends before it
        ("fine", 0),
    ]
    assert both.duration_s == 9.5
    assert (both.timings.decode_ms, both.timings.total_ms) == (12.0, 24.0)
    assert both.timings.load_ms == 100.0  # one model, loaded once


def test_what_begins_first_comes_first_however_long_it_goes_on() -> None:
    caller = transcript(said(1.0, 8.0, "once upon a time"), said(8.5, 9.0, "the end"))
    callee = transcript(said(0.5, 0.7, "go on"), said(3.0, 3.2, "mhm"))
    both = merge_channels([caller, callee])
    assert [one.text for one in both.segments] == ["go on", "once upon a time", "mhm", "the end"]


def test_any_number_of_channels_is_one_recording() -> None:
    parts = [
        transcript(said(at, at + 1.0, "a"), duration_s=at + 1, ms=at) for at in (1.0, 2.0, 4.0)
    ]
    whole = merge_channels(parts)
    assert [(one.start_s, one.speaker) for one in whole.segments] == [(1.0, 0), (2.0, 1), (4.0, 2)]
    assert whole.duration_s == 5.0
    assert (whole.timings.decode_ms, whole.timings.total_ms) == (7.0, 14.0)


def test_what_is_said_of_a_whole_file_is_said_by_its_first_channel() -> None:
    first = transcript(said(1.0, 2.0, "ja"))
    second = replace(first, language="de", timings=Timings(load_ms=3.0, mel_ms=1.0))
    both = merge_channels([first, second])
    assert (both.audio, both.language, both.settings) == ("call.wav", "en", SETTINGS)
    assert both.timings == Timings(load_ms=100.0, mel_ms=1.0, decode_ms=5.0, total_ms=10.0)
    alone = merge_channels([first])
    assert alone == replace(first, segments=(replace(first.segments[0], speaker=0),))


def test_each_channel_is_its_own_sound() -> None:
    class Named(io.BytesIO):
        name = ""

    sounds = [np.full(1600, level, np.float32) for level in (0.25, -0.5, 0.125)]
    file = Named()
    soundfile.write(file, np.stack(sounds, axis=1), 16_000, format="WAV", subtype="FLOAT")
    file.seek(0)
    file.name = "<stdin>"
    with split_channels(file) as channels:
        assert [(one.channel, one.name) for one in channels] == [(n, "stdin") for n in range(3)]
        heard = []
        for channel in channels:
            with open_audio(channel) as stream:
                heard.append(np.concatenate(list(stream.blocks(1600))))
    assert [sound.tolist() for sound in heard] == [own.tolist() for own in sounds]


def test_one_channel_cannot_be_split() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(1600, np.float32), 16_000, format="WAV")
    file.seek(0)
    with (
        pytest.raises(AudioError, match="has 1 channel, --channels split takes 2 or more"),
        split_channels(file),
    ):
        pass
