"""Spoken commands with odd names, with and without the names of the home.

    python -m whisper_hailo_lab.experiments.home_assistant_names --model base
        [--other PYTHON --ctranslate2 FOLDER] [--keep]

Fifty commands that name rooms and devices of an invented home, and twenty that name none, are
spoken by flite's voices and sent by Wyoming: to this server, to this server with
`--home-assistant`, and to wyoming-faster-whisper, which PYTHON has, with and without its
`--hass-token`. Both read the names from the same WebSocket API. `--keep` puts the rows into the
result that `docs/home-assistant.md` shows.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import ModelError
from whisper_hailo_lab.documents.server import RESULT, describe_names
from whisper_hailo_lab.experiments.invented_home import TOKEN, Home, home_assistant_api
from whisper_hailo_lab.experiments.server_clients import (
    SpokenFile,
    processor_ms,
    start_server,
    wyoming_client,
)
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import update_result
from whisper_hailo_lab.score import normalise_text, score_texts

AREAS: Final = (
    "Scullery", "Snug", "Belfry", "Solarium", "Mudroom", "Lanai", "Ensuite", "Mezzanine",
    "Vestibule", "Rumpus Room", "Larder", "Oubliette", "Orangery", "Crypt", "Gazebo",
)  # fmt: skip
DEVICES: Final = (
    "Gutmann Lamp", "Kallax Strip", "Tradfri Bulb", "Nanoleaf Panel", "Govee Strip",
    "Aqara Curtain", "Tado Valve", "Shelly Relay", "Meross Plug", "Lutron Dimmer", "Wemo Switch",
    "Yeelight", "Ecobee", "Nanit", "Roomba", "Sonos Roam", "Denon Amp", "Onkyo Receiver",
    "Jellyfin", "Kodi", "Plex Box", "Frigate Camera", "Reolink Doorbell", "Zappi Charger",
    "Lampadaire", "Kronleuchter", "Fjord Lamp", "Pikachu", "Gandalf", "Hodor", "Marvin",
    "Bumblebee", "Wally", "Dobby", "Moomin",
)  # fmt: skip
HOME: Final = Home(
    areas={name: [] for name in AREAS},
    entities={f"light.n{index}": [name] for index, name in enumerate(DEVICES)},
)

OF_AREAS: Final = (
    "Turn on the lights in the {}.",
    "How warm is it in the {}?",
    "Close the blinds in the {}.",
    "Is there anyone in the {}?",
)
OF_DEVICES: Final = (
    "Turn on the {}.",
    "Switch off the {}, please.",
    "Set the {} to twenty percent.",
    "Is the {} on?",
    "Stop the {} now.",
)
PLAIN: Final = (
    "What time is it?", "Set a timer for ten minutes.", "Turn off all lights.",
    "What is the weather tomorrow?", "Play some music.", "Stop.", "Pause the music.",
    "Add milk to the shopping list.", "Good night.", "Open the garage door.",
    "Lock the front door.", "Make it warmer.", "Turn the volume down.", "Next song, please.",
    "Is the washing machine done?", "Dim the lights to thirty percent.",
    "Remind me to call my mother.", "Start the coffee machine.", "How long is the timer?",
    "Never mind.",
)  # fmt: skip

VOICES: Final = ("slt", "rms", "awb")
"""A woman and two men, one of them from Scotland; the others of flite are worse."""

OURS: Final = "whisper-hailo"
OTHER: Final = "wyoming-faster-whisper"

_START_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class SpokenCommand:
    """A command, and the name in it; empty without one."""

    text: str
    name: str
    file: SpokenFile


def list_texts() -> list[tuple[str, str]]:
    """Return the text of each command and the name in it."""
    texts = []
    for index, name in enumerate(AREAS):
        texts.append((OF_AREAS[index % len(OF_AREAS)].format(name), name))
    for index, name in enumerate(DEVICES):
        texts.append((OF_DEVICES[index % len(OF_DEVICES)].format(name), name))
    return texts + [(text, "") for text in PLAIN]


def write_commands(folder: Path) -> list[SpokenCommand]:
    """Write all commands as WAV files, voices in turns."""
    commands = []
    for number, (text, name) in enumerate(list_texts()):
        path = folder / f"{number:02}.wav"
        voice = VOICES[number % len(VOICES)]
        speak = ["flite", "-voice", voice, "-t", text, "-o", str(path)]
        subprocess.run(speak, check=True)
        commands.append(SpokenCommand(text, name, SpokenFile(path)))
    return commands


@contextmanager
def start_other(
    python: str, model: str, folder: Path, *options: str
) -> Iterator[tuple[int, str]]:
    """Yield the process id and the address of wyoming-faster-whisper, with its defaults.

    Its weights have 8 bits, like ours.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    command = [python, "-m", "wyoming_faster_whisper", "--uri", address]
    command += ["--model", model, "--stt-library", "faster-whisper", "--language", "en"]
    command += ["--data-dir", str(folder), "--cpu-threads", "1"]
    command += ["--compute-type", "int8", *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for_port(port)
            yield process.pid, address
        finally:
            process.terminate()


def _wait_for_port(port: int) -> None:
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise ModelError("wyoming-faster-whisper does not start; run it by hand")


def make_row(
    system: str, pid: int, address: str, commands: Sequence[SpokenCommand]
) -> dict[str, Any]:
    """Say all commands to a server; return its figures."""
    # The first one loads what is loaded late, and the names have come when it ends.
    wyoming_client(address, commands[-1].file)()
    begin_ms = processor_ms(pid)
    texts = [wyoming_client(address, command.file)() for command in commands]
    cpu_ms = processor_ms(pid) - begin_ms
    named = []
    plain = []
    n_names = 0
    for command, text in zip(commands, texts, strict=True):
        pair = (command.text, text)
        if not command.name:
            plain.append(pair)
            continue
        named.append(pair)
        n_names += _normalise(command.name) in _normalise(text)
    return {
        "system": system,
        "n_named": len(named),
        "n_names": n_names,
        "n_right": _count_right(named),
        "wer": score_texts(named).words.rate,
        "n_plain": len(plain),
        "n_plain_right": _count_right(plain),
        "plain_wer": score_texts(plain).words.rate,
        "command_ms": cpu_ms / len(commands),
        "texts": texts,
    }


def _count_right(pairs: Sequence[tuple[str, str]]) -> int:
    return sum(_normalise(expected) == _normalise(text) for expected, text in pairs)


def _normalise(text: str) -> str:
    return normalise_text(text, "normalised")


def measure_ours(
    model: str, commands: Sequence[SpokenCommand], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of this server, without and with the options that give it names."""
    rows = []
    for system, options in ((OURS, ()), (f"{OURS} with names", names)):
        words = ("--language", "en", *options)
        with start_server(1, *words, scheme="tcp", model=model) as (pid, (address,)):
            rows.append(make_row(system, pid, address, commands))
    return rows


def measure_other(
    python: str, model: str, commands: Sequence[SpokenCommand], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of wyoming-faster-whisper, as those of `measure_ours`."""
    rows = []
    folder = commands[0].file.path.parent
    for system, options in ((OTHER, ()), (f"{OTHER} with names", names)):
        with start_other(python, model, folder, *options) as (pid, address):
            rows.append(make_row(system, pid, address, commands))
    return rows


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--model", default="base")
    parser.add_argument("--other", help="Python with wyoming-faster-whisper[hass]")
    parser.add_argument("--ctranslate2", help="folder of the same model")
    parser.add_argument("--texts", action="store_true", help="print what was heard")
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, home_assistant_api(HOME) as home:
        commands = write_commands(Path(name))
        token_file = Path(name) / "token"
        token_file.write_text(TOKEN, encoding="utf-8")
        names = ["--home-assistant", home]
        names += ["--home-assistant-token-file", str(token_file)]
        rows = measure_ours(arguments.model, commands, names)
        if arguments.other:
            token = ("--hass-token", TOKEN, "--hass-api", f"{home}/api")
            rows += measure_other(
                arguments.other, arguments.ctranslate2, commands, token
            )
    part = {"model": arguments.model, "machine": this_machine().label, "rows": rows}
    emit(describe_names(part))
    if arguments.texts:
        for index, command in enumerate(commands):
            heard = " | ".join(row["texts"][index] for row in rows)
            emit(f"{command.text} | {heard}\n")
    if arguments.keep:
        for row in rows:
            del row["texts"]
        update_result(RESULT, names=part)


if __name__ == "__main__":
    sys.exit(run_program(main))
