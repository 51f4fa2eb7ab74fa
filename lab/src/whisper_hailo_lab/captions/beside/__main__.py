"""Our command beside other programs of live captions: the same weights and stream, in turns.

    python -m whisper_hailo_lab.captions.beside SYSTEM ... --python OTHER/bin/python
                                                [--streaming FOLDER] [--minutes 4] [--out FILE]
                                                [--model NAME --weights FOLDER --decoder FILE]

SYSTEM is any of: ours, whisperlivekit, alignatt (WhisperLiveKit's other policy),
whisper_streaming. The other Python has `whisperlivekit`, which brings faster-whisper; FOLDER of
`--streaming` is a copy of `ufal/whisper_streaming`. All have one thread and the bundled model's
weights, the others in 8 bits as CTranslate2 has them. With `--model` they have those of a real
checkpoint, for the others in `--weights` as CTranslate2 and for `alignatt` in `--decoder` as
OpenAI's `.pt`, named after the model; the stream is recordings of people then, not the synthetic
conversation. Each SYSTEM hears the stream once, in real time; the turns are added to those of
before.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from whisper_hailo.audio import load_audio
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo_lab.captions.beside.programs import (
    LiveProgram,
    Utterance,
    latency,
    ours,
    rewritten_per_word,
    rival,
    stream_to,
)
from whisper_hailo_lab.captions.policies import SpokenStream, join_english
from whisper_hailo_lab.captions.stream import conversation, percent_wrong
from whisper_hailo_lab.documents.captions import RESULT
from whisper_hailo_lab.documents.tables import write
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import MICRO, PACKAGE
from whisper_hailo_lab.runs.machine import mark_of, package_versions, this_machine

logger = logging.getLogger(__name__)

SYSTEMS: Final = ("ours", "whisperlivekit", "alignatt", "whisper_streaming")
WARM_UP: Final = PACKAGE / "assets" / "demo.flac"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--python", default="", help="has whisperlivekit")
    parser.add_argument("--streaming", default="", help="copy of ufal/whisper_streaming")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--model", default="micro")
    parser.add_argument("--weights", type=Path, help="a real model as CTranslate2 has it")
    parser.add_argument("--decoder", default="", help="the same as OpenAI's .pt")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args()


def turn(program: LiveProgram, stream: SpokenStream) -> dict[str, Any]:
    """Play a stream to one program, in real time; words, delays and memory."""
    heard = stream_to(program, stream.audio)
    last = heard.shown[-1]
    found = latency(stream.utterances, heard.shown)
    return {
        "stream_s": round(stream.seconds, 1),
        "utterances": len(stream.utterances),
        "unheard": found.n_unheard,
        **found.figures(),
        "processor_s": round(heard.processor_s, 1),
        "peak_mib": round(heard.peak_mib, 1),
        "rewritten": round(rewritten_per_word(heard.shown), 2),
        "wer": percent_wrong(stream.text, f"{last.settled} {last.running}"),
    }


def synthetic(folder: Path, minutes: float) -> SpokenStream:
    """The synthetic conversation, in files of a folder."""
    path = conversation(folder / "conversation.flac", minutes)
    utterances = (Utterance(**one) for one in json.loads(path.with_suffix(".json").read_text()))
    return SpokenStream(load_audio(path), tuple(utterances))


def main() -> None:
    """Add a turn of each program to those that are kept; with the usual file, write the tables."""
    arguments = _parsed()
    with tempfile.TemporaryDirectory() as folder:
        is_real = arguments.model != "micro"
        weights: Path = arguments.weights or Path(folder) / "micro"
        programs = {"ours": ours(arguments.model)}
        if arguments.python:
            if not is_real:
                write_ctranslate2(MICRO, weights, "int8")
            common = (arguments.python, weights, str(WARM_UP))
            programs["whisperlivekit"] = rival("whisperlivekit", *common)
            programs["alignatt"] = rival("whisperlivekit", *common, arguments.decoder)
            programs["whisper_streaming"] = rival("whisper_streaming", *common, arguments.streaming)
        seconds = 60 * arguments.minutes
        stream = join_english(seconds) if is_real else synthetic(Path(folder), arguments.minutes)
        turns = [(name, turn(programs[name], stream)) for name in arguments.systems]
    for name, figures in turns:
        logger.info("%s: %s", name, figures)
    out: Path = arguments.out
    kept: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    part = f"beside {arguments.model}" if is_real else "beside"
    about = {"models": [arguments.model]} if is_real else {"weights": mark_of(MICRO)}
    kept[part] = {
        "model": arguments.model,
        **about,
        "threads": 1,
        "note": arguments.note,
        "machine": this_machine().label,
        "versions": package_versions(("onnxruntime", "numpy")),
        "turns": [*kept.get(part, {}).get("turns", []), *turns],
    }
    write_file(out, json.dumps(kept, indent=1) + "\n")
    if out == RESULT:
        write()


if __name__ == "__main__":
    sys.exit(run(main))
