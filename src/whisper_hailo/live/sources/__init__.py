"""Sources of live audio: files, pipes, addresses, microphones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from whisper_hailo.live.sources.source import AudioSource


def open_source(
    what: str | None,
    *,
    microphone: str | None = None,
    real_time: bool = False,
    rate_hz: int = SAMPLE_RATE_HZ,
    loops: int = 1,
    patience_s: float | None = None,
    split: bool = False,
) -> AudioSource:
    """Return the source that a command line names, not open yet.

    `what` is a file, `-` for raw PCM on standard input, or an address such as `rtsp://...`; an
    empty `microphone` is the default one. A microphone or an endless stream may be away for
    `patience_s`: `None` is for ever, or `ADDRESS_PATIENCE_S` for a stream.
    """
    from whisper_hailo.live.sources.file import FileSource, PcmSource
    from whisper_hailo.live.sources.wrappers import ADDRESS_PATIENCE_S, ReopenedSource

    if (what is None) == (microphone is None):
        raise OptionError("give one of: a FILE, - for raw PCM, an address, or --mic DEVICE")
    if what is None:
        from whisper_hailo.live.sources.microphone import MicrophoneSource

        return ReopenedSource(MicrophoneSource(microphone or "", split=split), patience_s)
    if what == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise OptionError("standard input is a terminal; pipe raw 16-bit mono samples in")
        return PcmSource(sys.stdin.fileno(), rate_hz)
    if "://" in what:
        from whisper_hailo.live.sources.network import NetworkSource

        patience_s = ADDRESS_PATIENCE_S if patience_s is None else patience_s
        return ReopenedSource(NetworkSource(what), patience_s)
    return FileSource(what, real_time=real_time, loops=loops, split=split)
