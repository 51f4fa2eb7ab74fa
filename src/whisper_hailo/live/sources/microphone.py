"""Microphones through PortAudio (`sounddevice`); the only file that knows it."""

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
from whisper_hailo.live.sources.source import BLOCK_S, LOOK_S, AudioQueue, Block, Pace

logger = logging.getLogger(__name__)

SILENCE_TIMEOUT_S: Final = 5.0
"""A device that gives nothing for so long is gone."""

_PORT: Final = re.compile(r"\s*\(hw:[^)]*\)")
"""Of a device, behind its name."""

CLOSE_TIMEOUT_S: Final = 5.0
"""A stream that is not closed by then never will be."""


@dataclass(frozen=True, slots=True)
class InputDevice:
    """An input device, by PortAudio's number of it."""

    index: int
    name: str
    n_channels: int
    rate_hz: int
    is_default: bool


def input_devices() -> list[InputDevice]:
    """Return all input devices, at least one.

    Raises:
        DeviceError: there is none, or PortAudio is missing or failed.
    """
    sounddevice = _import_sounddevice()
    try:
        found = list(sounddevice.query_devices())
        default = int(sounddevice.default.device[0])
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"sound devices cannot be listed ({error}); is ALSA set up?") from error
    devices = [
        InputDevice(
            index, str(one["name"]), n_channels, round(one["default_samplerate"]), index == default
        )
        for index, one in enumerate(found)
        if (n_channels := int(one["max_input_channels"]))
    ]
    if not devices:
        raise DeviceError("no microphone found; plug one in, or give a file or - for raw PCM")
    return devices


def choose_device(wanted: str, before: str = "") -> InputDevice:
    """Return a device by its number or a part of its name; empty is the default one.

    One that was open `before` by that name is found by it, since its number may have changed.

    Raises:
        OptionError: none of that name or number, or several.
    """
    devices = input_devices()
    listed = "; ".join(f"{device.index}: {device.name}" for device in devices)
    if not wanted:
        return next((device for device in devices if device.is_default), devices[0])
    if wanted.isdigit() and before:
        model = _PORT.sub("", before)
        fitting = [device for device in devices if _PORT.sub("", device.name) == model][:1]
    elif wanted.isdigit():
        fitting = [device for device in devices if device.index == int(wanted)]
    else:
        fitting = [device for device in devices if wanted.casefold() in device.name.casefold()]
    if len(fitting) != 1:
        how_many = "several devices fit" if fitting else "no input device fits"
        raise OptionError(f"--mic is {wanted!r}, {how_many}; there are {display_path(listed)}")
    return fitting[0]


class MicrophoneSource(Closing):
    """Records at the rate of the device that `choose_device` returns, and gives 16 kHz mono."""

    pace = Pace.PULL  # PortAudio's thread keeps what comes meanwhile
    endless = True

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted
        self.name = f"microphone {wanted}".strip()
        self._device_name = ""
        self._hangs = False
        self._stream: Any = None
        self._queue: AudioQueue | None = None

    def open(self) -> Self:
        """Begin to record; again, from the device that has the name by now."""
        sounddevice = _import_sounddevice()
        # PortAudio knows the devices that there were when it began; its end would wait for a stream
        # that hangs, too.
        if self._device_name and not self._hangs:
            sounddevice._terminate()
            sounddevice._initialize()
        device = choose_device(self._wanted, self._device_name)
        self.name = self._device_name = device.name
        queue = self._queue = AudioQueue()
        resampler = Resampler(device.rate_hz)

        def hear(data: NDArray[np.float32], _n: int, _time: object, status: object) -> None:
            """Runs on PortAudio's thread and takes a tenth of a millisecond per block."""
            captured_s = time.perf_counter()
            audio = resampler.push(data.mean(axis=1, dtype=np.float32))
            queue.put(Block(audio, captured_s, n_faults=int(bool(status))))

        try:
            self._stream = sounddevice.InputStream(
                device=device.index,
                samplerate=device.rate_hz,
                channels=min(device.n_channels, 2),
                blocksize=round(device.rate_hz * BLOCK_S),
                dtype="float32",
                callback=hear,
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
        if self._queue is None:
            raise AudioError(f"{self.name} is not open; call open() or use a with block")
        quiet_s = 0.0
        for block in self._queue.blocks():
            quiet_s = 0.0 if block.audio.size else quiet_s + LOOK_S
            if quiet_s > SILENCE_TIMEOUT_S:
                raise DeviceError(f"{self.name} gives no sound any more; was it unplugged?")
            yield block

    def close(self) -> None:
        """Let the device go, or leave it alone where its library hangs.

        PulseAudio's may deadlock when the server dies during recording (seen with 16.1), and no
        signal could end captions that hang, too.
        """
        stream, self._stream = self._stream, None

        def let_go() -> None:
            stream.abort()  # one that is gone would be waited for
            stream.close()

        if stream is not None:
            closing = threading.Thread(target=let_go, name="microphone-close", daemon=True)
            closing.start()
            closing.join(CLOSE_TIMEOUT_S)
            if closing.is_alive():
                self._hangs = True
                atexit.unregister(_import_sounddevice()._exit_handler)
                logger.warning("%s does not let go of its stream, which is left alone", self.name)
        if self._queue is not None:
            self._queue.end()


def _import_sounddevice() -> Any:  # noqa: ANN401 - a module without types
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: the PortAudio library itself is missing
        raise DeviceError(
            f"microphones need sounddevice and PortAudio ({error}); "
            f"sudo apt install libportaudio2, and {install_command('live')}"
        ) from error
    return sounddevice
