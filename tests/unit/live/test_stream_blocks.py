"""Captions in Python: any rate, floats and integers, in a loop and with asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import soxr

from tests.fakes.scripted_speech import Loudness, speech
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, SearchOptions
from whisper_hailo.live.events import Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import caption_defaults
from whisper_hailo.live.stream import BlockCaptions, Samples, stream, to_float32
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.captions.event_checks import find_violations
from whisper_hailo_lab.clip_archives import unpack_clips

OPTIONS = DecodingOptions(anti_repetition=PRESETS["conservative"])
CLIP = unpack_clips() / "seen" / "seen-021.ogg"


@pytest.fixture(scope="module")
def micro() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", threads=1) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def audio() -> FloatArray:
    return load_audio(CLIP)


@pytest.fixture(scope="module")
def expected(micro: Transcriber, audio: FloatArray) -> str:
    """The text of the whole recording."""
    return micro.transcribe(audio, OPTIONS).text


def captions(micro: Transcriber, sample_rate: int = SAMPLE_RATE_HZ) -> BlockCaptions:
    return BlockCaptions(micro, OPTIONS, sample_rate=sample_rate, detector=Loudness())


def text_of(events: list[Event]) -> str:
    assert list(find_violations(events)) == []
    return " ".join(event.text for event in events if isinstance(event, Completed))


def blocks(audio: Samples, n_blocks: int = 17) -> Iterator[Samples]:
    return iter(np.array_split(audio, n_blocks))


def test_blocks_of_any_length_give_the_text_of_the_recording(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    for n_blocks in (1, 100):
        assert (
            text_of(list(stream(blocks(audio, n_blocks), captions(micro)))) == expected
        )


@pytest.mark.slow
def test_integers_are_samples_too(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    integers = np.round(audio * 32768).clip(-32768, 32767).astype(np.int16)
    assert text_of(list(stream(blocks(integers), captions(micro)))) == expected


@pytest.mark.slow
def test_rate_of_sound_card_is_that_of_model_before_it_is_heard(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    faster = soxr.resample(audio, SAMPLE_RATE_HZ, 48_000, quality="VHQ")
    events = list(stream(blocks(faster), captions(micro, 48_000)))
    assert text_of(events) == expected
    assert events[-1].heard_s == pytest.approx(audio.size / SAMPLE_RATE_HZ, abs=0.05)


class Heedless:
    """A transcriber that hears nothing."""

    content_s = 9.0
    default_anti_repetition = PRESETS["balanced"]

    def check(self, options: DecodingOptions) -> None:
        assert options == caption_defaults(PRESETS["balanced"])

    def __init__(self) -> None:
        self.heard: list[FloatArray] = []

    def transcribe_running(
        self, buffer: PartialBuffer, *_: object, **__: object
    ) -> BufferText:
        self.heard.append(buffer.audio)
        return BufferText(())


def told(events: Iterable[Event]) -> list[tuple[str, float]]:
    return [(type(event).__name__, event.heard_s) for event in events]


@pytest.mark.parametrize(
    "block",
    [
        np.zeros((160, 2), np.float32),
        np.zeros(160, np.int8),
        np.zeros(160, np.complex64),
    ],
)
def test_what_is_no_mono_sound_is_refused(block: Samples) -> None:
    plain: Any = Heedless()
    with pytest.raises(AudioError, match=r"expected \(n_samples,\) mono"):
        BlockCaptions(plain, detector=Loudness()).feed(block)


def test_captions_are_as_they_were_asked_for() -> None:
    plain: Any = Heedless()
    with pytest.raises(OptionError, match="max-segment is 12 s"):
        BlockCaptions(
            plain, None, CaptionOptions(max_segment_s=12.0), detector=Loudness()
        )


def test_silero_tells_speech_unless_another_detector_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain: Any = Heedless()
    made: list[Loudness] = []

    def silero() -> Loudness:
        made.append(Loudness())
        return made[-1]

    monkeypatch.setattr("whisper_hailo.live.stream.make_detector", silero)
    said = speech(range(4))
    assert BlockCaptions(plain, detector=Loudness()).feed(said)
    assert made == []
    assert BlockCaptions(plain).feed(said)
    assert len(made) == 1


@pytest.mark.parametrize(("rate", "n_times"), [(16_000, 1), (48_000, 3)])
def test_blocks_of_any_rate_are_heard_to_their_last_sample(
    rate: int, n_times: int
) -> None:
    """Of 40 frames and one sample: 41 frames, whatever waits in the resampler."""
    plain: Any = Heedless()
    said = np.full((40 * 512 + 1) * n_times, 0.5, np.float32)
    told = BlockCaptions(plain, sample_rate=rate, detector=Loudness())
    events = list(stream(blocks(said), told))
    assert list(find_violations(events)) == []
    (event,) = (event for event in events if isinstance(event, Completed))
    assert (event.reason, event.end_s) == ("end", 41 * 512 / SAMPLE_RATE_HZ)
    assert np.abs(plain.heard[-1][2_000:18_000] - 0.5).max() < 1e-3
    assert plain.heard[0].size == SAMPLE_RATE_HZ, "it was warm before"


@pytest.mark.parametrize("kind", ["<i2", "<i4", "<f4", "<f8"])
def test_samples_of_any_kind_are_as_loud_as_they_are(kind: str) -> None:
    whole = np.array([0.0, 0.5, -0.25, -1.0])
    scale = 2.0 ** (8 * np.dtype(kind).itemsize - 1) if "i" in kind else 1.0
    np.testing.assert_array_equal(
        to_float32((scale * whole).astype(kind)), whole.astype(np.float32)
    )


def test_what_captions_cannot_honour_is_refused_at_once() -> None:
    plain: Any = Heedless()
    with pytest.raises(OptionError, match="greedily"):
        BlockCaptions(
            plain,
            DecodingOptions(search=SearchOptions(beam_size=3)),
            detector=Loudness(),
        )
    with pytest.raises(OptionError, match="--rate is 5 Hz"):
        BlockCaptions(plain, sample_rate=5, detector=Loudness())
