"""What tests have done in a process of its own."""

from __future__ import annotations

import os
import signal
import sys

from whisper_hailo.backends.hailo.isolated_probe import answer
from whisper_hailo.core.errors import ModelError


def work(word: str) -> None:
    if word == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "talk":
        sys.stdout.write("a line of a library\n" * 10_000)
        return
    if word == "complain":
        sys.exit("the last\nof its words")
    raise ModelError(f"{word} has no end")


if __name__ == "__main__":
    answer(work)
