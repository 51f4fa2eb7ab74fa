"""`whisper-hailo evaluate`: a folder of recordings and texts in, error rates and times out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whisper_hailo.cli.progress import Steps
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.languages import language_code
from whisper_hailo_lab.runs.records import ROWS, Case
from whisper_hailo_lab.systems.table import SYSTEMS

if TYPE_CHECKING:
    from whisper_hailo_lab.runs.records import RunRecords


def evaluate(
    folder: Annotated[
        Path,
        typer.Argument(
            help="<id>.wav and <id>.txt, LibriSpeech, or a JSONL manifest.", readable=False
        ),
    ],
    system: Annotated[
        list[str] | None,
        typer.Option(help=f"May be repeated: {', '.join(SYSTEMS)}. [default: ours]"),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help=f"Rules, may be repeated: {', '.join(ROWS)}. [default: default]"),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="Checkpoint, converted for each system, or in its own format."
        ),
    ] = "tiny",
    window: Annotated[
        float | None, typer.Option(metavar="S", help="Ours: encoder window in seconds.")
    ] = None,
    quantize: Annotated[str, typer.Option(help="Ours: auto, none, int8, int4.")] = "auto",
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Further setting of a system; see the docs."),
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            "--language", "-l", parser=language_code, metavar="L", help="Code or English name."
        ),
    ] = "en",
    threads: Annotated[
        int, typer.Option("--threads", "-t", min=0, max=256, help="For all systems alike.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Draw N files; see --seed.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the drawing.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run file to add to.", readable=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per file, then one per case.")
    ] = False,
) -> int:
    """Measure accuracy, times and memory; a file that fails is reported and counted."""
    from whisper_hailo_lab.data.datasets import read_dataset
    from whisper_hailo_lab.harness.evaluate import evaluate as measure
    from whisper_hailo_lab.harness.evaluate import make_cases
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    form = ConvertOptions(quantize)
    ours = {
        "window_s": window,
        "quantize": form.decoder_form,
        "encoder_quantize": form.encoder_form,
    }
    cases = make_cases(
        systems=system or ["ours"],
        rows=row or ["default"],
        common=Case(name="", system="ours", model=model, language=language, threads=threads),
        ours={name: value for name, value in ours.items() if value not in (None, "none")},
        others=_settings(setting or []),
    )
    dataset = read_dataset(folder, language).sampled(limit, seed)
    steps = Steps()
    try:
        run = measure(cases, dataset, out, steps)
    finally:
        steps.close()
    _show(run, as_json=as_json)
    failed = any(case.error for case in run.cases) or any(file.error for file in run.files)
    return ExitCode.AUDIO if failed else ExitCode.OK


def _settings(words: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` words as JSON values where they are some, else as text."""
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


def _show(run: RunRecords, *, as_json: bool) -> None:
    from whisper_hailo_lab.report.table import cases_text, file_text
    from whisper_hailo_lab.runs.summary import case_figures, file_figures, summarise

    summaries = summarise(run)
    if as_json:
        for record in run.files:
            emit_json({"kind": "file"} | file_figures(record))
        for summary in summaries:
            emit_json({"kind": "case"} | case_figures(summary))
        return
    for record in run.files:
        emit(file_text(record))
    emit("\n" + cases_text(summaries))
