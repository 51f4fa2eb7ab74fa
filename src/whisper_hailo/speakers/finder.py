"""Finds the speakers of recordings; the models are loaded when the first one asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.diarization import SpeakerDiarizer
from whisper_hailo.speakers.models import find_speaker_models
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
            progress: called after each piece with the seconds so far, and `None`: how many there
                will be is not known here.
        """
        if progress is not None:
            blocks = _report_blocks(blocks, progress)
        turns = self.load().diarize(blocks, options.count)
        return SpeakerAttribution(turns, options.speaker_names)

    def close(self) -> None:
        with self._lock:
            if self._diarizer is not None:
                self._diarizer.close()
            self._diarizer = None


def _report_blocks(
    blocks: Iterable[FloatArray], progress: Callable[[float, float | None], None]
) -> Iterator[FloatArray]:
    """Yield pieces of audio, and report the seconds of those that are done."""
    n_samples = 0
    for block in blocks:
        yield block
        n_samples += len(block)
        progress(n_samples / SAMPLE_RATE_HZ, None)
