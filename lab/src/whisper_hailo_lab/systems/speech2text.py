"""Hailo's Speech2Text, the vendor's whole pipeline on a Hailo-10H; needs HailoRT 5.1.1."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.hailo.binding import load_binding
from whisper_hailo.backends.hailo.chip import Lease
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.watchdog import ANSWER_S, bounded
from whisper_hailo.backends.options import ALONE, ChipOptions
from whisper_hailo.core.errors import BindingMismatchError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    Loading,
    SystemResult,
    WholeModel,
)

WINDOW_S: Final = 30

_LOUDEST: Final = np.nextafter(np.float32(1), np.float32(0))
"""Largest sample that the engine takes: it must be below 1."""

_PATIENCE: Final = 3
"""Factor of our time-out to HailoRT's, which may wait twice as long as it is told."""


class Speech2Text(WholeModel):
    """The vendor's log-mel, encoder and decoder without a cache, on consecutive windows.

    It loads a HEF with both halves, such as the vendor's `Whisper-Base.hef`.
    """

    packages = ("numpy",)

    def __init__(self, loading: Loading, options: ChipOptions = ALONE) -> None:
        super().__init__(loading)
        self._hef = read_hef(Path(loading.path), verify=False)
        self._options = options
        self._lease = Lease(self._hef, "", options)

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Open the chip and load the network."""
        self._genai = _load_genai()
        self._lease.open()
        try:
            self._model = watch("model", self._load)
        except BaseException:
            self._lease.close()
            raise
        return {"engine": f"speech2text-{self._hef.arch}"}

    def close(self) -> None:
        """Release the engine, then the chip."""
        model = self._model
        self._model = None
        if model is not None:
            # A model that has failed may raise anything here.
            with (
                bounded(ANSWER_S, "releasing Speech2Text"),
                contextlib.suppress(Exception),
            ):
                model.release()
        self._lease.close()

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return the text of consecutive windows, and the time of all."""
        begin = perf_counter()
        size = WINDOW_S * SAMPLE_RATE_HZ
        texts = [
            self._recognize(audio[start : start + size], language)
            for start in range(0, max(1, audio.size), size)
        ]
        elapsed_ms = (perf_counter() - begin) * 1000.0
        text = " ".join(text for text in texts if text)
        return SystemResult(text, {"decode": elapsed_ms})

    def _recognize(self, audio: FloatArray, language: str) -> str:
        """Return the text of one window."""
        samples = np.ascontiguousarray(np.clip(audio, -1, _LOUDEST), dtype=np.float32)
        doing = "recognising speech"
        with (
            bounded(_PATIENCE * self._options.timeout_s, doing),
            self._lease.chip.faults.during(doing, self._hef, running=True),
        ):
            text = self._model.generate_all_text(
                audio_data=samples,
                task=self._genai.Speech2TextTask.TRANSCRIBE,
                language=language,
                timeout_ms=round(1000 * self._options.timeout_s),
            )
        return str(text).strip()

    def _load(self) -> Any:  # noqa: ANN401 - a package without types
        """Return the engine with the network loaded."""
        chip = self._lease.chip
        chip.check(self._hef)
        loading = f"loading {self._hef.path}"
        with (
            bounded(self._options.open_timeout_s, loading),
            chip.faults.during(loading, self._hef),
        ):
            return self._genai.Speech2Text(chip.vdevice, str(self._hef.path))


def _load_genai() -> Any:  # noqa: ANN401 - a package without types
    """Import the generative part of the binding, which HailoRT has since 5.1.1."""
    load_binding()
    try:
        return import_module("hailo_platform.genai")
    except Exception as error:
        # Its import raises exceptions of its own.
        raise BindingMismatchError(
            f"Hailo's binding has no Speech2Text ({error}); it needs HailoRT 5.1.1 or newer and a "
            "Hailo-10H"
        ) from error
