"""Every comparison by its name."""

from __future__ import annotations

from pathlib import Path

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.compare.cache import compare_cache
from whisper_hailo_lab.compare.mel import compare_mel
from whisper_hailo_lab.compare.settings import compare_settings
from whisper_hailo_lab.data.datasets import Dataset
from whisper_hailo_lab.harness.evaluate import new_header
from whisper_hailo_lab.harness.processes import Progress
from whisper_hailo_lab.runs.case import Case
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.runs.run_file import RunWriter


def compare(
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
        ModelError, HubError: no such model.
        OutputError: the run file cannot be written.
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
