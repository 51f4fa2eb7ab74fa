"""Reads audio that another process decodes, which bad files may crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, BinaryIO, Final

import numpy as np

from whisper_hailo.audio import decode
from whisper_hailo.audio.copies import with_descriptor
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.types import FloatArray

PATIENCE_S: Final = 10.0
"""Processor time after which a decoder without output is ended."""


class BrokenOffError(Exception):
    """The decoder cannot go on; what came before is good."""


class ForeignReader:
    """Reads formats that are not safe in this process, or need FFmpeg, through `decode`.

    That process has limits of memory, and of processor time without a sample. If it crashes, the
    file breaks off.
    """

    def __init__(self, file: BinaryIO, label: str) -> None:
        with ExitStack() as resources:
            self._process = _start(file, label, resources)
            kind, payload = self._first_message(label)
            if kind == decode.REFUSED:
                raise _refusal(label, **json.loads(payload))
            self._resources = resources.pop_all()
        self.sample_rate_hz: int
        self.n_channels: int
        self.n_frames: int | None
        self.sample_rate_hz, self.n_channels, self.n_frames = json.loads(payload)

    def _first_message(self, label: str) -> tuple[bytes, bytes]:
        try:
            return self._message()
        except BrokenOffError as error:
            raise AudioError(
                f"{label} cannot be opened ({error}), expected sound; export the file again"
            ) from error

    def _message(self) -> tuple[bytes, bytes]:
        """Read the kind and payload of the next message."""
        pipe: IO[bytes] = self._process.stdout  # type: ignore[assignment] # there is one
        head = pipe.read(5)
        size = int.from_bytes(head[1:], "little")
        payload = pipe.read(size)
        if len(head) == 5 and len(payload) == size:
            return head[:1], payload
        code = self._process.wait()
        if code == -signal.SIGPROF:
            raise BrokenOffError(f"the decoder gave nothing for {PATIENCE_S:g} s")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise BrokenOffError(f"the decoder crashed, {how}")

    def blocks(self) -> Iterator[FloatArray]:
        """Yield `(n, n_channels)` float32; raises `BrokenOffError` where the file breaks off."""
        while True:
            kind, payload = self._message()
            if kind == decode.AUDIO:
                yield np.frombuffer(payload, "<f4").reshape(-1, self.n_channels)
            elif payload:
                raise BrokenOffError(payload.decode(errors="replace"))
            else:
                return

    def close(self) -> None:
        """End the process; the file stays the caller's."""
        self._resources.close()


def _start(file: BinaryIO, label: str, resources: ExitStack) -> subprocess.Popen[bytes]:
    """Start the decoding process; it ends with the resources."""
    # The file of the program, not its name: importing our packages would import NumPy.
    command = [sys.executable, "-P", decode.__file__, str(PATIENCE_S)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        process = subprocess.Popen(
            command,
            stdin=with_descriptor(file, label, resources),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    except OSError as error:
        raise AudioError(
            f"{label} needs a process to be decoded in, and none can be had ({error.strerror}); "
            "free some memory, or end other programs"
        ) from error
    resources.enter_context(process)  # closes the pipe and waits
    resources.callback(process.kill)
    return process


def _refusal(label: str, why: str, *, lacks_ffmpeg: bool) -> AudioError:
    expected = "a whole audio or video file; try it in a player, or export it again"
    if lacks_ffmpeg:
        expected = (
            "a whole WAV, FLAC, OGG or MP3 file; for m4a, mp4, webm and the like: "
            + install_command("media")
        )
    return AudioError(f"{label} is not readable audio ({why}), expected {expected}")
