"""Live captions, measured on a synthetic conversation; writes results, table and picture.

    python -m benchmarks.captions [WHAT ...] [--model micro] [--minutes 5] [--threads 2] [--speed 8]

WHAT is any of: paired (drafts, settings and engines on the first minute of the stream, in turns),
cost (the same texts on decoders of tiny's and base's sizes), live (all of it in real time), hour
(looped at `--speed` times real time, with faults); without any, all four. Results of earlier runs
are kept for what is not run. `--table` only writes the tables of docs/captions.md anew.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from benchmarks.captions.conversation import conversation
from benchmarks.captions.cost import SIZES, decoder_of, replayed
from benchmarks.captions.stream import engine_of, hour, real_time
from benchmarks.captions.table import DOCS, RESULT, insert_tables
from whisper_hailo.audio import load_audio
from whisper_hailo.bench.machine import package_versions, this_machine
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.comparison import Way, run_lanes
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.ways import Common, compare_captions
from whisper_hailo.vad import SileroDetector

WHAT = ("paired", "cost", "live", "hour")
PARTIALS = 30  # of those with a text, evenly spaced, on other decoders


def paired(arguments: argparse.Namespace) -> dict[str, Any]:
    """`compare captions` on the first minute."""
    short = first_minute(arguments.audio)
    record = compare_captions(short, Common(arguments.model, threads=1, moonshine=""), said)
    texts = {row["way"]: row.pop("text") for row in record.rows}
    pairs = (("drafts", "no drafts"), ("drafts, guesses shown", "no drafts, guesses shown"))
    return {
        "settings": record.settings,
        "rows": list(record.rows),
        "same_text": all(texts[one] == texts[other] for one, other in pairs),
    }


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """The partials of the first minute on larger decoders, float and 8-bit."""
    audio = load_audio(first_minute(arguments.audio))
    with engine_of(arguments.model, 1) as engine:
        (lane,) = run_lanes([Way("drafts", engine, CaptionOptions())], audio, SileroDetector)
    texts = [call for call in lane.partials if call.heard.tokens]
    some = texts[:: max(1, len(texts) // PARTIALS)]
    found: dict[str, Any] = {"partials": len(some)}
    for size in SIZES:
        for quantize in ("none", "int8"):
            with decoder_of(size, quantize) as decoder:
                found[f"{size} {quantize}"] = replayed(decoder, some)
    return found


def live(arguments: argparse.Namespace) -> dict[str, Any]:
    """In real time."""
    return real_time(arguments.audio, arguments.model, arguments.threads)


def looped(arguments: argparse.Namespace) -> dict[str, Any]:
    """An hour, or so many loops."""
    seconds = load_audio(arguments.audio).size / SAMPLE_RATE_HZ
    loops = arguments.loops or math.ceil(3600 / seconds)
    return hour(
        arguments.audio, arguments.model, arguments.threads, loops=loops, speed=arguments.speed
    )


def first_minute(path: Path) -> Path:
    """The stream's first 60 s as a file of its own, without its text."""
    short = path.with_name("first-minute.flac")
    soundfile.write(short, np.asarray(load_audio(path)[: 60 * SAMPLE_RATE_HZ]), SAMPLE_RATE_HZ)
    return short


def said(done: int, total: int) -> None:
    """Progress on standard error."""
    print(f"{done} of {total} s", file=sys.stderr, flush=True)


def parsed() -> argparse.Namespace:
    """The command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="benchmarks.captions", description=summary)
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"any of: {', '.join(WHAT)}")
    parser.add_argument("--model", default="micro")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--loops", type=int, default=0, help="of the hour; 0: as many as it takes")
    parser.add_argument("--speed", type=float, default=8.0, help="of the hour, times real time")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--table", action="store_true")
    found = parser.parse_args()
    wrong = sorted(set(found.what) - set(WHAT))
    if wrong:
        parser.error(f"WHAT is {', '.join(wrong)}, expected any of: {', '.join(WHAT)}")
    return found


def main() -> None:
    """Run what is asked for, keep its result, write the tables."""
    arguments = parsed()
    functions = {"paired": paired, "cost": cost, "live": live, "hour": looped}
    out: Path = arguments.out
    result: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments.audio = Path(folder) / "conversation.flac"
        wanted = [] if arguments.table else arguments.what or WHAT
        if wanted:
            conversation(arguments.audio, arguments.minutes)
        for what in wanted:
            print(what, file=sys.stderr, flush=True)
            about = {
                "model": arguments.model,
                "threads": arguments.threads if what in {"live", "hour"} else 1,
                "minutes": arguments.minutes,
                "note": arguments.note,
                "machine": this_machine().label,
                "versions": package_versions(("onnxruntime", "numpy")),
            }
            result[what] = about | functions[what](arguments)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if out == RESULT:
        DOCS.write_text(insert_tables(DOCS.read_text("utf-8"), result), encoding="utf-8")


if __name__ == "__main__":
    main()
