"""A spoken command, asked of this server and of others in turns: processor time of each.

    python -m whisper_hailo_lab.experiments.server_peers --model tiny.en --ctranslate2 FOLDER
        --wyoming PYTHON --http PYTHON [--pairs 9] [--keep]

Each PYTHON has wyoming-faster-whisper or faster-whisper; FOLDER is the same model in CTranslate2's
format. All have one thread, weights of 8 bits and a beam of one. Each pair is a command of about
three seconds, asked of both, so that what else the machine does matters to both alike. `--keep`
puts the rows into the result that `docs/measurements/server.md` shows.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import soundfile

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.data.speech import read_speech, speech_folder
from whisper_hailo_lab.documents.server import RESULT, describe_peers
from whisper_hailo_lab.experiments.home_assistant_names import start_other
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    SpokenFile,
    openai_client,
    start_server,
    wyoming_client,
)
from whisper_hailo_lab.experiments.server_command import choose_command, processor_s
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import RIVALS
from whisper_hailo_lab.runs.machine import this_machine
from whisper_hailo_lab.runs.results import read_result, update_result

_THIN_SERVER: Final = RIVALS / "serve_faster_whisper.py"


@dataclass(frozen=True, slots=True)
class PeerRow:
    """Processor seconds of a command, medians of all pairs.

    Attributes:
        ratios: smallest and largest ratio of a pair, theirs to ours.
        texts: of both, the last ones.
    """

    protocol: str
    peer: str
    model: str
    n_pairs: int
    ours_s: float
    theirs_s: float
    ratio: float
    ratios: tuple[float, float]
    texts: tuple[str, str]


@contextmanager
def start_thin_server(python: str, folder: str) -> Iterator[tuple[int, str]]:
    """Yield the process id and the address of faster-whisper behind HTTP."""
    command = [python, str(_THIN_SERVER), folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = process.stdout or sys.stdin
            yield process.pid, f"http://127.0.0.1:{int(lines.readline())}"
        finally:
            process.terminate()


def measure_pairs(
    ours: tuple[int, Ask], theirs: tuple[int, Ask], count: int
) -> tuple[list[tuple[float, float]], tuple[str, str]]:
    """Ask both servers, given as process ids and clients, in turns.

    Returns:
        processor seconds of both in each pair, and the last texts.
    """
    for _, ask in (ours, theirs):
        ask()  # loads what is loaded late
    pairs = []
    texts = ("", "")
    for _ in range(count):
        our_s, our_text = _measure(*ours)
        their_s, their_text = _measure(*theirs)
        pairs.append((our_s, their_s))
        texts = (our_text, their_text)
    return pairs, texts


def _measure(pid: int, ask: Ask) -> tuple[float, str]:
    begin_s = processor_s(pid)
    text = ask()
    return processor_s(pid) - begin_s, text.strip()


def make_row(
    names: tuple[str, str, str],
    pairs: Sequence[tuple[float, float]],
    texts: tuple[str, str],
) -> PeerRow:
    """Return the row of a protocol, a peer and a model."""
    ratios = [theirs / ours for ours, theirs in pairs]
    protocol, peer, model = names
    return PeerRow(
        protocol=protocol,
        peer=peer,
        model=model,
        n_pairs=len(pairs),
        ours_s=round(statistics.median(ours for ours, _ in pairs), 3),
        theirs_s=round(statistics.median(theirs for _, theirs in pairs), 3),
        ratio=round(statistics.median(ratios), 2),
        ratios=(round(min(ratios), 2), round(max(ratios), 2)),
        texts=texts,
    )


def measure_peers(arguments: argparse.Namespace, file: SpokenFile) -> list[PeerRow]:
    """Measure all peers that were given."""
    rows = []
    folder = file.path.parent
    options = ("--language", file.language)
    with start_server(1, *options, model=arguments.model) as (pid, (http, wyoming)):
        if arguments.wyoming:
            ask = wyoming_client(wyoming, file)
            with start_other(
                arguments.wyoming, arguments.ctranslate2, folder, "--beam-size", "1"
            ) as (other, address):
                peer = (other, wyoming_client(address, file))
                measured = measure_pairs((pid, ask), peer, arguments.pairs)
            names = ("Wyoming", "wyoming-faster-whisper", arguments.model)
            rows.append(make_row(names, *measured))
        if arguments.http:
            ask = openai_client(http, file)
            with start_thin_server(arguments.http, arguments.ctranslate2) as (
                other,
                address,
            ):
                peer = (other, openai_client(address, file))
                measured = measure_pairs((pid, ask), peer, arguments.pairs)
            names = ("HTTP", "faster-whisper, thinnest server", arguments.model)
            rows.append(make_row(names, *measured))
    return rows


def merge_rows(
    kept: list[dict[str, Any]], new: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the newest row of each protocol and model, in order."""
    rows = {(row["protocol"], row["model"]): row for row in [*kept, *new]}
    return [rows[key] for key in sorted(rows, reverse=True)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("--model", default="base")
    parser.add_argument("--ctranslate2", required=True, metavar="FOLDER")
    parser.add_argument("--wyoming", metavar="PYTHON")
    parser.add_argument("--http", metavar="PYTHON")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--keep", action="store_true", help="write the kept result")
    arguments = parser.parse_args()
    command = choose_command(read_speech(speech_folder()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "command.wav"
        soundfile.write(path, command.load(), SAMPLE_RATE_HZ, subtype="PCM_16")
        rows = measure_peers(arguments, SpokenFile(path, command.language))
    kept = read_result(RESULT).get("peers", {}).get("rows", [])
    merged = merge_rows(kept if arguments.keep else [], [asdict(row) for row in rows])
    part = {"machine": this_machine().label, "rows": merged}
    emit(describe_peers(part))
    for row in rows:
        emit(f"{row.protocol}: {row.texts}\n")
    if arguments.keep:
        update_result(RESULT, peers=part)


if __name__ == "__main__":
    sys.exit(run_program(main))
