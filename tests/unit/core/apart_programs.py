"""What `test_apart` has fetched: nothing."""

from __future__ import annotations

import os
import signal

from whisper_hailo.core.apart import answer
from whisper_hailo.core.errors import ModelError


def work(word: str) -> None:
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ModelError(f"{word} has no end")


if __name__ == "__main__":
    answer(work)
