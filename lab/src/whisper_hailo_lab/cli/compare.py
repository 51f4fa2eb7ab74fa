"""`whisper-hailo compare`: one thing varies, everything else stays equal."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.cli.messages import print_line
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import Flag, option_name
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.compare.padding_grid import GRID, PaddingGrid
from whisper_hailo_lab.extras import require_extra
from whisper_hailo_lab.progress import StepProgress
from whisper_hailo_lab.runs.records import COMPARISONS

if TYPE_CHECKING:
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.compare.padding import PaddingRow
    from whisper_hailo_lab.data.datasets import Sample
    from whisper_hailo_lab.runs.records import ComparisonRecord

FOR_ALL: Final = ("model", "threads")
"""Fields of `ModelOptions` that every comparison has; the others are for the grid."""


def compare(
    what: Annotated[str, Argument(f"One of: {', '.join(COMPARISONS)}.")],
    folder: Annotated[
        Path | None,
        Argument("Recordings with texts, as for evaluate; one recording for captions."),
    ] = None,
    *,
    model: PartialOptions[ModelOptions],
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
    chart: Annotated[
        Path | None, Flag("Write an SVG there.", GRID, metavar="FILE")
    ] = None,
    out: Annotated[Path | None, Flag("Run file to add to.", metavar="FILE")] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Compare caches, windows, precisions, paddings or captions.

    One thread works unless --threads is given. The options of the engine are for padding --grid.
    """
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    if what not in COMPARISONS:
        raise OptionError(
            f"cannot compare {what!r}, expected one of: {', '.join(COMPARISONS)}"
        )
    options = model.apply_to(ModelOptions(threads=1))
    if with_grid:
        if what != "padding" or folder is None:
            raise OptionError("--grid goes with: compare padding FOLDER")
        if out is not None:
            raise OptionError(
                "--out is not for --grid, which adds to no run file; give --json"
            )
        samples = _read_samples(folder, language, limit, seed)
        _compare_grid(options, grid.build(), samples, language, chart, as_json=as_json)
        return
    _refuse_grid_options(model, grid, chart)
    if what == "captions":
        setup = CommonSetup(options.model, language, options.threads, moonshine)
        record = _compare_captions(folder, setup, out)
    else:
        record = _compare_cases(what, folder, options, row, language, limit, seed, out)
    _print_comparison(record, as_json=as_json)


def _refuse_grid_options(
    model: PartialOptions[ModelOptions],
    grid: PartialOptions[PaddingGrid],
    chart: Path | None,
) -> None:
    """Refuse options that only `padding --grid` has."""
    names = [
        option_name(field)
        for field in model.given_fields()
        if field.name not in FOR_ALL
    ]
    names += [option_name(field) for field in grid.given_fields()]
    if chart is not None:
        names.append("--chart")
    if names:
        raise OptionError(f"{names[0]} goes with: compare padding FOLDER --grid")


def _compare_cases(
    what: str,
    folder: Path | None,
    options: ModelOptions,
    row: str,
    language: str,
    limit: int | None,
    seed: int,
    out: Path | None,
) -> ComparisonRecord:
    from whisper_hailo_lab.compare.all import run_comparison
    from whisper_hailo_lab.data.datasets import read_dataset
    from whisper_hailo_lab.runs.records import Case

    common = Case("", "ours", row, options.model, language, options.threads)  # type: ignore[arg-type]
    if folder is None:
        raise OptionError(f"compare {what} needs a folder of recordings; see evaluate")
    dataset = read_dataset(folder, language).sample(limit, seed)
    with closing(StepProgress()) as progress:
        return run_comparison(what, dataset, common, progress, out)


def _compare_captions(
    recording: Path | None, setup: CommonSetup, out: Path | None
) -> ComparisonRecord:
    """Compare engines and settings on one stream."""
    # Not in `compare.all`, since captions stand above the other comparisons.
    from whisper_hailo_lab.captions.engines import compare_captions
    from whisper_hailo_lab.harness.evaluate import new_header
    from whisper_hailo_lab.runs.run_file import RunWriter

    if recording is None:
        raise OptionError("compare captions needs a recording; give a FILE")
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


def _compare_grid(
    model: ModelOptions,
    grid: PaddingGrid,
    samples: list[Sample],
    language: str,
    chart: Path | None,
    *,
    as_json: bool,
) -> None:
    from whisper_hailo.core.atomic_files import require_writable_folder, write_file
    from whisper_hailo.core.overwrite import Signature, refuse_foreign
    from whisper_hailo.decoding.options import DecodingOptions
    from whisper_hailo_lab.compare.padding import compare_padding, padding_chart

    if chart is not None:
        require_extra("bench", "a chart", "matplotlib")
        refuse_foreign(chart, Signature("an SVG file", rb"\s*<(\?xml|svg)\b"))
        require_writable_folder(chart.parent, "give another place")
    settings = grid.settings()
    options = DecodingOptions(language=language)
    transcriber = replace(model.transcriber(), encode_ahead=False)
    for setting in settings:
        transcriber.check(setting.decoding_options(options))
    with transcriber:
        rows = compare_padding(
            transcriber,
            samples,
            settings,
            options,
            announce=lambda name: print_line(f"{len(samples)} recordings: {name}"),
        )
    if chart is not None:
        write_file(chart, padding_chart(rows))
        print_line(f"wrote {display_path(chart)}")
    _print_grid(rows, as_json=as_json)


def _print_grid(rows: list[PaddingRow], *, as_json: bool) -> None:
    from whisper_hailo_lab.compare.padding import padding_table

    if as_json:
        emit_json({"rows": [row.to_dict() for row in rows]})
        return
    emit(padding_table(rows).plain())
    for row in rows:
        if row.differs_at is not None:
            emit(f"\n{row.name}, {row.differs_at}:\n")
            emit(f"- {row.expected}\n")
            emit(f"+ {row.got}\n")


def _read_samples(
    path: Path,
    language: str,
    limit: int | None,
    seed: int,
) -> list[Sample]:
    """Return a recording, with its text if there is one, or some of a dataset."""
    from whisper_hailo_lab.data.datasets import Sample, read_dataset, reference_beside

    if not path.is_dir() and path.suffix != ".jsonl":
        return [Sample(path.stem, path, reference_beside(path) or "", language)]
    dataset = read_dataset(path, language).sample(limit, seed)
    for problem in dataset.problems:
        print_line(f"left out {problem.id}: {problem.message}")
    return list(dataset.samples)
