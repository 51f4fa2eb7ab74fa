"""`whisper-hailo compare`: one thing at a time, everything else equal."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.languages import language_code
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.steps import Steps

if TYPE_CHECKING:
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.runs.records import ComparisonRecord

WHAT = ("cache", "window", "mel", "precision", "padding", "captions")


def compare(
    what: Annotated[str, Argument(f"One of: {', '.join(WHAT)}.")],
    folder: Annotated[
        Path | None,
        Argument(
            "Recordings with texts, as for evaluate; one recording for captions; not for mel."
        ),
    ] = None,
    model: Annotated[str, Flag("Checkpoint to convert.", short="-m")] = "tiny",
    row: Annotated[str, Flag("default, matched or study.")] = "matched",
    language: Annotated[
        str, Flag("Code or English name.", short="-l", metavar="L", parse=language_code)
    ] = "en",
    threads: Annotated[int, Flag("Per operator.", short="-t", parse=whole_number(0, 256))] = 1,
    limit: Annotated[int | None, Flag("Draw N files; see --seed.", metavar="N")] = None,
    seed: Annotated[int, Flag("Seed for drawing files.", metavar="S")] = 0,
    moonshine: Annotated[
        str,
        Flag("tiny-streaming, another size or a folder; only for captions.", metavar="SIZE|DIR"),
    ] = "tiny-streaming",
    out: Annotated[Path | None, Flag("Run file to add to.", metavar="FILE")] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Compare caches, windows, log-mels, precisions, paddings or captions."""
    from whisper_hailo.core.errors import OptionError
    from whisper_hailo_lab.captions.engines import CommonSetup
    from whisper_hailo_lab.compare.all import compare as run
    from whisper_hailo_lab.data.datasets import read_dataset
    from whisper_hailo_lab.runs.records import Case
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    if what not in WHAT:
        raise OptionError(f"cannot compare {what!r}, expected one of: {', '.join(WHAT)}")
    if what == "captions":
        _show(
            _captions(folder, CommonSetup(model, language, threads, moonshine), out),
            as_json=as_json,
        )
        return
    common = Case("", "ours", row, model, language, threads)  # type: ignore[arg-type]
    if folder is None and what != "mel":
        raise OptionError(f"compare {what} needs a folder of recordings; see evaluate")
    dataset = None if folder is None else read_dataset(folder, language).sampled(limit, seed)
    with closing(Steps()) as steps:
        record = run(what, dataset, common, steps, out)
    _show(record, as_json=as_json)


def _captions(recording: Path | None, common: CommonSetup, out: Path | None) -> ComparisonRecord:
    """Engines and settings on one stream; above the other comparisons, for it captions."""
    from whisper_hailo.core.errors import OptionError
    from whisper_hailo_lab.captions.engines import compare_captions
    from whisper_hailo_lab.harness.evaluate import new_header
    from whisper_hailo_lab.runs.run_file import RunWriter

    if recording is None:
        raise OptionError("compare captions needs a recording; give a FILE")
    with closing(Steps()) as steps:
        record = compare_captions(
            recording, common, lambda done, total: steps(done, total, "seconds captioned")
        )
    if out is not None:
        with RunWriter(out, new_header(), append=True) as writer:
            writer.write(record)
    return record


def _show(record: ComparisonRecord, *, as_json: bool) -> None:
    from whisper_hailo_lab.report.tables import comparison_table

    if as_json:
        emit_json(_json(record))
    else:
        emit(comparison_table(record).plain())


def _json(record: ComparisonRecord) -> dict[str, object]:
    return {"comparison": record.name, "settings": record.settings, "rows": list(record.rows)}
