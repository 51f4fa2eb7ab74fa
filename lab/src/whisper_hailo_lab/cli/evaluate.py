"""`whisper-hailo evaluate`: a folder of recordings and texts in, error rates and times out."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.languages import language_code
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.program import StepProgress
from whisper_hailo_lab.runs.records import ROWS, Case
from whisper_hailo_lab.systems.table import SYSTEMS

if TYPE_CHECKING:
    from whisper_hailo_lab.runs.records import RunRecords


def evaluate(
    folder: Annotated[
        Path, Argument("<id>.wav and <id>.txt, LibriSpeech, or a JSONL manifest.")
    ],
    system: Annotated[
        list[str] | None,
        Flag(f"May be repeated: {', '.join(SYSTEMS)}. [default: ours]"),
    ] = None,
    row: Annotated[
        list[str] | None,
        Flag(f"Rules, may be repeated: {', '.join(ROWS)}. [default: default]"),
    ] = None,
    model: Annotated[
        str,
        Flag(
            "Checkpoint, converted for each system, or in its own format.", short="-m"
        ),
    ] = "tiny",
    window: Annotated[
        float | None, Flag("Ours: encoder window in seconds.", metavar="S")
    ] = None,
    quantize: Annotated[str, Flag("Ours: auto, none, int8, int4.")] = "auto",
    setting: Annotated[
        list[str] | None,
        Flag("Additional setting of a system; see the docs.", metavar="NAME=VALUE"),
    ] = None,
    language: Annotated[
        str, Flag("Code or English name.", short="-l", metavar="L", parse=language_code)
    ] = "en",
    threads: Annotated[
        int, Flag("Used by every system.", short="-t", parse=whole_number(0, 256))
    ] = 0,
    limit: Annotated[int | None, Flag("Draw N files; see --seed.", metavar="N")] = None,
    seed: Annotated[int, Flag("Seed for drawing files.", metavar="S")] = 0,
    out: Annotated[Path | None, Flag("Run file to add to.", metavar="FILE")] = None,
    as_json: Annotated[
        bool, Flag("One JSON object per file, then one per case.", name="--json")
    ] = False,
) -> int:
    """Measure accuracy, times and memory; a file that fails is reported and counted."""
    from whisper_hailo_lab.data.datasets import read_dataset
    from whisper_hailo_lab.harness.evaluate import evaluate_cases, make_cases
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    weights = ConvertOptions(quantize)
    ours: dict[str, Any] = {}
    if window is not None:
        ours["window_s"] = window
    if weights.decoder_form != "none":
        ours["quantize"] = weights.decoder_form
    if weights.encoder_form != "none":
        ours["encoder_quantize"] = weights.encoder_form
    cases = make_cases(
        systems=system or ["ours"],
        rows=row or ["default"],
        common=Case(
            name="", system="ours", model=model, language=language, threads=threads
        ),
        ours=ours,
        others=_parse_settings(setting or []),
    )
    dataset = read_dataset(folder, language).sample(limit, seed)
    with closing(StepProgress()) as progress:
        run = evaluate_cases(cases, dataset, out, progress)
    _print_run(run, as_json=as_json)
    errors = [case.error for case in run.cases]
    errors += [file.error for file in run.files]
    return ExitCode.AUDIO if any(errors) else ExitCode.OK


def _parse_settings(words: list[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` words by name, a value as JSON if it is JSON, else as text."""
    import json

    from whisper_hailo.core.errors import OptionError

    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise OptionError(f"--setting is {word!r}, expected NAME=VALUE")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _print_run(run: RunRecords, *, as_json: bool) -> None:
    from whisper_hailo_lab.report.tables import describe_cases, describe_file
    from whisper_hailo_lab.runs.summary import case_figures, file_figures, summarise

    summaries = summarise(run)
    if as_json:
        for record in run.files:
            emit_json({"kind": "file"} | file_figures(record))
        for summary in summaries:
            emit_json({"kind": "case"} | case_figures(summary))
        return
    for record in run.files:
        emit(describe_file(record))
    emit("\n" + describe_cases(summaries))
