"""Accuracy of real checkpoints on human speech.

    python -m whisper_hailo_lab.accuracy transcribe --out DIR --model base --window default 30
    python -m whisper_hailo_lab.accuracy score DIR/*.jsonl [--by kind|set|language]

`transcribe` writes a file of JSON lines for each combination of model, quantisation, window and
timestamps; it goes on where it was interrupted. `score` compares any such files, other systems'
too, over the recordings that they have in common. Groups of recordings: `all`, `english`,
`languages`, `nospeech`, `long`, `joined`, a set, a language code, SET/ID.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from whisper_hailo.cli.stdout import emit
from whisper_hailo_lab.accuracy.setups import make_setups
from whisper_hailo_lab.accuracy.tables import GROUPS, compare_files
from whisper_hailo_lab.accuracy.transcribe import transcribe_all
from whisper_hailo_lab.data.joined import join_all
from whisper_hailo_lab.data.speech import (
    interleave_sets,
    read_speech,
    select_recordings,
    speech_folder,
)
from whisper_hailo_lab.program import run
from whisper_hailo_lab.runs.transcripts import read_transcripts


def parse_option(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, the value in JSON or as it is."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def add_transcribe(parser: argparse.ArgumentParser) -> None:
    """Add the options of `transcribe`."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--model", nargs="+", default=["base"], help="names or folders")
    parser.add_argument("--quantize", nargs="+", default=["int8"], help="none, int8, auto")
    parser.add_argument("--window", nargs="+", default=["default"], help="seconds, or default")
    parser.add_argument("--timestamps", nargs="+", default=["off"], choices=("off", "on"))
    parser.add_argument(
        "--language", nargs="+", default=["detected"], choices=("detected", "given")
    )
    parser.add_argument("--recordings", nargs="+", default=["all"], help="groups; see above")
    parser.add_argument("--limit", type=int, help="recordings of each set and language")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th recording, from the I-th")
    parser.add_argument(
        "--option", type=parse_option, nargs="*", default=[], help="of Transcriber.transcribe"
    )
    parser.add_argument(
        "--engine", type=parse_option, nargs="*", default=[], help="of Transcriber.from_model"
    )
    parser.add_argument("--label", default="", help="end of the files' names")
    parser.add_argument("--threads", type=int, default=1, help="per operator")


def transcribe(chosen: argparse.Namespace) -> None:
    """Transcribe the chosen recordings with every combination of the chosen settings."""
    setups = make_setups(
        chosen.model,
        chosen.quantize,
        chosen.window,
        chosen.timestamps,
        chosen.language,
        engine=dict(chosen.engine),
        options=dict(chosen.option),
        label=chosen.label,
    )
    clips = read_speech(speech_folder())
    everything = interleave_sets(clips) + join_all(clips)
    recordings = select_recordings(everything, chosen.recordings, chosen.limit)
    first, _, step = chosen.part.partition("/")
    found = transcribe_all(
        setups, recordings[int(first) :: int(step)], chosen.out, threads=chosen.threads
    )
    emit(compare_files(found, "kind").plain())


def score(chosen: argparse.Namespace) -> None:
    """Compare files over the recordings that all have."""
    files = {path.stem: read_transcripts(path) for path in chosen.files}
    table = compare_files(files, chosen.by)
    emit(table.markdown() if chosen.markdown else table.plain())


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        prog="accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    transcribing = commands.add_parser("transcribe", help="transcribe recordings")
    add_transcribe(transcribing)
    transcribing.set_defaults(run=transcribe)
    scoring = commands.add_parser("score", help="compare files of transcripts")
    scoring.add_argument("files", type=Path, nargs="+")
    scoring.add_argument("--by", choices=tuple(GROUPS), default="kind", help="rows")
    scoring.add_argument("--markdown", action="store_true", help="a table of Markdown")
    scoring.set_defaults(run=score)
    chosen = parser.parse_args()
    chosen.run(chosen)


if __name__ == "__main__":
    sys.exit(run(main))
