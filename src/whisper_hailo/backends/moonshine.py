"""Moonshine by `moonshine-voice`, which takes audio, runs its own decoding, and is English here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.errors import HubError, ModelError, OptionError, display_path
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

SIZES: Final = ("tiny-streaming", "small-streaming", "medium-streaming", "tiny", "base")
"""The package's models of English; a folder of weights has one of these names in its path.

Streaming ones come first, since `tiny` is part of `tiny-streaming`.
"""

MAX_S: Final = 64.0
"""Longest audio of one call."""

LEAST_S: Final = 0.2
"""Shorter audio is filled up with silence."""

_LANGUAGE: Final = "en"
_OPTIONS: Final = {
    "vad_threshold": "0",  # callers have found the speech already
    "return_audio_data": "false",
}
_NEVER_S: Final = 1e9
"""Interval at which a stream would transcribe by itself: it does so when it is asked to."""


class Moonshine(Closing):
    """A Moonshine model, from a folder of weights or the package's own server and its cache.

    A streaming model keeps its state while audio continues, and is given only the new audio.
    """

    def __init__(self, source: str = SIZES[0], size: str | None = None) -> None:
        if size is None:
            size = next((name for name in SIZES if name in source), "")
        self.size = size
        if self.size not in SIZES:
            raise OptionError(
                f"Moonshine is {source!r}, expected one of {', '.join(SIZES)}, or a folder with "
                "one of these in its path"
            )
        self._source = source
        self.model: Any = None
        self._stream: Any = None
        self._fed = np.empty(0, np.float32)  # the audio that the stream has been given

    def open(self) -> Self:
        try:
            import moonshine_voice
        except (
            ImportError,
            OSError,
        ) as error:  # OSError: its library does not fit this system
            raise OptionError(
                f"moonshine-voice is not installed ({error}); {install_command('moonshine')}"
            ) from error
        kind = moonshine_voice.string_to_model_arch(self.size)
        folder = self._folder(kind)
        try:
            self.model = moonshine_voice.Transcriber(
                folder, kind, update_interval=_NEVER_S, options=_OPTIONS
            )
        except moonshine_voice.MoonshineError as error:
            raise ModelError(
                f"Moonshine's weights in {display_path(folder)} cannot be loaded ({error}); fetch "
                "them again with: moonshine-voice download"
            ) from error
        return self

    def close(self) -> None:
        self._close_stream()
        if self.model is not None:
            self.model.close()
            self.model = None

    def transcribe(self, audio: FloatArray) -> str:
        """Return the text of `(n_samples,)` float32 16 kHz mono, shorter than `MAX_S`."""
        n_missing = round(LEAST_S * SAMPLE_RATE_HZ) - audio.size
        if n_missing > 0:
            audio = np.pad(audio, (0, n_missing))
        if self.size.endswith("streaming"):
            transcript = self._continue_stream(audio)
        else:
            transcript = self.model.transcribe_without_streaming(
                audio.tolist(), SAMPLE_RATE_HZ
            )
        return " ".join(line.text.strip() for line in transcript.lines).strip()

    def _continue_stream(self, audio: FloatArray) -> Any:  # noqa: ANN401 - a package without types
        """Return the transcript of audio, which may begin with what the stream was given before."""
        n_fed = self._fed.size
        if self._stream is None or not np.array_equal(audio[:n_fed], self._fed):
            self._close_stream()
            self._stream = self.model.create_stream()
            self._stream.start()
            n_fed = 0
        if audio.size > n_fed:
            self._stream.add_audio(audio[n_fed:].tolist(), SAMPLE_RATE_HZ)
        self._fed = audio.copy()  # the caller may change its own
        return self._stream.update_transcription(self.model.MOONSHINE_FLAG_FORCE_UPDATE)

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _folder(self, kind: Any) -> str:  # noqa: ANN401 - a package without types
        """Return the folder of the weights: the given one, or the package's cache."""
        if Path(self._source).is_dir():
            return self._source
        from moonshine_voice import download

        try:
            info = download.find_model_info(_LANGUAGE, kind)
            folder, _ = download.download_model_from_info(info)
        except (OSError, ValueError) as error:  # of its HTTP library, too
            reason = " ".join(str(error).split())[:160]
            raise HubError(
                f"cannot fetch Moonshine {self.size} ({reason}); connect this machine, or give a "
                "folder with its weights"
            ) from error
        return str(folder)
