"""Our command beside other programs of live captions: the same weights and stream, in turns.

    python -m whisper_hailo_lab.captions.beside SYSTEM ... --python OTHER/bin/python
                                                [--streaming FOLDER] [--minutes 4] [--out FILE]

SYSTEM is any of: ours, whisperlivekit, whisper_streaming. The other Python has `whisperlivekit`,
which brings faster-whisper; FOLDER is a copy of `ufal/whisper_streaming`. All have one thread and
the bundled model's weights, the others in 8 bits as CTranslate2 has them. Each SYSTEM hears the
stream once, in real time; the turns are added to those of before.
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
from whisper_hailo.core.files import write_file
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo_lab.captions.beside.programs import (
    LiveProgram,
    Utterance,
    latency,
    ours,
    rival,
    stream_to,
)
from whisper_hailo_lab.captions.stream import conversation, percent_wrong
from whisper_hailo_lab.data.clips import said
from whisper_hailo_lab.documents.captions import RESULT
from whisper_hailo_lab.documents.tables import write
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import MICRO, PACKAGE
from whisper_hailo_lab.runs.machine import mark_of, package_versions, this_machine

logger = logging.getLogger(__name__)

SYSTEMS: Final = ("ours", "whisperlivekit", "whisper_streaming")
WARM_UP: Final = PACKAGE / "assets" / "demo.flac"


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM")
    parser.add_argument("--python", default="", help="has whisperlivekit")
    parser.add_argument("--streaming", default="", help="copy of ufal/whisper_streaming")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=RESULT)
    return parser.parse_args()


def turn(program: LiveProgram, audio: Path) -> dict[str, Any]:
    """Play the recording to one program, in real time; words, delays and memory."""
    utterances = [Utterance(**one) for one in json.loads(audio.with_suffix(".json").read_text())]
    samples = load_audio(audio)
    heard = stream_to(program, samples)
    last = heard.shown[-1]
    found = latency(utterances, heard.shown)
    return {
        "stream_s": round(samples.size / SAMPLE_RATE_HZ, 1),
        "utterances": len(utterances),
        "unheard": found.n_unheard,
        **found.figures(),
        "processor_s": round(heard.processor_s, 1),
        "peak_mib": round(heard.peak_mib, 1),
        "wer": percent_wrong(said(audio), f"{last.settled} {last.running}"),
    }


def main() -> None:
    """Add a turn of each program to those that are kept; with the usual file, write the tables."""
    arguments = _parsed()
    with tempfile.TemporaryDirectory() as folder:
        audio = conversation(Path(folder) / "conversation.flac", arguments.minutes)
        weights = Path(folder) / "micro"
        programs = {"ours": ours("micro")}
        if arguments.python:
            write_ctranslate2(MICRO, weights, "int8")
            common = (arguments.python, weights, str(WARM_UP))
            programs["whisperlivekit"] = rival("whisperlivekit", *common)
            programs["whisper_streaming"] = rival("whisper_streaming", *common, arguments.streaming)
        turns = [(name, turn(programs[name], audio)) for name in arguments.systems]
    for name, figures in turns:
        logger.info("%s: %s", name, figures)
    out: Path = arguments.out
    kept: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    kept["beside"] = {
        "model": "micro",
        "weights": mark_of(MICRO),
        "threads": 1,
        "note": arguments.note,
        "machine": this_machine().label,
        "versions": package_versions(("onnxruntime", "numpy")),
        "turns": [*kept.get("beside", {}).get("turns", []), *turns],
    }
    write_file(out, json.dumps(kept, indent=1) + "\n")
    if out == RESULT:
        write()


if __name__ == "__main__":
    sys.exit(run(main))
