"""Speakers of uploads: who is known by a sample, and who speaks, beside the model's thread."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.concurrency import run_on_thread
from whisper_hailo.serve.errors import ClientDisconnectedError
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.quota import Reservation
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.embeddings import PRINT_SIZE
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.known_speakers import match_known_speakers
from whisper_hailo.speakers.options import SpeakerOptions

MAX_KNOWN_SPEAKERS: Final = 4
SAMPLE_S: Final = (2.0, 10.0)
"""Bounds of OpenAI's API."""

_ROUNDING_S: Final = 0.1
"""Encoders add some milliseconds to a sample."""

_DATA_URL: Final = re.compile(
    r"data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*;base64,", re.ASCII
)

_BLOCK_SAMPLES: Final = 10 * SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True)
class KnownSpeakers:
    """People who may speak, and samples of their voices.

    Attributes:
        names: one for each sample.
        samples: encoded audio.
    """

    names: tuple[str, ...] = ()
    samples: tuple[bytes, ...] = ()


def parse_known_speakers(
    names: Sequence[str], references: Sequence[str]
) -> KnownSpeakers:
    """Return the known speakers of a request, whose samples are data URLs.

    Raises:
        OptionError: they do not belong together, are too many, or a reference is no data URL.
    """
    if len(names) != len(references) or len(names) > MAX_KNOWN_SPEAKERS:
        raise OptionError(
            f"known_speaker_names has {len(names)} and known_speaker_references {len(references)}, "
            f"expected equally many, {MAX_KNOWN_SPEAKERS} at most"
        )
    if not all(name.strip() for name in names):
        raise OptionError(
            "known_speaker_names has a blank name, expected such as customer"
        )
    return KnownSpeakers(
        tuple(names), tuple(_decode_data_url(url) for url in references)
    )


def _decode_data_url(url: str) -> bytes:
    match = _DATA_URL.match(url)
    try:
        if match is not None:
            return base64.b64decode(url[match.end() :], validate=True)
    except binascii.Error:
        pass
    raise OptionError(
        f"known_speaker_references has {url[:40]!r}, expected a data URL such as "
        "data:audio/wav;base64,..."
    )


class SpeakerModels:
    """The speaker models, as far as the memory of models is concerned.

    Attributes:
        needed_mib: what they take while they are used (docs/measurements/speakers.md).
    """

    name = "speakers"
    needed_mib = 115
    used_s = math.inf

    @property
    def queue(self) -> Self:
        """They are in use as long as they hold memory."""
        return self

    def release_if_idle(self) -> bool:
        return False


class UploadSpeakers:
    """Finds who speaks in recordings, one at a time, off the event loop.

    Where the memory of models is limited the speaker models are only loaded for a recording.
    """

    def __init__(
        self, finder: SpeakerFinder, decoders: AudioDecoders, memory: ModelMemory
    ) -> None:
        self._finder = finder
        self._decoders = decoders
        self._memory = memory
        self._models = SpeakerModels()
        # One at a time: it takes all cores, which captions need as well.
        self._free = asyncio.Semaphore(1)

    async def decode_samples(
        self, known: KnownSpeakers, reservation: Reservation
    ) -> list[FloatArray]:
        """Return the samples of known speakers, `(n_samples,)` float32 at 16 kHz each.

        Raises:
            AudioError: a sample cannot be decoded.
            OptionError: a sample is too short or too long.
        """
        decoded = []
        for name, sample in zip(known.names, known.samples, strict=True):
            audio = await self._decoders.decode(io.BytesIO(sample), None, reservation)
            seconds = audio.size / SAMPLE_RATE_HZ
            if not SAMPLE_S[0] - _ROUNDING_S <= seconds <= SAMPLE_S[1] + _ROUNDING_S:
                raise OptionError(
                    f"the sample of {name!r} lasts {seconds:.1f} s, expected {SAMPLE_S[0]:g} to "
                    f"{SAMPLE_S[1]:g} s"
                )
            decoded.append(audio)
        return decoded

    def is_available(self) -> bool:
        """Return whether the models need no model hub, and fit into the memory."""
        return self._memory.fits(self._models) and self._finder.is_available()

    async def find(
        self, audio: FloatArray, names: Sequence[str], samples: Sequence[FloatArray]
    ) -> SpeakerAttribution:
        """Return what gives segments to the speakers of a recording, as in OpenAI's API.

        Speakers are named after the samples that they sound like, the others A, B and so on.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz.
            names: of known speakers.
            samples: of their voices, `(n_samples,)` each.

        Raises: as `find_numbered`.
        """

        def find_known(
            diarizer: SpeakerDiarizer, blocks: Iterator[FloatArray]
        ) -> SpeakerAttribution:
            turns = diarizer.diarize(blocks)
            prints = [diarizer.reference_print(sample) for sample in samples]
            sample_prints = np.array(prints, np.float32).reshape(-1, PRINT_SIZE)
            matches = match_known_speakers(turns.prints, sample_prints)
            return SpeakerAttribution(turns, label_speakers(matches, names))

        return await self._run(audio, find_known)

    async def find_numbered(
        self, audio: FloatArray, options: SpeakerOptions
    ) -> SpeakerAttribution:
        """Return what gives segments to the speakers of a recording, as the option --speakers.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz.
            options: how many speakers, and their names in order of appearance.

        Raises:
            HubError, ModelError: the speaker models are not to be had.
            OptionError: they do not fit into the memory.
            BusyError: the models that would have to make room for them are in use.
        """

        def find_in_order(
            diarizer: SpeakerDiarizer, blocks: Iterator[FloatArray]
        ) -> SpeakerAttribution:
            turns = diarizer.diarize(blocks, options.count)
            return SpeakerAttribution(turns, options.speaker_names)

        return await self._run(audio, find_in_order)

    async def _run(
        self,
        audio: FloatArray,
        find: Callable[[SpeakerDiarizer, Iterator[FloatArray]], SpeakerAttribution],
    ) -> SpeakerAttribution:
        """Call a function with the open models and the blocks of a recording, on a thread."""
        self._memory.check_limit(self._models)
        is_cancelled = threading.Event()

        def blocks() -> Iterator[FloatArray]:
            for start in range(0, audio.size, _BLOCK_SAMPLES):
                if is_cancelled.is_set():
                    raise ClientDisconnectedError
                yield audio[start : start + _BLOCK_SAMPLES]

        def find_speakers() -> SpeakerAttribution:
            with self._memory.hold_memory(self._models):
                try:
                    return find(self._finder.load(), blocks())
                finally:
                    if self._memory.is_limited:
                        self._finder.close()

        async with self._free:
            return await run_on_thread(find_speakers, on_cancel=is_cancelled.set)


def label_speakers(matches: Sequence[int | None], names: Sequence[str]) -> list[str]:
    """Return the label of each speaker: a known name, or the next of A, B, ... Z, AA, AB."""
    labels: list[str] = []
    n_unknown = 0
    for match in matches:
        if match is not None:
            labels.append(names[match])
            continue
        label = _letters(n_unknown)
        while label in names:
            n_unknown += 1
            label = _letters(n_unknown)
        labels.append(label)
        n_unknown += 1
    return labels


def _letters(number: int) -> str:
    """Return A for 0, Z for 25, AA for 26."""
    letters = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters
