"""`whisper-hailo compare`: one thing at a time, everything else equal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.cli.steps import Steps

if TYPE_CHECKING:
    from whisper_hailo.bench.records import ComparisonRecord

WHAT = ("cache", "window", "mel", "precision", "padding")


def compare(
    what: Annotated[str, typer.Argument(help=f"One of: {', '.join(WHAT)}.")],
    folder: Annotated[
        Path | None,
        typer.Argument(help="Recordings with texts, as for evaluate; not for mel.", readable=False),
    ] = None,
    model: Annotated[str, typer.Option(help="Checkpoint to convert.")] = "tiny",
    row: Annotated[str, typer.Option(help="default, matched or study.")] = "matched",
    language: Annotated[str, typer.Option(help="Language of the recordings.")] = "en",
    threads: Annotated[int, typer.Option(min=0, max=256, help="Per operator.")] = 1,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Draw N files; see --seed.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Of the drawing.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run file to add to.", readable=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare decoding with and without a cache, windows, log-mels, precisions or paddings."""
    from whisper_hailo.bench.case import Case
    from whisper_hailo.bench.compare.all import compare as run
    from whisper_hailo.bench.datasets import read_dataset
    from whisper_hailo.bench.report.comparisons import comparison_table
    from whisper_hailo.core.errors import OptionError

    if what not in WHAT:
        raise OptionError(f"cannot compare {what!r}, expected one of: {', '.join(WHAT)}")
    common = Case("", "ours", row, model, language, threads)  # type: ignore[arg-type]
    if folder is None and what != "mel":
        raise OptionError(f"compare {what} needs a folder of recordings; see evaluate")
    dataset = None if folder is None else read_dataset(folder, language).sampled(limit, seed)
    steps = Steps()
    try:
        record = run(what, dataset, common, steps, out)
    finally:
        steps.close()
    if as_json:
        emit_json(_json(record))
    else:
        emit(comparison_table(record).plain())


def _json(record: ComparisonRecord) -> dict[str, object]:
    return {"comparison": record.name, "settings": record.settings, "rows": list(record.rows)}
