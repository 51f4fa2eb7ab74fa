"""Hailo's own Speech2Text (10H, HailoRT 5.1.1 and later): samples in, text out, a baseline."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from whisper_hailo.backends.hailo.binding import load_genai
from whisper_hailo.backends.hailo.bounded import ANSWER_S, bounded
from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.lease import ChipLease
from whisper_hailo.backends.hailo.options import ALONE, ChipOptions
from whisper_hailo.backends.hef.read import HefFile, read_hef
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import DeviceError, OptionError
from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import Cures, DecodingOptions

_LOUDEST: Final = np.nextafter(np.float32(1), np.float32(0))
"""Samples are below 1."""

_PATIENCE: Final = 3
"""Times the time-out that HailoRT is told, which may wait twice as long."""


class Speech2Text(Closing):
    """The vendor's whole pipeline on the chip: log-mel, encoder and a decoder without a cache.

    Args:
        path: a HEF that holds both halves, such as the vendor's `Whisper-Base.hef`.
        spec: the model that it should be of.
        options: how the chip is used.

    Raises:
        HefError: broken or no HEF.
    """

    def __init__(self, path: Path, spec: ModelSpec, options: ChipOptions = ALONE) -> None:
        self._hef: HefFile = read_hef(path, verify=False)
        self._spec = spec
        self._options = options
        self._lease = ChipLease(self._options)
        self._engine: Any = None
        self._tasks: Any = None

    @property
    def spec(self) -> ModelSpec:
        """The model that this engine runs."""
        return self._spec

    @property
    def name(self) -> str:
        """Such as `speech2text-hailo10h`: with the chip that the file is for."""
        return f"speech2text-{self._hef.arch}"

    def open(self) -> Self:
        """Open the chip and load the network.

        Raises:
            NoBindingError, BindingMismatchError: no binding, or one without Speech2Text.
            DeviceError, HefError: each says what to do.
        """
        if self._engine is None:
            genai = load_genai()
            self._lease.open()
            try:
                self._engine = self._load(genai)
            except BaseException:
                self._lease.close()
                raise
        return self

    def close(self) -> None:
        """Release the engine, then the chip."""
        engine, self._engine = self._engine, None
        if engine is not None:
            with bounded(ANSWER_S, "releasing Speech2Text"), contextlib.suppress(Exception):
                engine.release()  # it may have failed already
        self._lease.close()

    def check(self, options: DecodingOptions) -> None:
        """Refuse what Speech2Text cannot honour.

        Raises:
            OptionError: language detection, cures, or a token budget.
        """
        if options.language == AUTO_LANGUAGE:
            raise OptionError("Speech2Text does not detect languages; give --language")
        if options.cures != Cures() or options.max_new_tokens is not None:
            raise OptionError(
                "Speech2Text has a loop of its own without cures or token budget; leave them out, "
                "or use a HEF encoder with --decoder-backend cached"
            )

    def recognize_audio(self, audio: FloatArray, options: DecodingOptions) -> str:
        """Text of one window.

        Args:
            audio: `(n_samples,)` float32, 16 kHz mono in [-1, 1].
            options: language and task.

        Raises:
            DeviceError: the run failed.
        """
        if self._engine is None:
            raise DeviceError(f"{self.name} is not open; call open() or use a with block")
        samples = np.ascontiguousarray(np.clip(audio, -1, _LOUDEST), dtype=np.float32)
        milliseconds = round(1000 * self._options.timeout_s)
        with (
            bounded(_PATIENCE * self._options.timeout_s, "recognising speech"),
            self._faults().during("recognising speech", self._hef, running=True),
        ):
            text = self._engine.generate_all_text(
                audio_data=samples,
                task=self._tasks[options.task.upper()],
                language=options.language,
                timeout_ms=milliseconds,
            )
        return str(text).strip()

    def _load(self, genai: Any) -> Any:  # noqa: ANN401
        self._tasks = genai.Speech2TextTask
        chip = self._lease.chip
        chip.check(self._hef)
        loading = f"loading {self._hef.path}"
        with (
            bounded(self._options.open_timeout_s, loading),
            self._faults().during(loading, self._hef),
        ):
            return genai.Speech2Text(chip.vdevice, str(self._hef.path))

    def _faults(self) -> Faults:
        return self._lease.chip.faults
