"""Captions of audio that a Python program has: blocks in, events out, in a loop or with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.resampler import Resampler
from whisper_hailo.audio.vad import SileroDetector, SpeechDetector
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.captioning.captioner import Captioner
from whisper_hailo.live.captioning.engine import TranscriberEngine, caption_defaults, warm_up
from whisper_hailo.live.events import Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.transcription.transcriber import Transcriber

Samples: TypeAlias = NDArray[Any]
"""`(n_samples,)` mono: floats in [-1, 1], or 16-bit integers as most sound cards give them."""


class BlockCaptions:
    """Events of audio that comes block by block.

    Args:
        transcriber: open, and not used by another while captions run.
        options: language, task and cures; `None` is what suits the decoder.
        captions: when segments begin and end.
        sample_rate: of the blocks, in Hz.
        detector: tells speech from silence; `None` is Silero's.

    Raises:
        OptionError: options that live captions cannot honour, or the voice detector is not there.
    """

    def __init__(
        self,
        transcriber: Transcriber,
        options: DecodingOptions | None = None,
        captions: CaptionOptions | None = None,
        *,
        sample_rate: int = SAMPLE_RATE_HZ,
        detector: SpeechDetector | None = None,
    ) -> None:
        captions = captions or CaptionOptions()
        options = options or caption_defaults(transcriber.default_cures)
        engine = TranscriberEngine(transcriber, options, trim_window=captions.trim_window)
        self._captioner = Captioner(engine, detector or SileroDetector(), captions)
        self._resampler = Resampler(sample_rate)
        warm_up(engine)

    def feed(self, block: Samples) -> list[Event]:
        """Take a block of any length; it blocks while that is transcribed.

        Raises:
            AudioError: no mono samples.
        """
        return list(self._captioner.feed(self._resampler.push(_floats(block))))

    def finish(self) -> list[Event]:
        """Complete what is running; nothing follows."""
        rest = self._captioner.feed(self._resampler.finish())
        return [*rest, *self._captioner.finish()]


def stream(blocks: Iterable[Samples], captions: BlockCaptions) -> Iterator[Event]:
    """Events of blocks, as soon as they are known.

    Args:
        blocks: of a microphone, a socket, a file: whatever gives one after the other.
        captions: new ones for each stream.
    """
    for block in blocks:
        yield from captions.feed(block)
    yield from captions.finish()


async def stream_async(
    blocks: AsyncIterable[Samples], captions: BlockCaptions
) -> AsyncIterator[Event]:
    """Caption blocks in an asyncio program, whose loop goes on while a thread transcribes.

    Args:
        blocks: of a microphone, a socket, a file: whatever gives one after the other.
        captions: new ones for each stream.
    """
    async for block in blocks:
        for event in await asyncio.to_thread(captions.feed, block):
            yield event
    for event in await asyncio.to_thread(captions.finish):
        yield event


def _floats(block: Samples) -> FloatArray:
    if block.ndim != 1 or block.dtype.kind not in "fi" or block.dtype.itemsize == 1:
        raise AudioError(
            f"a block has shape {block.shape} and type {block.dtype}, expected (n_samples,) mono "
            "of floats in [-1, 1] or int16; take one channel with block[:, 0]"
        )
    if block.dtype.kind == "i":
        return block.astype(np.float32) / np.float32(-float(np.iinfo(block.dtype).min))
    return block.astype(np.float32)
