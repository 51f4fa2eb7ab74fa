"""Settings of this project that are measured, and the transcriber that they make."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from whisper_hailo import Transcriber
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.runs.machine import cpu_s
from whisper_hailo_lab.wrappers import EncoderWrapper

MODELS_VARIABLE: Final = "WHISPER_HAILO_REAL_MODELS"
"""Folder of Hugging Face checkpoints, a folder each, named as `--model` names them."""


@dataclass(frozen=True, slots=True)
class AccuracySetup:
    """One row of a table.

    Attributes:
        model: name such as `base` or `tiny.en`, or a folder.
        quantize: weights, `none` or `int8`; the encoder's as well, unless `engine` has
            `encoder_quantize`.
        window_s: encoder window; `None` is the product's default.
        timestamps: the model writes times.
        language: `detected`, or `given` for that of each recording.
        engine: other named arguments of `Transcriber.from_model`.
        options: other named arguments of `Transcriber.transcribe`.
        label: what the name ends in, if anything.
    """

    model: str
    quantize: str = "int8"
    window_s: float | None = None
    timestamps: bool = False
    language: str = "detected"
    engine: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    @property
    def model_name(self) -> str:
        """Name of the model, without its folder."""
        return Path(self.model).name

    @property
    def window(self) -> str:
        """The window in seconds, or `default`."""
        return "default" if self.window_s is None else f"{self.window_s:g}"

    @property
    def name(self) -> str:
        """Name of the setup's file, such as `base-int8-w10-detected-text`."""
        times = "timestamps" if self.timestamps else "text"
        options = self.engine | self.options
        more = [f"{key}={value}" for key, value in options.items()]
        parts = [
            self.model_name,
            self.quantize,
            f"w{self.window}",
            self.language,
            times,
        ]
        parts += [self.label] if self.label else more
        return "-".join(parts).replace("/", "_")

    @property
    def engine_key(self) -> tuple[str, ...]:
        """Equal for setups that can share a transcriber."""
        engine = repr(sorted(self.engine.items()))
        return (self.model, self.quantize, self.window, engine)

    def as_json(self) -> dict[str, Any]:
        """Return everything but the model, as results keep it."""
        return {
            "quantize": self.quantize,
            "window": self.window,
            "timestamps": self.timestamps,
            "language": self.language,
            **self.engine,
            **self.options,
        }


def make_setups(
    models: Sequence[str],
    quantize: Sequence[str],
    windows: Sequence[str],
    timestamps: Sequence[str],
    languages: Sequence[str],
    **named: Any,  # noqa: ANN401 - fields of a setup
) -> list[AccuracySetup]:
    """Combine all values with one another; models vary slowest, languages fastest.

    Args:
        models: as `AccuracySetup.model`.
        quantize: as `AccuracySetup.quantize`.
        windows: seconds, or `default`.
        timestamps: `on` or `off`.
        languages: as `AccuracySetup.language`.
        named: fields that are the same for all.
    """
    return [
        AccuracySetup(
            model=model,
            quantize=form,
            window_s=None if window == "default" else float(window),
            timestamps=times == "on",
            language=language,
            **named,
        )
        for model, form, window, times, language in product(
            models, quantize, windows, timestamps, languages
        )
    ]


def locate_model(model: str) -> str:
    """Return a model's folder in `WHISPER_HAILO_REAL_MODELS`, or its name where it has none."""
    folder = os.environ.get(MODELS_VARIABLE)
    if not folder:
        return model
    path = Path(folder) / model
    return str(path) if path.is_dir() else model


_MelKey: TypeAlias = tuple[tuple[int, ...], bytes]
"""Shape and values of a log-mel."""

_Features: TypeAlias = tuple[FloatArray, float]
"""Audio features, and the processor seconds that they took."""


class RememberingEncoder(EncoderWrapper):
    """An encoder that computes each window of a recording once for all setups.

    Attributes:
        saved_s: processor seconds that remembered windows would have taken.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self.saved_s = 0.0
        self._known: dict[_MelKey, _Features] = {}

    def encode(self, mel: FloatArray) -> FloatArray:
        """Return audio features, remembered where the same log-mel came before."""
        key = (mel.shape, np.ascontiguousarray(mel).tobytes())
        if key in self._known:
            features, seconds = self._known[key]
            self.saved_s += seconds
            return features
        begin_s = cpu_s()
        features = self._encoder.encode(mel)
        self._known[key] = (features, cpu_s() - begin_s)
        return features

    def forget(self) -> None:
        """Forget all windows: another recording begins."""
        self._known.clear()


@contextmanager
def open_transcriber(
    setup: AccuracySetup, threads: int
) -> Iterator[tuple[Transcriber, RememberingEncoder]]:
    """Open a setup's transcriber, its encoder remembering.

    Raises:
        WhisperHailoError: model or engine cannot be had.
    """
    transcriber = Transcriber.from_model(
        locate_model(setup.model),
        convert=ConvertOptions(quantize=setup.quantize),
        window_s=setup.window_s,
        threads=threads,
        **setup.engine,
    )
    with transcriber:
        encoder = RememberingEncoder(transcriber.encoder)
        yield replace(transcriber, encoder=encoder, encode_ahead=False), encoder
