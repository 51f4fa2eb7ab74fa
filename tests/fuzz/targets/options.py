"""Options of all commands, with values that nobody means."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.target import Input, command
from tests.fuzz.targets import names

LEFT_OUT: Final = (
    "fetch-hef",
    "doctor",
    "calibrate",
    "emulate",
    "compare",
    "serve",
    "batch",
)
"""They ask the network, look at the machine, take minutes, do not end, or start processes."""
NEVER: Final = (
    "--web",
    "--web-host",
    "--web-port",
    "--microphone",
    "--list-devices",
    "--threads",
)
"""They listen, wait for sounds, or take what the machine has."""

VALUES: Final = (
    "", "0", "1", "-1", "2", "0.5", "-0.5", "1e9", "1e-9", "nan", "inf", "-inf", "1e400", "9" * 40,
    "x", "none",
    "int8", "int4", "en", "de", "auto", "xx", "all", "txt", "json", "srt,vtt", "a,b", ",", ":",
    "0,1", "1,0", "0-1",
    "0:10", "SOUND", "MODEL", "nowhere", ".", "out", "\n", "\x1b[0m", "\ud800", "é", "x" * 3000,
    "--", "-", "-h", "None",
    "true", "false", "hailo8", "hailo8l", "encoder", "decoder", "onnx", "cached", "emulator",
    "transcribe", "seek",
    "balanced", "conservative", "/dev/null", "/dev/full", "[1, 2]", "{}", "0x10", "1_000", "٣", "½",
)  # fmt: skip


class Fuzzed:
    """A command with some of its options."""

    def __init__(self) -> None:
        import click

        from whisper_hailo.cli.app import PROGRAM_GROUP, load_command

        self.options = {
            name: options
            for name in PROGRAM_GROUP.list_commands(click.Context(PROGRAM_GROUP))
            if name not in LEFT_OUT and (options := _options_of(load_command(name)))
        }

    def prepare(self, base: Path) -> None:
        """A model, and a recording."""
        names.Fuzzed().prepare(base)

    def make(self, rng: Random, base: Path) -> Input:
        """Words as JSON."""
        name = rng.choice(("transcribe", "transcribe", "transcribe", *self.options))
        words = [name]
        if name in ("transcribe", "caption", "time", "evaluate"):
            words += ["--model", "MODEL"]
        words += ["SOUND"] if rng.random() < 0.8 else [rng.choice(VALUES)]
        for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
            option, takes_value = rng.choice(self.options[name])
            words.append(option)
            if takes_value:
                words.append(rng.choice(VALUES))
        if rng.random() < 0.1:
            rng.shuffle(words)
        return "words.json", json.dumps(words).encode()

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Run the command."""
        stands_for = {
            "MODEL": str(base / "toy" / "model"),
            "SOUND": str(base / "sound.wav"),
        }
        command(*(stands_for.get(word, word) for word in json.loads(content)))


def _options_of(made: Any) -> list[tuple[str, bool]]:
    """Spellings of each option, and whether a value follows."""
    from whisper_hailo.cli.compat import COMPAT_OPTIONS

    ours = [
        (spelling, not parameter.is_flag)
        for parameter in made.params
        if parameter.opts[0].startswith("-") and not {*parameter.opts} & {*NEVER}
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    ]
    others = [
        (name, not option.is_switch)
        for option in COMPAT_OPTIONS
        for name in option.names
    ]
    return ours + others * (made.name == "transcribe")
