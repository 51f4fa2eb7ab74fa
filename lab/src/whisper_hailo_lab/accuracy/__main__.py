"""Accuracy of real checkpoints on human speech.

    python -m whisper_hailo_lab.accuracy measure [--peers DIR] [--part windows ...] [--limit N]
    python -m whisper_hailo_lab.accuracy check
    python -m whisper_hailo_lab.accuracy transcribe --out DIR --model base --window default 30
    python -m whisper_hailo_lab.accuracy words --model base
    python -m whisper_hailo_lab.accuracy seams --model base
    python -m whisper_hailo_lab.accuracy retries --model base [--keep]
    python -m whisper_hailo_lab.accuracy subtitles --model base [--out DIR] [--suber PROGRAM]
    python -m whisper_hailo_lab.accuracy score DIR/*.jsonl [--by kind|set|language]

`measure` runs the whole plan and keeps its counts, from which the tables of `docs/accuracy.md`
follow; other systems' rows stay until they are measured again, and so do times, but with `--timed`.
`check` fails where a bound is broken. `transcribe` writes a file of JSON lines for each combination
of model, quantisation, window and timestamps; it goes on where it was interrupted. `words` compares
word times with where clips begin and end in the long recordings that are joined of them. `seams`
counts the seams of windows that cut a word or a sentence in long recordings. `retries` measures
what doubtful windows cost, with the limit of retries and without. `subtitles` counts which of their
cues keep the limits of subtitling guides, and those of other programs in the folder
(`lab/benchmarks/rivals/write_subtitles.py`). `score` compares any such files, other systems' too,
over the recordings that they have in common.
Groups of recordings: `all`, `english`, `languages`, `nospeech`, `long`, `joined`, a set, a language
code, SET/ID. WHISPER_HAILO_SPEECH names the folder of the recordings, WHISPER_HAILO_REAL_MODELS one
of checkpoints.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.accuracy.captions import caption_text
from whisper_hailo_lab.accuracy.gate import (
    BASE,
    TINY,
    GateResult,
    check_base,
    check_tiny,
)
from whisper_hailo_lab.accuracy.measure import find_recordings, measure_all
from whisper_hailo_lab.accuracy.results import keep_peers
from whisper_hailo_lab.accuracy.retry_limits import measure_policies
from whisper_hailo_lab.accuracy.seams import compare_seams, count_seams
from whisper_hailo_lab.accuracy.setups import make_setups, open_transcriber
from whisper_hailo_lab.accuracy.subtitle_files import (
    find_programs,
    mean_suber,
    write_own_subtitles,
    write_subtitle_audio,
)
from whisper_hailo_lab.accuracy.subtitle_references import find_pauses
from whisper_hailo_lab.accuracy.subtitles import compare_conformity, count_conformity
from whisper_hailo_lab.accuracy.tables import GROUPS, compare_files
from whisper_hailo_lab.accuracy.transcribe import transcribe_all
from whisper_hailo_lab.accuracy.word_edges import measure_edges
from whisper_hailo_lab.data.joined import JOINED
from whisper_hailo_lab.data.speech import (
    SpeechRecording,
    knows_language,
    select_recordings,
)
from whisper_hailo_lab.documents.accuracy import RESULT
from whisper_hailo_lab.documents.pages import keep_result
from whisper_hailo_lab.documents.retries import RESULT as RETRIES
from whisper_hailo_lab.documents.retries import make_tables as retry_tables
from whisper_hailo_lab.formats.prepare import use_cache
from whisper_hailo_lab.program import run_program
from whisper_hailo_lab.repository import BUILD
from whisper_hailo_lab.runs.results import read_result
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


def add_transcribe_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `transcribe`."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--model", nargs="+", default=[BASE], help="names or folders")
    parser.add_argument(
        "--quantize", nargs="+", default=["int8"], help="none, int8, auto"
    )
    parser.add_argument(
        "--window", nargs="+", default=["default"], help="seconds, or default"
    )
    parser.add_argument(
        "--timestamps", nargs="+", default=["off"], choices=("off", "on")
    )
    parser.add_argument(
        "--language", nargs="+", default=["detected"], choices=("detected", "given")
    )
    parser.add_argument(
        "--recordings", nargs="+", default=["all"], help="groups; see above"
    )
    parser.add_argument("--limit", type=int, help="recordings of each set and language")
    parser.add_argument(
        "--part", default="0/1", help="I/N: every N-th recording, starting at the I-th"
    )
    parser.add_argument(
        "--option",
        type=parse_option,
        nargs="*",
        default=[],
        help="of Transcriber.transcribe",
    )
    parser.add_argument(
        "--engine",
        type=parse_option,
        nargs="*",
        default=[],
        help="of Transcriber.from_model",
    )
    parser.add_argument(
        "--captions", action="store_true", help="caption instead of transcribing"
    )
    parser.add_argument("--label", default="", help="suffix of the file names")
    parser.add_argument("--threads", type=int, default=1, help="per operator")


def run_transcribe(chosen: argparse.Namespace) -> int:
    """Transcribe the chosen recordings with every combination of the chosen settings."""
    label = chosen.label or ("captions" if chosen.captions else "")
    setups = make_setups(
        chosen.model,
        chosen.quantize,
        chosen.window,
        chosen.timestamps,
        chosen.language,
        engine=dict(chosen.engine),
        options=dict(chosen.option),
        label=label,
    )
    recordings = select_recordings(find_recordings(), chosen.recordings, chosen.limit)
    first, _, step = chosen.part.partition("/")
    recordings = recordings[int(first) :: int(step)]
    work = caption_text if chosen.captions else None
    files = transcribe_all(setups, recordings, chosen.out, chosen.threads, work)
    emit(compare_files(files, "kind").plain())
    return 0


def run_score(chosen: argparse.Namespace) -> int:
    """Compare files over the recordings that all have."""
    files = {path.stem: read_transcripts(path) for path in chosen.files}
    table = compare_files(files, chosen.by)
    emit(table.markdown() if chosen.markdown else table.plain())
    return 0


def add_measure_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `measure`."""
    parser.add_argument(
        "--out", type=Path, default=BUILD / "accuracy", help="transcripts"
    )
    parser.add_argument(
        "--peers", type=Path, help="folder of other systems' transcripts"
    )
    parser.add_argument(
        "--part", nargs="*", default=[], help="of the plan; default all"
    )
    parser.add_argument(
        "--limit",
        type=int,
        help="recordings of each set and language; default as planned",
    )
    parser.add_argument(
        "--timed", action="store_true", help="the machine is idle: keep times as well"
    )
    parser.add_argument("--threads", type=int, default=1, help="per operator")


def run_measure(chosen: argparse.Namespace) -> int:
    """Run the plan; keep its result, or show that of another number of recordings."""
    use_cache(BUILD / "accuracy-cache")
    result = measure_all(
        chosen.out,
        chosen.peers,
        chosen.part,
        chosen.limit,
        chosen.threads,
    )
    if chosen.limit is not None:
        emit(json.dumps(result, indent=1) + "\n")
        return 0
    earlier = read_result(RESULT).get("tables", {})
    tables = result["tables"]
    if not chosen.timed:
        tables.pop("time", None)
    for name in ("peers", "languages", "time"):
        if name in tables:
            tables[name] = keep_peers(tables[name], earlier.get(name, ()))
    result["tables"] = earlier | tables
    keep_result(RESULT, result, indent=1)
    return 0


def run_seams(chosen: argparse.Namespace) -> int:
    """Show how many seams of windows cut words and sentences."""
    (setup,) = make_setups([chosen.model], ["int8"], ["default"], ["on"], ["detected"])
    recordings = select_recordings(find_recordings(), ["long", JOINED], None)
    known = [
        recording
        for recording in recordings
        if knows_language(setup.model_name, recording.language)
    ]
    with open_transcriber(setup, chosen.threads) as (transcriber, _):
        counts = [
            count_seams(transcriber.transcribe(recording.load()).segments)
            for recording in known
        ]
    emit(compare_seams({setup.name: counts}).markdown())
    return 0


def add_retries_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `retries`."""
    parser.add_argument("--model", default=BASE, help="name or folder")
    parser.add_argument(
        "--recordings", nargs="+", default=["all", JOINED], help="groups; see above"
    )
    parser.add_argument("--limit", type=int, help="recordings of each set, language")
    parser.add_argument(
        "--out", type=Path, default=BUILD / "retries", help="transcripts and counts"
    )
    parser.add_argument("--keep", action="store_true", help=f"write {RETRIES.name}")
    parser.add_argument("--threads", type=int, default=1, help="per operator")


def run_retries(chosen: argparse.Namespace) -> int:
    """Show the decoder's work of each window, beside that of its first search."""
    recordings = select_recordings(find_recordings(), chosen.recordings, chosen.limit)
    rows = measure_policies(chosen.model, recordings, chosen.out, chosen.threads)
    models = {Path(chosen.model).name: rows}
    emit("\n".join(retry_tables({"models": models}).values()))
    if chosen.keep:
        kept = read_result(RETRIES).get("models", {})
        keep_result(RETRIES, {"models": kept | models}, indent=1)
    return 0


def run_words(chosen: argparse.Namespace) -> int:
    """Show how far word times are from the edges of joined clips."""
    (setup,) = make_setups(
        [chosen.model],
        ["int8"],
        ["default"],
        ["on"],
        ["detected"],
    )
    joined = select_recordings(find_recordings(), [JOINED], None)
    with open_transcriber(setup, chosen.threads) as (transcriber, _):

        def times(audio: FloatArray) -> list[tuple[float, float]]:
            transcript = transcriber.transcribe(audio, word_timestamps=True)
            spans = []
            for segment in transcript.segments:
                spans += [(word.start_s, word.end_s) for word in segment.words]
            return spans

        emit(measure_edges(setup.name, times, joined).plain())
    return 0


def run_subtitles(chosen: argparse.Namespace) -> int:
    """Compare subtitles of the joined recordings, ours and those that other programs wrote."""
    recordings = find_recordings()
    joined = select_recordings(recordings, [JOINED], None)
    with tempfile.TemporaryDirectory(prefix="subtitles-") as temporary:
        folder = chosen.out or Path(temporary)
        write_subtitle_audio(folder, recordings, joined)
        write_own_subtitles(folder, chosen.model, chosen.threads, joined)
        programs = find_programs(folder, joined)
        pauses = [find_pauses(recording) for recording in joined]
        counts = [
            count_conformity(name, texts, pauses) for name, texts in programs.items()
        ]
        rates: dict[str, float] = {}
        if chosen.suber is not None:
            rates = {
                name: mean_suber(chosen.suber, folder, name, joined)
                for name in programs
            }
    emit(compare_conformity(counts, rates).markdown())
    return 0


def run_check(_: argparse.Namespace) -> int:
    """Check every bound that can be checked here; fail where one is broken."""
    results: list[GateResult] = []
    recordings: list[SpeechRecording] = []
    try:
        recordings = find_recordings()
    except WhisperHailoError as error:
        results.append(GateResult("human speech", str(error), holds=None))
    with tempfile.TemporaryDirectory(prefix="accuracy-") as out:
        for model, work in ((TINY, check_tiny), (BASE, check_base)):
            try:
                results += work(recordings, Path(out))
            except WhisperHailoError as error:
                results.append(
                    GateResult(f"everything of {model}", str(error), holds=None)
                )
    emit("".join(f"{result.text}\n" for result in results))
    return int(any(result.holds is False for result in results))


def main() -> int:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(
        prog="accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="run the whole plan")
    add_measure_options(measuring)
    measuring.set_defaults(run=run_measure)
    checking = commands.add_parser("check", help="fail where a bound is broken")
    checking.set_defaults(run=run_check)
    transcribing = commands.add_parser("transcribe", help="transcribe recordings")
    add_transcribe_options(transcribing)
    transcribing.set_defaults(run=run_transcribe)
    timing = commands.add_parser("words", help="compare word times with edges of clips")
    timing.add_argument("--model", default=BASE, help="name or folder")
    timing.add_argument("--threads", type=int, default=1, help="per operator")
    timing.set_defaults(run=run_words)
    joining = commands.add_parser("seams", help="count seams that cut words")
    joining.add_argument("--model", default=BASE, help="name or folder")
    joining.add_argument("--threads", type=int, default=1, help="per operator")
    joining.set_defaults(run=run_seams)
    retrying = commands.add_parser("retries", help="measure what retries cost")
    add_retries_options(retrying)
    retrying.set_defaults(run=run_retries)
    setting = commands.add_parser(
        "subtitles", help="count the cues that keep the limits of guides"
    )
    setting.add_argument("--model", default=BASE, help="name or folder")
    setting.add_argument(
        "--out", type=Path, help="folder of the subtitles, ours and other programs'"
    )
    setting.add_argument(
        "--suber", type=Path, help="command of the package subtitle-edit-rate"
    )
    setting.add_argument("--threads", type=int, default=1, help="per operator")
    setting.set_defaults(run=run_subtitles)
    scoring = commands.add_parser("score", help="compare files of transcripts")
    scoring.add_argument("files", type=Path, nargs="+")
    scoring.add_argument("--by", choices=tuple(GROUPS), default="kind", help="rows")
    scoring.add_argument("--markdown", action="store_true", help="a table of Markdown")
    scoring.set_defaults(run=run_score)
    chosen = parser.parse_args()
    code: int = chosen.run(chosen)
    return code


if __name__ == "__main__":
    sys.exit(run_program(main))
