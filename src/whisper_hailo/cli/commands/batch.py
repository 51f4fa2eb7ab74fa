"""`whisper-hailo batch`: transcribe an archive, each recording once."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.cli.commands.transcribe import decoding_options
from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.progress import StatusLine, clock
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, OutputOptions, log_engine
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.paths import expand_user
from whisper_hailo.core.process import available_cores, require_extra
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.pipeline import USUAL_BATCH, USUAL_OPTIONS, check_batch_size

if TYPE_CHECKING:
    from whisper_hailo.batch.job import BatchJob

_WORK: Final = "Workers"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Which workers run."""

    workers: int | None = flag(
        None, "Processes with a model each.", _WORK, shown="cores; 1 with a chip"
    )
    engine: str = flag("local", "Who runs the workers", _WORK, choices=("local", "ray"))
    address: str | None = flag(
        None, "A Ray cluster that runs already.", _WORK, metavar="HOST:PORT", shown="one is started"
    )
    batch_size: int = flag(USUAL_BATCH, "Windows decoded together.", _WORK)
    as_json: bool = flag(False, "Print how far the job is as JSON.", name="--json")

    def __post_init__(self) -> None:
        require_choices(self)
        check_batch_size(self.batch_size)
        fits = self.workers is None or 1 <= self.workers <= 4096
        require_valid(self, "workers", fits, "1 to 4096")
        if self.address is not None and self.engine != "ray":
            raise OptionError("--address needs --engine ray; give both")


def batch(
    words: Annotated[list[str], Argument("Recordings of the job.", "MANIFEST|FOLDER|FILE...")],
    model: ModelOptions,
    decoding: PartialOptions[DecodingOptions],
    fallback: Fallback,
    long: LongOptions,
    output: Annotated[OutputOptions, FieldSubset(("fmt", "output_dir", "layout"))],
    job: JobOptions,
) -> int:
    """Transcribe an archive, each recording once; resume interrupted jobs; `batch status DIR`."""
    from whisper_hailo.batch.cluster import run_on_ray
    from whisper_hailo.batch.job import BatchJob, JobSettings
    from whisper_hailo.batch.manifest import read_sources
    from whisper_hailo.batch.workers import Setup, run_locally

    if words[0] == "status" and len(words) == 2:
        return _tell_status(Path(expand_user(words[1])), as_json=job.as_json)
    if output.output_dir is None:
        raise OptionError("--output-dir is missing: the folder of the job")
    for name in (*words, str(output.output_dir)):
        if re.match(r"[a-z][a-z0-9+.-]+:/", name, re.IGNORECASE):
            raise OptionError(
                f"{display_path(name)} is an address, expected a path; mount or copy it"
            )
    if job.engine == "ray":
        require_extra("cluster", "--engine ray", "ray")
    options_on = cache(partial(decoding_options, decoding, fallback, output))
    model.expect_language(options_on(USUAL_OPTIONS, FALLBACK_STEP))
    if not model.threads:
        model = replace(model, threads=1)  # workers are as many as cores
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    transcriber.check(options, long)
    log_engine(transcriber)
    folder = output.output_dir
    settings = JobSettings(
        transcriber.identity(options, long, job.batch_size),
        transcriber.settings(options, long, job.batch_size),
        options.task,
        output.formats if output.fmt else (),
        output.layout,
    )
    setup = Setup(model.arguments(), options, long, job.batch_size)
    on_chip = transcriber.encoder.name.startswith("hef")
    n_workers = job.workers or (1 if on_chip else available_cores())
    with BatchJob(folder, settings, read_sources([Path(word) for word in words])) as running:
        line = StatusLine()
        if job.engine == "ray":
            outcomes = run_on_ray(setup, running.groups(), job.address, job.workers)
        else:
            outcomes = run_locally(setup, running.groups(), n_workers)
        for outcome in outcomes:
            running.take(outcome)
            line.update(_format_progress(running))
        line.close()
        failures = len(running.failures)
    if job.as_json:
        return _tell_status(folder, as_json=True)
    record = running.record
    done = f"{clock(record.audio_s)} of audio in {clock(record.seconds)}"
    print_note(
        f"{_count_items(running.n_items)} in {display_path(folder)}, {failures} failed; "
        + (done if record.audio_s or failures else "nothing was left to do")
        + f", see {display_path(folder)}/failures.jsonl" * bool(failures)
    )
    return ExitCode.AUDIO if failures else ExitCode.OK


def _count_items(count: int) -> str:
    return f"{count} item" + "s" * (count != 1)


def _format_progress(job: BatchJob) -> str:
    left = "" if (left_s := job.left_s) is None else f", about {clock(left_s)} left"
    return f"{job.n_done} of {_count_items(job.n_items)}, {job.record.speed:.1f} x real time{left}"


def _tell_status(folder: Path, *, as_json: bool) -> int:
    from whisper_hailo.batch.job import read_status

    status = read_status(folder)
    if as_json:
        emit_json(asdict(status) | {"remaining": status.remaining})
        return ExitCode.OK
    left = f", about {clock(status.left_s)} left" if status.remaining and status.left_s else ""
    emit(
        f"{status.done} of {_count_items(status.items)} done, {status.failed} failed, "
        f"{status.remaining} left\n{clock(status.audio_s)} of audio, "
        f"{status.speed:.1f} x real time{left}\n"
    )
    for kind, count in status.failures.items():
        emit(f"{kind}: {count}\n")
    return ExitCode.OK
