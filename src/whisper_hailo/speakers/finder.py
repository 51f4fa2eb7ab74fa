"""Finds the speakers of recordings; the models are loaded when the first one asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.models import find_speaker_models, has_speaker_models
from whisper_hailo.speakers.options import SpeakerOptions


class SpeakerFinder(Closing):
    """Speaker models of one folder or of the model hub; safe to use on several threads.

    Args:
        folder: see `find_speaker_models`.
        threads: threads per operator; 0 lets the runtime choose.
    """

    def __init__(self, folder: Path | None = None, threads: int = 0) -> None:
        self.folder = folder
        self._threads = threads
        self._lock = threading.Lock()
        self._diarizer: SpeakerDiarizer | None = None

    def is_available(self) -> bool:
        """Return whether the models can be loaded without the model hub."""
        return has_speaker_models(self.folder)

    def load(self) -> SpeakerDiarizer:
        """Return the open models, loaded or fetched if they are not there yet.

        Raises:
            ModelError: a model is missing or broken.
            HubError: the model hub does not answer.
        """
        with self._lock:
            if self._diarizer is None:
                files = find_speaker_models(self.folder)
                self._diarizer = SpeakerDiarizer.from_files(files, self._threads).open()
            return self._diarizer

    def find(
        self,
        blocks: Iterable[FloatArray],
        options: SpeakerOptions,
        progress: Callable[[float, float | None], None] | None = None,
    ) -> SpeakerAttribution:
        """Return what gives segments to the speakers of a recording.

        Args:
            blocks: `(n_samples,)` float32 pieces at 16 kHz mono, in order.
            options: how many speakers, and their names.
            progress: called after each piece with the seconds so far and `None`, since it is not
                known how many there will be, and at the end with all of them twice.
        """
        if progress is None:
            turns = self.load().diarize(blocks, options.count)
        else:
            counted = _CountedBlocks(blocks, progress)
            turns = self.load().diarize(counted, options.count)
            progress(counted.done_s, counted.done_s)
        return SpeakerAttribution(turns, options.speaker_names)

    def close(self) -> None:
        with self._lock:
            if self._diarizer is not None:
                self._diarizer.close()
            self._diarizer = None


class _CountedBlocks:
    """Pieces of audio that report the seconds that are done.

    Attributes:
        done_s: seconds of the pieces so far.
    """

    def __init__(
        self,
        blocks: Iterable[FloatArray],
        progress: Callable[[float, float | None], None],
    ) -> None:
        self._blocks = blocks
        self._progress = progress
        self.done_s = 0.0

    def __iter__(self) -> Iterator[FloatArray]:
        for block in self._blocks:
            yield block
            self.done_s += len(block) / SAMPLE_RATE_HZ
            self._progress(self.done_s, None)
