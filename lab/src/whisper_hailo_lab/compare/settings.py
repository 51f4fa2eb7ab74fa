"""Comparisons of settings on the same recordings, and the one of caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import ZEROS
from whisper_hailo_lab.compare.cache import compare_cache
from whisper_hailo_lab.compare.padding_grid import PaddingGrid
from whisper_hailo_lab.data.datasets import Dataset
from whisper_hailo_lab.harness.evaluate import Progress, evaluate_cases, new_header
from whisper_hailo_lab.runs.records import Case, ComparisonRecord, RunRecords
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.runs.summary import (
    Summary,
    finite_or_none,
    paired_ratio,
    summarise,
)


@dataclass(frozen=True, slots=True)
class Variation:
    """Settings that a comparison varies.

    Attributes:
        values: settings of each case by its label; the others are compared with the first.
        stage: time that the ratio is of: `total`, `encoder` or `decoder`.
    """

    values: dict[str, dict[str, Any]]
    stage: str = "total"


SHORT: Final[dict[str, Any]] = {"window_s": 10.0}
"""Padding is for windows shorter than those that the decoder was trained on."""

WHOLE: Final[dict[str, Any]] = {"trim_window": False}
"""Windows are encoded to their end, as a chip encodes them."""

PLANS: Final[dict[str, Variation]] = {
    "window": Variation(
        {
            "5 s": WHOLE | {"window_s": 5.0},
            "10 s": WHOLE | {"window_s": 10.0},
            "30 s": WHOLE | {"window_s": 30.0},
            "10 s, 8-bit decoder": WHOLE | {"window_s": 10.0, "quantize": "int8"},
            "30 s, 8-bit decoder": WHOLE | {"window_s": 30.0, "quantize": "int8"},
        },
        "encoder",
    ),
    "precision": Variation(
        {
            "encoder FP32, decoder FP32": {},
            "encoder INT8, decoder FP32": {"encoder_quantize": "int8"},
            "encoder INT4, decoder FP32": {"encoder_quantize": "int4"},
            "encoder FP32, decoder INT8": {"quantize": "int8"},
            "encoder FP32, decoder INT4": {"quantize": "int4"},
            "encoder INT8, decoder INT8": {
                "encoder_quantize": "int8",
                "quantize": "int8",
            },
        }
    ),
    "padding": Variation(
        {
            "none": SHORT | {"pad_to": 0},
            "zeros to 700": SHORT | {"pad_to": 700, "pad_with": ZEROS},
            "zeros to 1500": SHORT | {"pad_to": 1500, "pad_with": ZEROS},
            "silence keys": SHORT,
        },
        "decoder",
    ),
}


def compare_settings(
    name: str,
    plan: Variation,
    dataset: Dataset,
    common: Case,
    progress: Progress,
    *,
    out: Path | None = None,
) -> tuple[RunRecords, ComparisonRecord]:
    """Run every value of a plan on the same files, in turns.

    Args:
        name: of the comparison.
        plan: what varies.
        dataset: recordings with their texts.
        common: model, language, row, threads and settings of all cases.
        progress: called before each step.
        out: run file to add the cases to.

    Returns:
        records of the cases, and the comparison made from them.

    Raises:
        OptionError: a case failed.
    """
    cases = [
        Case(
            name=f"{name}: {label}",
            system="ours",
            row=common.row,
            model=common.model,
            language=common.language,
            threads=common.threads,
            settings=common.settings | settings,
            group=name,
        )
        for label, settings in plan.values.items()
    ]
    run = evaluate_cases(cases, dataset, out, progress)
    failed = next((case for case in run.cases if case.error), None)
    if failed is not None:
        raise OptionError(f"{failed.name} failed: {failed.error}")
    settings = {
        "model": common.model,
        "row": common.row,
        "threads": common.threads,
        "dataset": dataset.name,
        "files": len(dataset.samples),
        "ratio": f"of the {plan.stage} time",
    }
    rows = tuple(_make_rows(run, plan))
    return run, ComparisonRecord(name, settings | common.settings, rows)


def _make_rows(run: RunRecords, plan: Variation) -> Iterator[dict[str, Any]]:
    summaries = summarise(run)
    base = run.files_of(summaries[0].case.name)
    for label, summary in zip(plan.values, summaries, strict=True):
        files = run.files_of(summary.case.name)
        yield _make_row(label, summary, paired_ratio(files, base, plan.stage))


def _make_row(label: str, summary: Summary, ratio: float | None) -> dict[str, Any]:
    words = summary.normalised.words
    times = summary.times
    return {
        "value": label,
        "encoder_ms": times.cpu_share_ms(times.encoder_ms) if times else None,
        "decoder_ms": times.cpu_share_ms(times.decoder_ms) if times else None,
        "median_ms": times.median_ms if times else None,
        "p95_ms": times.p95_ms if times else None,
        "ratio": ratio,
        "wer": finite_or_none(words.rate),
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "words": words.reference_count,
        "simple_mean_wer": summary.simple.mean_wer,
        "runaway": summary.n_runaway,
        "repetitive": summary.n_repetitive,
        "silent": summary.n_silent,
        "silent_with_text": summary.n_hallucinated,
        "files": summary.n_heard,
        "components_mib": summary.case.memory.components_total,
    }


def compare_grid(
    grid: PaddingGrid,
    dataset: Dataset,
    common: Case,
    progress: Progress,
    out: Path | None,
) -> ComparisonRecord:
    """Compare countermeasures against repetition with a preset; see `run_comparison`."""
    plan = Variation(grid.settings(), "decoder")
    _, record = compare_settings("grid", plan, dataset, common, progress, out=out)
    return _keep_record(record, dataset, out)


def run_comparison(
    name: str,
    dataset: Dataset,
    common: Case,
    progress: Progress,
    out: Path | None,
) -> ComparisonRecord:
    """Run one comparison.

    Args:
        name: `cache`, `window`, `precision` or `padding`.
        dataset: recordings; `cache` takes the one with the longest text.
        common: model, language, row and threads of all cases.
        progress: called before each step.
        out: run file to add the records to.

    Raises:
        OptionError: no recordings, or a run file of another machine.
    """
    if not dataset.samples:
        raise OptionError(f"compare {name} needs recordings with their texts")
    if name == "cache":
        longest = max(dataset.samples, key=lambda sample: len(sample.reference))
        record = compare_cache(
            common.model, longest.audio, common.language, common.threads, progress
        )
    else:
        _, record = compare_settings(
            name, PLANS[name], dataset, common, progress, out=out
        )
    return _keep_record(record, dataset, out)


def _keep_record(
    record: ComparisonRecord, dataset: Dataset, out: Path | None
) -> ComparisonRecord:
    if out is not None:
        with RunWriter(out, new_header(dataset), append=True) as writer:
            writer.write(record)
    return record
