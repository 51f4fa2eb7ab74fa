"""`whisper-hailo compare`: one thing varies, everything else stays equal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.cli.messages import print_line
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag, option_name
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.compare.padding_grid import PaddingGrid
from whisper_hailo_lab.program import StepProgress
from whisper_hailo_lab.runs.records import Case

if TYPE_CHECKING:
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.data.datasets import Dataset
    from whisper_hailo_lab.runs.records import ComparisonRecord

KINDS: Final = ("cache", "window", "precision", "padding", "captions")


def compare(
    what: Annotated[str, Argument(f"One of: {', '.join(KINDS)}.")],
    folder: Annotated[
        Path, Argument("Recordings with texts, as for evaluate, or one recording.")
    ],
    *,
    model: Annotated[PartialOptions[ModelOptions], FieldSubset(("model", "threads"))],
    row: Annotated[str, Flag("default, matched or study.")] = "matched",
    language: Annotated[
        str, Flag("Code or English name.", short="-l", metavar="L", parse=language_code)
    ] = "en",
    limit: Annotated[
        int | None,
        Flag("Draw N files; see --seed.", metavar="N", parse=whole_number(1, 100_000)),
    ] = None,
    seed: Annotated[int, Flag("Seed for drawing files.", metavar="S")] = 0,
    moonshine: Annotated[
        str,
        Flag(
            "tiny-streaming, another size or a folder; only for captions.",
            metavar="SIZE|DIR",
        ),
    ] = "tiny-streaming",
    with_grid: Annotated[
        bool,
        Flag(
            "Padding beside penalty, boost, blocked runs and speech only.",
            name="--grid",
        ),
    ] = False,
    grid: PartialOptions[PaddingGrid],
    out: Annotated[Path | None, Flag("Run file to add to.", metavar="FILE")] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Compare caches, windows, precisions, paddings or captions.

    Uses one thread unless --threads is given.
    """
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    if what not in KINDS:
        raise OptionError(
            f"cannot compare {what!r}, expected one of: {', '.join(KINDS)}"
        )
    if with_grid and what != "padding":
        raise OptionError("--grid goes with: compare padding")
    given = next(grid.given_fields(), None)
    if given is not None and not with_grid:
        raise OptionError(f"{option_name(given)} goes with: compare padding --grid")
    options = model.apply_to(ModelOptions(threads=1))
    if what == "captions":
        setup = CommonSetup(options.model, language, options.threads, moonshine)
        record = _compare_captions(folder, setup, out)
    else:
        common = Case("", "ours", row, options.model, language, options.threads)  # type: ignore[arg-type]
        dataset = _read_recordings(folder, language, limit, seed)
        settings = grid.build() if with_grid else None
        record = _compare_cases(what, settings, dataset, common, out)
    _print_comparison(record, as_json=as_json)


def _compare_cases(
    what: str,
    grid: PaddingGrid | None,
    dataset: Dataset,
    common: Case,
    out: Path | None,
) -> ComparisonRecord:
    from whisper_hailo_lab.compare.settings import compare_grid, run_comparison

    with closing(StepProgress()) as progress:
        if grid is not None:
            return compare_grid(grid, dataset, common, progress, out)
        return run_comparison(what, dataset, common, progress, out)


def _compare_captions(
    recording: Path, setup: CommonSetup, out: Path | None
) -> ComparisonRecord:
    """Compare engines and settings on one stream."""
    # Not in `compare.settings`, since captions stand above the other comparisons.
    from whisper_hailo_lab.captions.engines import compare_captions
    from whisper_hailo_lab.harness.evaluate import new_header
    from whisper_hailo_lab.runs.run_file import RunWriter

    with closing(StepProgress()) as progress:
        record = compare_captions(
            recording,
            setup,
            lambda done, total: progress(done, total, "seconds captioned"),
        )
    if out is not None:
        with RunWriter(out, new_header(), append=True) as writer:
            writer.write(record)
    return record


def _print_comparison(record: ComparisonRecord, *, as_json: bool) -> None:
    from whisper_hailo_lab.report.tables import comparison_table

    if not as_json:
        emit(comparison_table(record).plain())
        return
    emit_json(
        {
            "comparison": record.name,
            "settings": record.settings,
            "rows": list(record.rows),
        }
    )


def _read_recordings(
    path: Path, language: str, limit: int | None, seed: int
) -> Dataset:
    """Return a recording, with its text if there is one, or some of a dataset."""
    from whisper_hailo_lab.data.datasets import (
        Dataset,
        Sample,
        read_dataset,
        reference_beside,
    )

    if path.is_file() and path.suffix != ".jsonl":
        sample = Sample(path.stem, path, reference_beside(path) or "", language)
        return Dataset(path.name, path, (sample,))
    dataset = read_dataset(path, language).sample(limit, seed)
    for problem in dataset.problems:
        print_line(f"left out {problem.id}: {problem.message}")
    return dataset
