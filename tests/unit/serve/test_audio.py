"""Decoding of uploads: equal to the command's, and within limits."""

from __future__ import annotations

import asyncio
import io
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tests.fakes.micro_service import DEMO
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.audio.stream import AudioStream
from whisper_hailo.core.types import FloatArray
from whisper_hailo.serve import audio
from whisper_hailo.serve.audio import AudioDecoders, PcmFormat
from whisper_hailo.serve.errors import BusyError, TooLargeError
from whisper_hailo.serve.options import LimitOptions
from whisper_hailo.serve.quota import Quota, Reservation
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio


def stored(quota: Quota | None = None) -> Reservation:
    """Return a reservation of a quota."""
    return Reservation(quota or Quota())


def test_decoders_file_equals_load_audio() -> None:
    with DEMO.open("rb") as file:
        heard = asyncio.run(
            AudioDecoders(LimitOptions()).decode(file, "demo.flac", stored())
        )
    assert np.array_equal(heard, load_audio(DEMO))


def test_decoders_long_audio_lies_on_disk() -> None:
    sound = io.BytesIO()
    soundfile.write(sound, np.tile(load_audio(DEMO), 5), 16_000, format="FLAC")
    heard = asyncio.run(
        AudioDecoders(LimitOptions()).decode(sound, "long.flac", stored())
    )
    assert isinstance(heard, np.memmap)
    sound.seek(0)
    assert np.array_equal(heard, load_audio(sound))


def test_decoders_max_s_returns_the_beginning() -> None:
    data = io.BytesIO(bytes(32_000 * 100))
    heard = asyncio.run(
        AudioDecoders(LimitOptions()).open_recording(
            data, None, stored(), pcm=PcmFormat(), max_s=10.0
        )
    )
    assert heard.size == 160_000


def test_decoders_cancelled_end_before_returning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = threading.Event()
    let_go = threading.Event()
    ended = threading.Event()

    class Slow(Reservation):
        def take(self, n_bytes: int) -> None:
            begun.set()
            let_go.wait()
            super().take(n_bytes)

    @contextmanager
    def noted(file: BinaryIO, name: str) -> Iterator[AudioStream]:
        with open_audio(file, name) as stream:
            try:
                yield stream
            finally:
                ended.set()

    monkeypatch.setattr(audio, "open_audio", noted)

    async def leave() -> None:
        sound = io.BytesIO()
        soundfile.write(sound, np.tile(load_audio(DEMO), 5), 16_000, format="FLAC")
        task = asyncio.create_task(
            AudioDecoders(LimitOptions()).decode(sound, "long.flac", Slow(Quota()))
        )
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.sleep(0)
        let_go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(leave())


@pytest.mark.parametrize("times", [1, 5])
def test_decoders_other_formats_of_any_size_are_decoded(times: int) -> None:
    sound = np.tile(load_audio(DEMO), times)
    with tempfile.SpooledTemporaryFile(1 << 20) as upload:
        content = io.BytesIO()
        soundfile.write(content, sound, 16_000, format="CAF", subtype="PCM_16")
        assert (content.tell() > 1 << 20) == (times > 1)
        upload.write(content.getvalue())
        upload.seek(0)
        heard = asyncio.run(
            AudioDecoders(LimitOptions()).decode(
                cast(BinaryIO, upload), "a.caf", stored()
            )
        )
    assert np.allclose(heard, sound, atol=1e-4)


def test_decoders_beyond_reservation_raise() -> None:
    seconds = load_audio(DEMO).size / 16_000
    quota = Quota(LimitOptions(max_stored_mib=3))
    with Reservation(quota) as first, Reservation(quota) as second:
        with DEMO.open("rb") as file:
            asyncio.run(AudioDecoders(LimitOptions()).decode(file, "demo.flac", first))
        assert first.n_bytes == quota.n_bytes == round(seconds * 16_000) * 4
        sound = io.BytesIO()
        soundfile.write(sound, np.tile(load_audio(DEMO), 5), 16_000, format="FLAC")
        with pytest.raises(BusyError):
            asyncio.run(
                AudioDecoders(LimitOptions()).decode(sound, "long.flac", second)
            )
    assert quota.n_bytes == 0


def long_upload(content: bytes) -> BinaryIO:
    """Return an upload that lies on the disk."""
    upload = tempfile.SpooledTemporaryFile(1 << 10)  # noqa: SIM115 - closed by the test
    upload.write(content)
    return cast(BinaryIO, upload)


def test_decoders_short_recording_is_decoded_whole() -> None:
    with DEMO.open("rb") as file:
        heard = asyncio.run(
            AudioDecoders(LimitOptions()).open_recording(file, "demo.flac", stored())
        )
    assert np.array_equal(heard, load_audio(DEMO))


def test_decoders_long_recording_outlives_its_request() -> None:
    content = io.BytesIO()
    soundfile.write(content, np.tile(load_audio(DEMO), 20), 16_000, format="WAV")
    upload = long_upload(content.getvalue())
    opened = asyncio.run(
        AudioDecoders(LimitOptions()).open_recording(upload, "long.wav", stored())
    )
    upload.close()
    assert isinstance(opened, OpenedAudio)
    content.seek(0)
    with opened:
        assert np.array_equal(np.concatenate(list(opened.blocks)), load_audio(content))


def test_decoders_long_recording_is_decoded_as_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    blocks = AudioStream.blocks

    def noted(stream: AudioStream, n_samples: int) -> Iterator[FloatArray]:
        for block in blocks(stream, n_samples):
            read.append(block.size)
            yield block

    content = io.BytesIO()
    soundfile.write(content, np.tile(load_audio(DEMO), 20), 16_000, format="FLAC")
    monkeypatch.setattr(AudioStream, "blocks", noted)
    with Reservation(Quota()) as reservation:
        opened = asyncio.run(
            AudioDecoders(LimitOptions()).open_recording(content, None, reservation)
        )
        assert sum(read) == 40 * 16_000
        assert reservation.n_bytes < 32 << 20
    assert isinstance(opened, OpenedAudio)
    opened.close()


def test_decoders_header_that_lies_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = io.BytesIO()
    soundfile.write(content, np.tile(load_audio(DEMO), 20), 16_000, format="WAV")
    short = property(lambda _: 1.0, ignore)
    monkeypatch.setattr(AudioStream, "duration_s", short, raising=False)
    limits = LimitOptions(max_audio_s=90.0)
    opened = asyncio.run(AudioDecoders(limits).open_recording(content, None, stored()))
    assert isinstance(opened, OpenedAudio)
    with opened, pytest.raises(TooLargeError):
        list(opened.blocks)


def ignore(_stream: object, _value: object) -> None:
    """Set no attribute."""


def test_decoders_command_does_not_wait_for_whole_files() -> None:
    let_go = threading.Event()

    class Slow(Reservation):
        def take(self, n_bytes: int) -> None:
            let_go.wait()
            super().take(n_bytes)

    large = io.BytesIO()
    soundfile.write(large, np.zeros(16_000, np.float32), 16_000, format="WAV")

    async def open_beside_others() -> int:
        decoders = AudioDecoders(LimitOptions())
        others = [
            asyncio.create_task(
                decoders.decode(io.BytesIO(large.getvalue()), None, Slow(Quota()))
            )
            for _ in range(3)
        ]
        await asyncio.sleep(0)
        command = io.BytesIO(bytes(2_000))
        try:
            heard = await decoders.open_recording(
                command, None, stored(), pcm=PcmFormat()
            )
        finally:
            let_go.set()
            await asyncio.gather(*others)
        return heard.size

    assert asyncio.run(open_beside_others()) == 1_000
