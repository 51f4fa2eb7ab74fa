"""The decoder's program, which is run in the process of the tests."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.decoder_process import PATIENCE_S, Asked, Decode, Message, messages
from whisper_hailo.audio import decode


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: Asked) -> Decode:
    """Runs the program on a file; what it says, as who started it reads it."""

    def run(path: Path) -> list[Message]:
        with ExitStack() as files, monkeypatch.context() as patch:
            said = files.enter_context((tmp_path / "said").open("w+"))
            patch.setattr(sys, "stdin", files.enter_context(path.open()))
            patch.setattr(sys, "stdout", said)
            patch.setattr(
                sys, "stderr", files.enter_context((tmp_path / "printed").open("w+"))
            )
            patch.setattr(sys, "argv", ["decode.py", str(PATIENCE_S)])
            decode.main()
            os.write(said.fileno(), b"what libsndfile prints")
        assert (tmp_path / "printed").read_bytes() == b"what libsndfile prints"
        return list(messages((tmp_path / "said").read_bytes()))

    return run
