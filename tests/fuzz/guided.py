"""Inputs that find their way by coverage: libFuzzer through atheris, for readers in Python.

    python -m tests.fuzz.guided TARGET NAME [libFuzzer's options, such as -runs=100000]

NAME is the file that the target takes the input for: `hefs x.hef`, `models model.json`,
`checkpoints config.json`. Native code is not instrumented, and a crash of it ends the run, so
audio, graphs and whole commands are left to the lane's own mutations.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["whisper_hailo"]):
    from tests.fuzz.target import FAILURES, draw, judge, load


class FoundError(Exception):
    """An input with a fault; libFuzzer writes it to a file."""


def main(words: list[str]) -> None:
    """Fuzz until libFuzzer's options end it."""
    name, file, *options = words
    base = Path(__file__).parents[2] / "build" / "fuzz"
    base.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["whisper_hailo"]):
        target = load(name)
    target.prepare(base)
    folder = Path(tempfile.mkdtemp(prefix="guided-", dir=base))
    os.chdir(folder)
    good = folder / "good"
    good.mkdir()
    for number in range(50):
        drawn, content = target.make(draw(name, 0, number), base)
        if drawn == file:
            (good / str(number)).write_bytes(content)

    def one(content: bytes) -> None:
        case = folder / "case"
        case.mkdir()
        result = judge(target, case, base, (file, content))
        shutil.rmtree(case)
        if result.outcome in FAILURES:
            raise FoundError(result.said)

    atheris.Setup([sys.argv[0], *options, str(good)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
