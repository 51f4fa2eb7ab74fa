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
    """The text of the whole recording, transcribed at once."""
    return micro.transcribe(audio, OPTIONS).text


def captions(micro: Transcriber, sample_rate: int = SAMPLE_RATE_HZ) -> BlockCaptions:
    return BlockCaptions(micro, OPTIONS, sample_rate=sample_rate, detector=Loudness())


def join_texts(events: list[Event]) -> str:
    assert list(find_violations(events)) == []
    return " ".join(event.text for event in events if isinstance(event, Completed))


def blocks(audio: Samples, n_blocks: int = 17) -> Iterator[Samples]:
    return iter(np.array_split(audio, n_blocks))


def test_stream_blocks_of_any_length_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    for n_blocks in (1, 100):
        assert (
            join_texts(list(stream(blocks(audio, n_blocks), captions(micro))))
            == expected
        )


@pytest.mark.slow
def test_stream_blocks_of_integers_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    integers = np.round(audio * 32768).clip(-32768, 32767).astype(np.int16)
    assert join_texts(list(stream(blocks(integers), captions(micro)))) == expected


@pytest.mark.slow
def test_stream_blocks_of_48_khz_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    faster = soxr.resample(audio, SAMPLE_RATE_HZ, 48_000, quality="VHQ")
    events = list(stream(blocks(faster), captions(micro, 48_000)))
    assert join_texts(events) == expected
    assert events[-1].heard_s == pytest.approx(audio.size / SAMPLE_RATE_HZ, abs=0.05)


class SilentTranscriber:
    """A transcriber that gives no text."""

    content_s = 9.0
    default_anti_repetition = PRESETS["balanced"]

    def check(self, options: DecodingOptions) -> None:
        assert options == caption_defaults(PRESETS["balanced"])

    def __init__(self) -> None:
        self.buffers: list[FloatArray] = []

    def transcribe_running(
        self, buffer: PartialBuffer, *_: object, **__: object
    ) -> BufferText:
        self.buffers.append(buffer.audio)
        return BufferText(())


def captions_made(events: Iterable[Event]) -> list[tuple[str, float]]:
    return [(type(event).__name__, event.heard_s) for event in events]


@pytest.mark.parametrize(
    "block",
    [
        np.zeros((160, 2), np.float32),
        np.zeros(160, np.int8),
        np.zeros(160, np.complex64),
    ],
)
def test_block_captions_of_other_shape_or_type_raise(block: Samples) -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(AudioError, match=r"\(n_samples,\)"):
        BlockCaptions(transcriber, detector=Loudness()).feed(block)


def test_block_captions_too_long_segment_raises() -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(OptionError, match=r"max-segment .*12 s"):
        BlockCaptions(
            transcriber, None, CaptionOptions(max_segment_s=12.0), detector=Loudness()
        )


def test_block_captions_use_silero_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transcriber: Any = SilentTranscriber()
    made: list[Loudness] = []

    def silero() -> Loudness:
        made.append(Loudness())
        return made[-1]

    monkeypatch.setattr("whisper_hailo.live.stream.make_detector", silero)
    said = speech(range(4))
    assert BlockCaptions(transcriber, detector=Loudness()).feed(said)
    assert made == []
    assert BlockCaptions(transcriber).feed(said)
    assert len(made) == 1


@pytest.mark.parametrize(("rate", "n_times"), [(16_000, 1), (48_000, 3)])
def test_block_captions_keep_the_last_sample(rate: int, n_times: int) -> None:
    """40 frames and one sample are 41 frames, also through a resampler."""
    transcriber: Any = SilentTranscriber()
    said = np.full((40 * 512 + 1) * n_times, 0.5, np.float32)
    captions_made = BlockCaptions(transcriber, sample_rate=rate, detector=Loudness())
    events = list(stream(blocks(said), captions_made))
    assert list(find_violations(events)) == []
    (event,) = (event for event in events if isinstance(event, Completed))
    assert event.reason == "end"
    assert event.end_s == 41 * 512 / SAMPLE_RATE_HZ
    assert np.abs(transcriber.buffers[-1][2_000:18_000] - 0.5).max() < 1e-3
    assert transcriber.buffers[0].size == SAMPLE_RATE_HZ, "a second of noise warms up"


@pytest.mark.parametrize("kind", ["<i2", "<i4", "<f4", "<f8"])
def test_to_float32_scales_integers_to_one(kind: str) -> None:
    whole = np.array([0.0, 0.5, -0.25, -1.0])
    scale = 2.0 ** (8 * np.dtype(kind).itemsize - 1) if "i" in kind else 1.0
    np.testing.assert_array_equal(
        to_float32((scale * whole).astype(kind)), whole.astype(np.float32)
    )


def test_block_captions_unsupported_options_raise() -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(OptionError, match="greedily"):
        BlockCaptions(
            transcriber,
            DecodingOptions(search=SearchOptions(beam_size=3)),
            detector=Loudness(),
        )
    with pytest.raises(OptionError, match=r"--rate .*5 Hz"):
        BlockCaptions(transcriber, sample_rate=5, detector=Loudness())
