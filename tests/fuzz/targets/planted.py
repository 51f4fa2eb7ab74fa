"""Faults that the lane has to find: what a test of the lane itself runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from random import Random

from tests.fuzz.target import Input
from whisper_hailo.core.errors import ModelError

KINDS = ("ok", "refused", "internal", "traceback", "memory", "crash", "hang")
"""What comes of an input; the last two end the process. `leak` is another, which no case draws."""


class Fuzzed:
    """Each case has one of the faults."""

    def prepare(self, base: Path) -> None:
        """Leak nothing yet."""
        self._leaked: list[int] = []

    def make(self, rng: Random, base: Path) -> Input:
        """The fault by the case's own chance, so that it does not depend on what ran before."""
        return "fault", rng.choice(KINDS).encode()

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Have it."""
        kind = content.decode()
        if kind == "refused":
            raise ModelError("as it should be")
        if kind == "internal":
            raise KeyError("planted")
        if kind == "traceback":
            threading.Thread(target=lambda: {}["planted"]).start()
            time.sleep(0.1)
        if kind == "leak":
            self._leaked.append(os.open(os.devnull, os.O_RDONLY))
        if kind == "memory":
            len(b"x" * (500 << 20))
        if kind == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if kind == "hang":
            while True:
                pass
