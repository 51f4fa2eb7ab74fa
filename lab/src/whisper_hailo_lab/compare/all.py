"""Every comparison by its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.compare.cache import compare_cache
from whisper_hailo_lab.compare.mel import compare_mel
from whisper_hailo_lab.data.datasets import Dataset
from whisper_hailo_lab.harness.evaluate import Progress, evaluate_cases, new_header
from whisper_hailo_lab.runs.records import Case, ComparisonRecord, RunRecords
from whisper_hailo_lab.runs.run_file import RunWriter
from whisper_hailo_lab.runs.summary import Summary, finite, paired_ratio, summarise

PADDING_TARGETS: Final = (0, 500, 600, 650, 700, 1000, 1500)
"""None, the study's, and what the decoder was trained on."""


@dataclass(frozen=True, slots=True)
class Variation:
    """What a comparison varies.

    Attributes:
        values: label to the settings of its case; the first is what the others are compared with.
        what: the figure that the ratio is about: `total`, `encoder` or `decoder`.
    """

    values: dict[str, dict[str, Any]]
    what: str = "total"


PLANS: Final[dict[str, Variation]] = {
    "window": Variation(
        {
            "10 s": {"window_s": 10.0},
            "30 s": {"window_s": 30.0},
            "10 s, 8-bit decoder": {"window_s": 10.0, "quantize": "int8"},
            "30 s, 8-bit decoder": {"window_s": 30.0, "quantize": "int8"},
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
            "encoder INT8, decoder INT8": {"encoder_quantize": "int8", "quantize": "int8"},
        }
    ),
    "padding": Variation(
        {"none" if n == 0 else f"to {n}": {"pad_to": n} for n in PADDING_TARGETS}, "decoder"
    ),
}


def compare_settings(
    name: str, dataset: Dataset, common: Case, progress: Progress, out: Path | None = None
) -> tuple[RunRecords, ComparisonRecord]:
    """Run every value of a plan on the same files, in turns.

    Args:
        name: one of `PLANS`.
        dataset: what is heard.
        common: model, language, row, threads and settings that hold for all.
        progress: told about each step.
        out: run file to add the cases to.

    Returns:
        the cases' records, and the comparison made from them.
    """
    plan = PLANS[name]
    cases = [
        Case(
            name=f"{name}: {label}",
            system="ours",
            row=common.row,
            model=common.model,
            language=common.language,
            threads=common.threads,
            settings=common.settings | given,
            group=name,
        )
        for label, given in plan.values.items()
    ]
    run = evaluate_cases(cases, dataset, out, progress)
    failed = next((case for case in run.cases if case.error), None)
    if failed is not None:
        raise OptionError(f"{failed.name} failed: {failed.error}")
    settings = {
        "model": common.model, "row": common.row, "threads": common.threads,
        "dataset": dataset.name, "files": len(dataset.samples), "ratio": f"of the {plan.what} time",
    }  # fmt: skip
    return run, ComparisonRecord(name, settings | common.settings, _rows(run, plan))


def _rows(run: RunRecords, plan: Variation) -> tuple[dict[str, Any], ...]:
    summaries = summarise(run)
    base = run.files_of(summaries[0].case.name)
    return tuple(
        _row(label, summary, paired_ratio(run.files_of(summary.case.name), base, plan.what))
        for label, summary in zip(plan.values, summaries, strict=True)
    )


def _row(label: str, summary: Summary, ratio: float | None) -> dict[str, Any]:
    words, times = summary.normalised.words, summary.times
    return {
        "value": label,
        "encoder_ms": times.encoder_ms if times else None,
        "decoder_ms": times.decoder_ms if times else None,
        "median_ms": times.median_ms if times else None,
        "p95_ms": times.p95_ms if times else None,
        "ratio": ratio,
        "wer": finite(words.rate),
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "words": words.reference_count,
        "simple_mean_wer": summary.simple.mean_wer,
        "runaway": summary.n_runaway,
        "repetitive": summary.n_repetitive,
        "files": summary.n_heard,
        "components_mib": summary.case.memory.components_total,
    }


def run_comparison(
    what: str, dataset: Dataset | None, common: Case, progress: Progress, out: Path | None
) -> ComparisonRecord:
    """Run one comparison.

    Args:
        what: `cache`, `window`, `mel`, `precision` or `padding`.
        dataset: recordings; `cache` hears the longest that fits, `mel` none.
        common: model, language, row and threads for all.
        progress: told about each step.
        out: run file to add the records to.

    Raises:
        OptionError: no recordings, or a run file of another machine.
    """
    if what == "mel":
        record = compare_mel(progress)
    elif dataset is None or not dataset.samples:
        raise OptionError(f"compare {what} needs recordings with their texts")
    elif what == "cache":
        longest = max(dataset.samples, key=lambda sample: len(sample.reference))
        record = compare_cache(
            common.model, longest.audio, common.language, common.threads, progress
        )
    else:
        _, record = compare_settings(what, dataset, common, progress, out)
    if out is not None:
        with RunWriter(out, new_header(dataset), append=True) as writer:
            writer.write(record)
    return record
