"""Moonshine behind its package: where weights are found, and streams of audio."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import moonshine_stand_in as stand_in
from whisper_hailo.backends.moonshine import SIZES, Moonshine
from whisper_hailo.core.errors import HubError, ModelError, OptionError
from whisper_hailo.core.process import install_command


def sound(n_samples: int) -> np.ndarray:
    return np.linspace(-1, 1, n_samples, dtype=np.float32)


def made(moonshine: Moonshine) -> Any:
    return moonshine.model


def test_moonshine_streams_new_audio_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in.install(monkeypatch)
    folder = stand_in.write_weights(tmp_path / "small-streaming-en" / "quantized")
    speech = sound(32_000)
    other = sound(8_000)[::-1].copy()
    with Moonshine(str(folder)) as moonshine:
        assert moonshine.size == "small-streaming"
        texts = [
            moonshine.transcribe(speech[:n]) for n in (3_200, 8_000, 8_000, 32_000)
        ]
        assert [text.split()[-1] for text in texts] == ["t1", "t4", "t4", "t19"]
        assert made(moonshine).given == [3_200, 4_800, 24_000]
        assert moonshine.transcribe(other).split()[-1] == "t4", (
            "another sound begins anew"
        )
        assert moonshine.transcribe(other[:4_800]).split()[-1] == "t2", (
            "so does a shorter one"
        )
        longer = sound(9_600) / 2
        assert moonshine.transcribe(longer).split()[-1] == "t5", (
            "and one that goes on otherwise"
        )
        assert made(moonshine).n_streams == 4
        longer[:] = other[:1].repeat(9_600)
        moonshine.transcribe(longer)
        assert made(moonshine).n_streams == 5, (
            "what its caller writes over is another, too"
        )
        package = made(moonshine)
    assert package.closed


def test_moonshine_without_streaming_takes_all_audio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in.install(monkeypatch, tmp_path)
    with Moonshine("tiny") as moonshine:
        assert moonshine.transcribe(sound(16_000)).split()[-1] == "t9"
        assert moonshine.transcribe(sound(100)) == "t0 t1", "it is filled up"
        assert made(moonshine).given == [16_000, 3_200]


def test_moonshine_takes_weights_from_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in.install(monkeypatch, tmp_path)
    for size in SIZES:
        with Moonshine(size) as moonshine:
            assert made(moonshine).streams == size.endswith("streaming")


def test_moonshine_without_weights_or_package_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in.install(monkeypatch)
    with pytest.raises(HubError, match=r"tiny \(Max retries exceeded with url\)"):
        Moonshine("tiny").open()
    for source in ("huge", str(tmp_path)):
        with pytest.raises(
            OptionError, match=f"{re.escape(repr(source))}.*{', '.join(SIZES)}"
        ):
            Moonshine(source)
    empty = tmp_path / "tiny-en"
    empty.mkdir()
    with pytest.raises(ModelError, match=r"/tiny-en .*moonshine-voice download"):
        Moonshine(str(empty)).open()
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    with pytest.raises(OptionError, match=re.escape(install_command("moonshine"))):
        Moonshine("tiny").open()


def test_moonshine_stand_in_has_interface_of_package(tmp_path: Path) -> None:
    package = pytest.importorskip(
        "moonshine_voice", reason="the moonshine extra is not installed"
    )
    for name in ("Transcriber", "Stream"):
        ours = getattr(stand_in, name)
        theirs = getattr(package, name)
        for method, function in inspect.getmembers(ours, inspect.isfunction):
            taken = list(inspect.signature(function).parameters)
            known = list(inspect.signature(getattr(theirs, method)).parameters)
            assert taken == known[: len(taken)], (name, method)
    for kind in stand_in.ModelArch:
        assert package.ModelArch[kind.name] == kind
    for size in SIZES:
        assert package.string_to_model_arch(size) == stand_in.string_to_model_arch(size)
    folder = tmp_path / "tiny-streaming-en"
    folder.mkdir()
    with pytest.raises(
        ModelError, match=r"tiny-streaming-en.*moonshine-voice download"
    ):
        Moonshine(str(folder)).open()
