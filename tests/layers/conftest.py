"""A model, its HEFs and the layer of every release, made once."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, Command, environment, whisper_hailo
from tests.layers import vendor
from tests.standin.make_hef import write_hefs

__all__ = ["environment", "whisper_hailo"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@dataclass(frozen=True)
class Files:
    """A model directory, encoder and decoder for each kind of chip, and the text of the demo."""

    model: Path
    earlier: tuple[Path, Path]
    later: tuple[Path, Path]
    text: str


@pytest.fixture(scope="session")
def files(whisper_hailo: Command, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("layers")
    model = folder / "micro"
    assert whisper_hailo("convert", "micro", model, "--hailo").returncode == 0
    return Files(
        model,
        write_hefs(model, folder / "8l"),
        write_hefs(model, folder / "10h", "hailo10h", "chip"),
        whisper_hailo("transcribe", "--model", model, DEMO).stdout,
    )


@pytest.fixture(scope="session")
def under(whisper_hailo: Command, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the command under a release's layer: its tag, words, and facts as keywords."""

    @cache
    def installed(tag: str) -> Path:
        return vendor.install(tag, tmp_path_factory.mktemp(tag))

    def run(
        tag: str, *words: object, **facts: object
    ) -> subprocess.CompletedProcess[str]:
        chip = {"chip": "hailo10h"} if tag in vendor.LATER else {"pybind": "new"}
        env = vendor.environment(tag, installed(tag), **{**chip, **facts})
        return whisper_hailo(*words, env=env)

    return run
