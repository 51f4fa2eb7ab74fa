"""Names of files and folders that a system allows and nobody expects."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np

from tests.fuzz.target import Input, command
from tests.fuzz.targets.toy import toy_model

PARTS = (
    b"a", b"x" * 255, b"x" * 300, b" ", b"\n", b"\r\n", b"\t", b"\x1b[31m", b"\x07", b"\xff\xfe",
    b"\xed\xa0\x80",
    b"-", b"--", b"-o", b"--json", b"..", b".", b"~", b"~root", b"*", b"?", b"[a]", b"%s", b"{}",
    b"'", b'"', b"\\",
    b":", b"http://127.0.0.1:9/", b"rtp://127.0.0.1:9", b"hf://x", b"\xe2\x80\xae",
    b"\xf0\x9f\x8e\xa4", b"COM1",
    b".wav", b".hef", b".onnx", b".json", b".txt", b".srt", b"micro", b"tiny", b"model.json",
    b"\x7f", b"",
)  # fmt: skip
COMMANDS = (
    ("transcribe", "--model", "MODEL", "NAME"),
    ("transcribe", "--model", "NAME", "SOUND"),
    (
        "transcribe",
        "--model",
        "MODEL",
        "--output-dir",
        "NAME",
        "--format",
        "all",
        "SOUND",
    ),
    ("transcribe", "--model", "MODEL", "--encoder", "NAME", "SOUND"),
    ("transcribe", "--model", "MODEL", "--decoder", "NAME", "SOUND"),
    ("inspect", "NAME"),
    ("check", "NAME", "--arch", "hailo8"),
    ("convert", "NAME", "out"),
    ("convert", "CHECKPOINT", "NAME"),
    ("validate", "NAME"),
    ("evaluate", "NAME", "--model", "MODEL"),
    ("emulate", "MODEL", "--audio", "NAME"),
    ("calibrate", "MODEL", "NAME", "out"),
    ("caption", "--model", "MODEL", "NAME"),
    ("report", "NAME", "out"),
)


NO_SOUND = ("inspect", "check", "convert", "validate")
"""Commands that never wait for a pipe; those that take sound give its writer some time."""


class Fuzzed:
    """A name of some parts, with something behind it, in a command."""

    def prepare(self, base: Path) -> None:
        """A model, and a recording."""
        import soundfile

        toy_model(base)
        sound = np.random.default_rng(0).normal(0, 0.1, 8000)
        if not (base / "sound.wav").is_file():
            soundfile.write(base / "sound.wav", sound, 16_000)

    def make(self, rng: Random, base: Path) -> Input:
        """The name; its hash decides the rest."""
        raw = b"/".join(
            b"".join(rng.choice(PARTS) for _ in range(rng.choice((1, 1, 2, 3))))
            for _ in range(rng.choice((1, 1, 1, 2)))
        )
        number = rng.randrange(len(COMMANDS))
        kind = rng.randrange(6 if COMMANDS[number][0] in NO_SOUND else 5)
        return f"{number}-{kind}", raw.lstrip(b"/")

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Run a command on it; it stays below a folder of its own."""
        number, kind = map(int, name.split("-"))
        home = folder / "one" / "two"
        home.mkdir(parents=True)
        os.chdir(home)
        given = os.fsdecode(content)
        with suppress(OSError, ValueError):
            _put(kind, given, base)
        model = base / "toy" / "model"
        words = {
            "MODEL": str(model),
            "CHECKPOINT": str(base / "toy" / "checkpoint"),
            "SOUND": str(base / "sound.wav"),
            "NAME": given,
        }
        command(*(words.get(word, word) for word in COMMANDS[number]))


def _put(kind: int, given: str, base: Path) -> None:
    """Nothing, a file, a folder, a link to nowhere, a recording, or a pipe."""
    if ".." in given or given.startswith("~"):
        return
    path = Path(given)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == 1:
        path.write_bytes(b"x")
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        path.symlink_to("nowhere")
    elif kind == 4:
        shutil.copy(base / "sound.wav", path)
    elif kind == 5:
        os.mkfifo(path)
