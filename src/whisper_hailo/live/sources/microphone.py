"""Microphones through PortAudio (`sounddevice`), which only this file imports."""

from __future__ import annotations

import atexit
import logging
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.stream import Resampler
from whisper_hailo.core.errors import AudioError, DeviceError, OptionError, display_path
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.live.sources.source import BLOCK_S, POLL_S, AudioQueue, Block, Pace

logger = logging.getLogger(__name__)

SILENCE_TIMEOUT_S: Final = 5.0
"""A device that gives nothing for so long is gone."""

_PORT: Final = re.compile(r"\s*\(hw:[^)]*\)")
"""ALSA's number of a device, behind its name; it may change when the device is plugged in again."""

CLOSE_TIMEOUT_S: Final = 5.0
"""A stream that is not closed by then never will be."""


@dataclass(frozen=True, slots=True)
class InputDevice:
    """An input device; `index` is PortAudio's number of it."""

    index: int
    name: str
    n_channels: int
    rate_hz: int
    is_default: bool


def list_input_devices() -> list[InputDevice]:
    """Return all input devices, at least one.

    Raises:
        DeviceError: there is none, or PortAudio is missing or failed.
    """
    sounddevice = _import_sounddevice()
    try:
        entries = list(sounddevice.query_devices())
        default = int(sounddevice.default.device[0])
    except sounddevice.PortAudioError as error:
        raise DeviceError(
            f"sound devices cannot be listed ({error}); is ALSA set up?"
        ) from error
    devices = [
        InputDevice(
            index,
            str(entry["name"]),
            int(entry["max_input_channels"]),
            round(entry["default_samplerate"]),
            is_default=index == default,
        )
        for index, entry in enumerate(entries)
        if entry["max_input_channels"]  # others only play
    ]
    if not devices:
        raise DeviceError(
            "no microphone found; plug one in, or give a file or - for raw PCM"
        )
    return devices


def choose_device(choice: str, last_name: str = "") -> InputDevice:
    """Return a device by its number or a part of its name; empty is the default one.

    A device that was open before is found by its `last_name`, since its number may have changed.

    Raises:
        OptionError: none of that name or number, or several.
    """
    devices = list_input_devices()
    if not choice:
        return next((device for device in devices if device.is_default), devices[0])
    if choice.isdigit() and last_name:
        model = _PORT.sub("", last_name)
        matches = [device for device in devices if _PORT.sub("", device.name) == model]
        matches = matches[:1]  # of two of a model, either may be the one
    elif choice.isdigit():
        matches = [device for device in devices if device.index == int(choice)]
    else:
        part = choice.casefold()
        matches = [device for device in devices if part in device.name.casefold()]
    if len(matches) != 1:
        problem = "several devices fit" if matches else "no input device matches"
        names = "; ".join(f"{device.index}: {device.name}" for device in devices)
        raise OptionError(
            f"--mic is {choice!r}, {problem}; there are {display_path(names)}"
        )
    return matches[0]


class _BlockReceiver:
    """Queues what PortAudio's thread delivers, as 16 kHz mono, until it is closed.

    Attributes:
        queue: the blocks, which can be read to their end after `close`.
    """

    def __init__(self, rate_hz: int) -> None:
        self.queue = AudioQueue()
        self._resampler: Resampler | None = Resampler(rate_hz)

    def receive(
        self, data: NDArray[np.float32], _n: int, _time: object, status: object
    ) -> None:
        """Queue a block of `(n_samples, n_channels)`, in a tenth of a millisecond."""
        captured_s = time.perf_counter()
        resampler = self._resampler
        if resampler is None:
            return  # a stream that hangs may still deliver
        audio = resampler.push(data.mean(axis=1, dtype=np.float32))
        self.queue.put(Block(audio, captured_s, n_faults=int(bool(status))))

    def close(self) -> None:
        """End the queue and free the resampler.

        A stream of sounddevice outlives its closing, in a cycle with its callback, and one that
        hangs lives on in its thread: soxr would report the resampler as leaked when Python ends.
        """
        self._resampler = None
        self.queue.end()


class MicrophoneSource(Closing):
    """Records at the rate of the device that `choose_device` returns, and gives 16 kHz mono."""

    pace = Pace.PULL  # PortAudio's thread queues what comes while the reader computes
    endless = True

    def __init__(self, choice: str = "") -> None:
        self._choice = choice
        self.name = f"microphone {choice}".strip()
        self._device_name = ""
        self._hangs = False
        self._stream: Any = None
        self._receiver: _BlockReceiver | None = None

    def open(self) -> Self:
        """Begin to record; when opened again, from the device that has the same name now."""
        sounddevice = _import_sounddevice()
        # PortAudio lists the devices of when it was initialised. Terminating it would wait for a
        # stream that hangs, for ever.
        if self._device_name and not self._hangs:
            sounddevice._terminate()
            sounddevice._initialize()
        device = choose_device(self._choice, self._device_name)
        self.name = device.name
        self._device_name = device.name
        self._receiver = _BlockReceiver(device.rate_hz)
        try:
            self._stream = sounddevice.InputStream(
                device=device.index,
                samplerate=device.rate_hz,
                channels=min(device.n_channels, 2),
                blocksize=round(device.rate_hz * BLOCK_S),
                dtype="float32",
                callback=self._receiver.receive,
            )
            self._stream.start()
        except sounddevice.PortAudioError as error:
            raise DeviceError(
                f"{device.name} cannot be opened ({error}); close other programs that record, or "
                "choose another with --mic"
            ) from error
        return self

    def blocks(self) -> Iterator[Block]:
        """Yield what was recorded, until the source is closed."""
        if self._receiver is None:
            raise AudioError(
                f"{self.name} is not open; call open() or use a with block"
            )
        quiet_s = 0.0
        for block in self._receiver.queue.blocks():
            quiet_s = 0.0 if block.audio.size else quiet_s + POLL_S
            if quiet_s > SILENCE_TIMEOUT_S:
                raise DeviceError(
                    f"{self.name} stopped delivering audio; was it unplugged?"
                )
            yield block

    def close(self) -> None:
        """Close the device, or abandon it where its library hangs.

        PulseAudio's may deadlock when the server dies during recording (seen with 16.1), and then
        no signal could end the captions either.
        """
        stream = self._stream
        self._stream = None
        if stream is not None:
            self._close_stream(stream)
        if self._receiver is not None:
            self._receiver.close()

    def _close_stream(self, stream: Any) -> None:  # noqa: ANN401 - a class without types
        """Close a stream on a thread of its own, which may hang."""

        def close() -> None:
            stream.abort()  # `stop` would wait for a device that is gone
            stream.close()

        thread = threading.Thread(target=close, name="microphone-close", daemon=True)
        thread.start()
        thread.join(CLOSE_TIMEOUT_S)
        if thread.is_alive():
            self._hangs = True
            # At exit sounddevice terminates PortAudio, which would wait for the stream.
            atexit.unregister(_import_sounddevice()._exit_handler)
            logger.warning("%s does not close its stream; abandoning it", self.name)


def _import_sounddevice() -> Any:  # noqa: ANN401 - a module without types
    try:
        import sounddevice
    except (
        ImportError,
        OSError,
    ) as error:  # OSError: the PortAudio library itself is missing
        raise DeviceError(
            f"microphones need sounddevice and PortAudio ({error}); "
            f"sudo apt install libportaudio2, and {install_command('live')}"
        ) from error
    return sounddevice
