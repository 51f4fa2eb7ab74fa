"""Audio of any length cut into the frames that voice activity is detected in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whisper_hailo.audio.vad import FRAME_SAMPLES
from whisper_hailo.core.types import FloatArray
from whisper_hailo.live.sources.voices import Voices


class Frames:
    """What is no whole frame yet waits for more."""

    def __init__(self) -> None:
        self._audio = np.empty(0, np.float32)
        self._voices: Voices = np.empty(0, np.int8)

    @property
    def n_waiting(self) -> int:
        """Samples of the next frame that are there."""
        return self._audio.size

    def push(
        self, audio: FloatArray, voices: Voices | None = None
    ) -> Iterator[tuple[FloatArray, int | None]]:
        """Whole frames, each with the speaker who is heard in it, where they are told apart.

        Args:
            audio: `(n_samples,)` float32, following what was pushed before.
            voices: of it.
        """
        pending = np.concatenate([self._audio, audio])
        heard = None if voices is None else np.concatenate([self._voices, voices])
        n_whole = pending.size // FRAME_SAMPLES * FRAME_SAMPLES
        self._audio = pending[n_whole:].copy()
        if heard is not None:
            self._voices = heard[n_whole:].copy()
        for begin in range(0, n_whole, FRAME_SAMPLES):
            speaker = None if heard is None else int(heard[begin + FRAME_SAMPLES // 2])
            yield pending[begin : begin + FRAME_SAMPLES], speaker

    def rest(self) -> tuple[FloatArray, int | None] | None:
        """What waits, filled up with silence; `None` where nothing does."""
        n_waiting = self.n_waiting
        if not n_waiting:
            return None
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        frame[:n_waiting] = self._audio
        speaker = int(self._voices[-1]) if self._voices.size else None
        self.drop()
        return frame, speaker

    def drop(self) -> int:
        """Let what waits go; how many samples that was."""
        n_waiting = self.n_waiting
        self._audio, self._voices = self._audio[:0], self._voices[:0]
        return n_waiting
