"""A strict stand-in for `moonshine-voice` 0.1.5, whose weights cannot be had everywhere.

It has what ours uses of the package, refuses what the package refuses (seen by calling it), and
says of each sound how long it is: a word for each tenth of a second.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

STREAMING_FILES = (
    *(
        "adapter.ort",
        "cross_kv.ort",
        "decoder_kv.ort",
        "encoder.ort",
        "frontend.model.ort",
    ),
    *("frontend.weights.ort", "streaming_config.json", "tokenizer.bin"),
)
FILES = ("encoder_model.ort", "decoder_model_merged.ort", "tokenizer.bin")
_OPTIONS = {
    "vad_threshold",
    "return_audio_data",
    "word_timestamps",
    "identify_speakers",
}


class MoonshineError(Exception):
    """As the package's."""


class ModelArch(IntEnum):
    TINY = 0
    BASE = 1
    TINY_STREAMING = 2
    BASE_STREAMING = 3
    SMALL_STREAMING = 4
    MEDIUM_STREAMING = 5


def string_to_model_arch(name: str) -> ModelArch:
    return ModelArch[name.upper().replace("-", "_")]


def _heard(n_samples: int) -> Any:
    words = " ".join(f"t{index}" for index in range(n_samples // 1600))
    return SimpleNamespace(lines=[SimpleNamespace(text=f" {words}")] if words else [])


class Stream:
    """Audio that goes on."""

    def __init__(self, transcriber: Transcriber) -> None:
        self._transcriber = transcriber
        self._n_samples = 0
        self._started = self._closed = False

    def start(self) -> None:
        self._started = True

    def add_audio(self, audio_data: list[float], sample_rate: int = 16_000) -> None:
        assert self._started
        assert not self._closed
        assert isinstance(audio_data, list)
        assert audio_data
        assert sample_rate == 16_000
        self._n_samples += len(audio_data)
        self._transcriber.given.append(len(audio_data))

    def update_transcription(self, flags: int = 0) -> Any:
        assert flags == Transcriber.MOONSHINE_FLAG_FORCE_UPDATE
        assert not self._closed
        return _heard(self._n_samples)

    def close(self) -> None:
        self._closed = True


class Transcriber:
    MOONSHINE_FLAG_FORCE_UPDATE = 1

    def __init__(
        self,
        model_path: str,
        model_arch: ModelArch = ModelArch.BASE,
        update_interval: float = 0.5,
        options: dict[str, str] | None = None,
    ) -> None:
        assert update_interval > 60, "it would look at each piece by itself"
        streams = model_arch not in (ModelArch.TINY, ModelArch.BASE)
        needed = STREAMING_FILES if streams else FILES
        there = all(Path(model_path, name).is_file() for name in needed)
        if not there or set(options or {}) - _OPTIONS:
            raise MoonshineError("Failed to load transcriber: Unknown error")
        self.streams = streams
        self.given: list[int] = []
        self.n_streams = 0
        self.closed = False

    def transcribe_without_streaming(
        self, audio_data: list[float], sample_rate: int
    ) -> Any:
        assert isinstance(audio_data, list)
        assert sample_rate == 16_000
        self.given.append(len(audio_data))
        return _heard(len(audio_data))

    def create_stream(self) -> Stream:
        assert self.streams
        self.n_streams += 1
        return Stream(self)

    def close(self) -> None:
        self.closed = True


def install(monkeypatch: pytest.MonkeyPatch, cache: Path | None = None) -> None:
    """Put it in the package's place.

    Args:
        cache: where weights are fetched to; `None`: there is no network.
    """

    def find_model_info(
        language: str = "en", model_arch: ModelArch | None = None
    ) -> Any:
        assert language == "en"
        return {"model_arch": model_arch}

    def download_model_from_info(about: Any) -> tuple[str, ModelArch]:
        if cache is None:
            raise ConnectionError("Max retries exceeded\nwith url")
        kind: ModelArch = about["model_arch"]
        folder = cache / f"{kind.name.lower().replace('_', '-')}-en"
        write_weights(folder)
        return str(folder), kind

    package = ModuleType("moonshine_voice")
    download = ModuleType("moonshine_voice.download")
    vars(download).update(
        find_model_info=find_model_info,
        download_model_from_info=download_model_from_info,
    )
    vars(package).update(
        MoonshineError=MoonshineError,
        Transcriber=Transcriber,
        string_to_model_arch=string_to_model_arch,
        download=download,
    )
    monkeypatch.setitem(sys.modules, "moonshine_voice", package)
    monkeypatch.setitem(sys.modules, "moonshine_voice.download", download)


def write_weights(folder: Path) -> Path:
    """A folder that has files of the right names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in {*FILES, *STREAMING_FILES}:
        (folder / name).write_bytes(b"")
    return folder
