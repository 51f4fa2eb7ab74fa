"""Moonshine by `moonshine-voice`: it hears audio itself, owns its loop, and knows English here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.core.errors import HubError, ModelError, OptionError, display_path
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray

SIZES: Final = ("tiny-streaming", "small-streaming", "medium-streaming", "tiny", "base")
"""Those of the package for English; a folder of weights has one of them in its path."""

MAX_S: Final = 64.0
"""Longest piece that is given to it."""

LEAST_S: Final = 0.2
"""Shorter pieces are filled up with silence."""

_LANGUAGE: Final = "en"
_OPTIONS: Final = {
    "vad_threshold": "0",  # who calls has found the speech already
    "return_audio_data": "false",
}
_NEVER_S: Final = 1e9
"""Streams look at what they have when they are asked to, not by themselves."""


class Moonshine(Closing):
    """Weights of a folder, or of the package's own server and its cache.

    A streaming model keeps what it made of audio that goes on, and is given only what is new.
    """

    def __init__(self, source: str = SIZES[0], size: str | None = None) -> None:
        named = [name for name in SIZES if name in source]  # the streaming ones come first
        self.size = size or (named[0] if named else "")
        if self.size not in SIZES:
            raise OptionError(
                f"Moonshine is {source!r}, expected one of {', '.join(SIZES)}, or a folder with "
                "one of these in its path"
            )
        self._source = source
        self.model: Any = None
        self._stream: Any = None
        self._known = np.empty(0, np.float32)  # what the stream has been given

    def open(self) -> Self:
        try:
            import moonshine_voice
        except (ImportError, OSError) as error:  # OSError: its library does not fit this system
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
        self._leave_stream()
        model, self.model = self.model, None
        if model is not None:
            model.close()

    def transcribe(self, audio: FloatArray) -> str:
        """Return the text of `(n_samples,)` float32 16 kHz mono, shorter than `MAX_S`."""
        missing = round(LEAST_S * SAMPLE_RATE_HZ) - audio.size
        if missing > 0:
            audio = np.pad(audio, (0, missing))
        if self.size.endswith("streaming"):
            heard = self._continue_stream(audio)
        else:
            heard = self.model.transcribe_without_streaming(audio.tolist(), SAMPLE_RATE_HZ)
        return " ".join(line.text.strip() for line in heard.lines).strip()

    def _continue_stream(self, audio: FloatArray) -> Any:  # noqa: ANN401 - a package without types
        """Return the transcript of audio that may begin with what was heard before."""
        n_known = self._known.size
        if self._stream is None or not np.array_equal(audio[:n_known], self._known):
            self._leave_stream()
            self._stream, n_known = self.model.create_stream(), 0
            self._stream.start()
        if audio.size > n_known:
            self._stream.add_audio(audio[n_known:].tolist(), SAMPLE_RATE_HZ)
        self._known = audio.copy()
        return self._stream.update_transcription(self.model.MOONSHINE_FLAG_FORCE_UPDATE)

    def _leave_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _folder(self, kind: Any) -> str:  # noqa: ANN401 - a package without types
        """Return the folder of the weights: the given one, or the package's cache."""
        if Path(self._source).is_dir():
            return self._source
        from moonshine_voice import download

        try:
            about = download.find_model_info(_LANGUAGE, kind)
            folder, _ = download.download_model_from_info(about)
        except (OSError, ValueError) as error:  # of its HTTP library, too
            reason = " ".join(str(error).split())[:160]
            raise HubError(
                f"cannot fetch Moonshine {self.size} ({reason}); connect this machine, or give a "
                "folder with its weights"
            ) from error
        return str(folder)
