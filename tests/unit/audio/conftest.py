"""The program of the decoder process, run in the process of the tests."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.decoder_process import (
    PATIENCE_S,
    Decode,
    Message,
    RecordedSystemCalls,
    messages,
)
from whisper_hailo.audio import decode


@pytest.fixture
def system_calls(monkeypatch: pytest.MonkeyPatch) -> RecordedSystemCalls:
    return RecordedSystemCalls(monkeypatch)


@pytest.fixture
def decoded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system_calls: RecordedSystemCalls
) -> Decode:
    """Run the program on a file and return its messages."""

    def run(path: Path) -> list[Message]:
        with ExitStack() as files, monkeypatch.context() as patch:
            reply = files.enter_context((tmp_path / "reply").open("w+"))
            patch.setattr(sys, "stdin", files.enter_context(path.open()))
            patch.setattr(sys, "stdout", reply)
            patch.setattr(
                sys, "stderr", files.enter_context((tmp_path / "printed").open("w+"))
            )
            patch.setattr(sys, "argv", ["decode.py", str(PATIENCE_S)])
            decode.main()
            os.write(reply.fileno(), b"what libsndfile prints")
        assert (tmp_path / "printed").read_bytes() == b"what libsndfile prints"
        return list(messages((tmp_path / "reply").read_bytes()))

    return run
