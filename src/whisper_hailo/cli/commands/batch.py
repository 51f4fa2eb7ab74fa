"""`whisper-hailo batch`: transcribe an archive, each recording once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.batch.shards import DEFAULT_ITEMS, MOST_ITEMS, parse_share
from whisper_hailo.cli.commands.transcribe import decoding_options, with_aligned_words
from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.progress import StatusLine, clock
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import (
    Fallback,
    ModelOptions,
    OutputOptions,
    log_engine,
)
from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.errors import ExitCode, OptionError
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.paths import expand_user
from whisper_hailo.core.process import available_cores, require_extra
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.pipeline import (
    USUAL_BATCH,
    USUAL_OPTIONS,
    check_batch_size,
)

if TYPE_CHECKING:
    from whisper_hailo.batch.job import Job
    from whisper_hailo.batch.records import JobSettings
    from whisper_hailo.batch.run import Progress
    from whisper_hailo.batch.shards import Shard, Share
    from whisper_hailo.batch.storage import Storage
    from whisper_hailo.batch.workers import Setup
    from whisper_hailo.transcription.transcriber import Transcriber

_WORK: Final = "Workers"
_RAY: Final = "ray"

_MAX_WORKERS: Final = 4096


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The workers of a job, and who starts them."""

    workers: int | None = flag(
        None,
        "Worker processes, each with a model.",
        _WORK,
        shown="cores; 1 with a chip",
    )
    runner: str = flag(
        "local",
        "What runs the workers",
        _WORK,
        name="--engine",
        choices=("local", _RAY),
    )
    address: str | None = flag(
        None,
        "Address of a Ray cluster.",
        _WORK,
        metavar="HOST:PORT",
        shown="the one on this machine",
    )
    batch_size: int = flag(USUAL_BATCH, "Windows decoded together.", _WORK)
    shard: str | None = flag(
        None,
        "Process only this share of the job, as one of several processes.",
        _WORK,
        metavar="N/ALL",
        shown="all",
    )
    part_items: int = flag(
        DEFAULT_ITEMS,
        "Recordings per result file if the manifest has no durations.",
        _WORK,
        rare=True,
    )
    watch: bool = flag(
        False,
        "Keep watching the folders for new recordings until interrupted.",
        _WORK,
    )
    metrics: Path | None = flag(
        None,
        "With status: write a text file for Prometheus's node exporter.",
        _WORK,
        metavar="FILE",
        rare=True,
    )
    as_json: bool = flag(False, "Print the progress of the job as JSON.", name="--json")

    def __post_init__(self) -> None:
        require_choices(self)
        check_batch_size(self.batch_size)
        fits = self.workers is None or 1 <= self.workers <= _MAX_WORKERS
        require_valid(self, "workers", fits, f"1 to {_MAX_WORKERS}")
        fits = 1 <= self.part_items <= MOST_ITEMS
        require_valid(self, "part_items", fits, f"1 to {MOST_ITEMS}")
        self.share  # noqa: B018 - refuses what is no share
        if self.watch and (self.shard is not None or self.runner == _RAY):
            raise OptionError(
                "--watch works in one process; leave out --shard and --engine ray"
            )
        if self.address is not None and self.runner != _RAY:
            raise OptionError("--address needs --engine ray; give both")

    @property
    def share(self) -> Share | None:
        """The shards of this process, if others do the rest."""
        return None if self.shard is None else parse_share(self.shard)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What the workers of a job load and do, and what its folder keeps of it."""

    transcriber: Transcriber
    setup: Setup
    settings: JobSettings


def batch(
    words: Annotated[
        list[str], Argument("Recordings of the job.", "MANIFEST|FOLDER|FILE...")
    ],
    model: ModelOptions,
    decoding: PartialOptions[DecodingOptions],
    fallback: Fallback,
    long: LongOptions,
    speakers: SpeakerOptions,
    output: Annotated[OutputOptions, FieldSubset(("fmt", "output_dir", "layout"))],
    job: JobOptions,
) -> int:
    """Transcribe an archive, or resume an interrupted job. `batch status DIR` shows progress."""
    from whisper_hailo.batch.storage import Storage, restore_address

    if words[0] == "status" and len(words) == 2:
        return _print_status(words[1], job)
    storage = Storage(restore_address(output.require_folder()))
    if job.runner == _RAY:
        require_extra("cluster", "--engine ray", "ray")
    make_options = partial(decoding_options, decoding, fallback, output)
    model.expect_language(make_options(USUAL_OPTIONS, FALLBACK_STEP))
    _expect_speaker_models(speakers, model)  # before a model is looked for
    if not model.threads:
        model = replace(model, threads=1)  # workers are as many as cores
    transcriber = model.transcriber()
    options = make_options(transcriber.default_options, transcriber.default_fallback)
    plan = _plan_job(transcriber, options, model, long, speakers, output, job)
    return _run_job(words, storage, plan, job)


def _expect_speaker_models(speakers: SpeakerOptions, model: ModelOptions) -> None:
    """Raise `ModelError` if speakers are to be found and their models cannot be loaded."""
    from whisper_hailo.speakers.finder import SpeakerFinder

    if speakers.is_requested:
        with SpeakerFinder(speakers.speaker_models, model.threads) as finder:
            finder.load()


def _plan_job(
    transcriber: Transcriber,
    options: DecodingOptions,
    model: ModelOptions,
    long: LongOptions,
    speakers: SpeakerOptions,
    output: OutputOptions,
    job: JobOptions,
) -> JobPlan:
    """Return what the workers do, checked against the model."""
    from whisper_hailo.batch.records import JobSettings
    from whisper_hailo.batch.workers import Setup

    if speakers.is_requested:
        # Without word times whole segments are given to speakers.
        options = with_aligned_words(options, transcriber)
    transcriber.check(options, long)
    log_engine(transcriber)
    identity = transcriber.identity(options, long, job.batch_size)
    if speakers.is_requested:
        identity += f" {speakers.speakers} {speakers.speaker_names}"
    settings = JobSettings(
        identity=identity,
        settings=transcriber.settings(options, long, job.batch_size),
        task=options.task,
        formats=output.formats if output.fmt else (),
        layout=output.layout,
        has_words=options.word_timestamps,
        speakers=speakers if speakers.is_requested else None,
        n_items=job.part_items,
    )
    # Segments are timed by their words, whatever formats a job has or gets later.
    options = with_aligned_words(options, transcriber)
    setup = Setup(model.arguments(), options, long, job.batch_size)
    return JobPlan(transcriber, setup, settings)


def _run_job(
    words: list[str], storage: Storage, plan: JobPlan, options: JobOptions
) -> ExitCode:
    """Run a job with a status line, and print its summary or, as JSON, its status."""
    from whisper_hailo.batch.job import Job
    from whisper_hailo.batch.run import Progress
    from whisper_hailo.batch.sources import only_manifest
    from whisper_hailo.batch.storage import is_address
    from whisper_hailo.batch.watch import StillFiles

    inputs = [word if is_address(word) else expand_user(word) for word in words]
    is_still = StillFiles() if options.watch else None
    if options.watch and only_manifest(inputs) is not None:
        raise OptionError("--watch takes folders and patterns; give one of them")
    with Job(storage, plan.settings, inputs, options.share, is_still) as job:
        progress = Progress()
        line = StatusLine()
        for _ in _run_workers(options, plan, job, progress):
            line.update(_format_progress(progress))
        line.close()
        n_failures = progress.failed.total()
        if options.share is None:
            n_failures = job.count_failures()
    if options.as_json:
        return _print_status(storage.folder, options)
    print_note(_summarise(progress, storage, n_failures))
    return ExitCode.AUDIO if n_failures else ExitCode.OK


def _run_workers(
    options: JobOptions, plan: JobPlan, job: Job, progress: Progress
) -> Iterator[object]:
    """Yield as tasks are done, by the workers that were asked for."""
    from whisper_hailo.batch.cluster import RayCluster, run_on_ray
    from whisper_hailo.batch.manifest import is_small, open_manifest
    from whisper_hailo.batch.run import ShardRunner
    from whisper_hailo.batch.watch import watch_shards

    shards: Iterable[Shard] = job.shards()
    if not options.watch and is_small(open_manifest(job.manifest)):
        shards = list(shards)
        progress.n_items = sum(len(shard.items) for shard in shards)
    if options.runner == _RAY:
        cluster = RayCluster(options.address, options.workers)
        yield from run_on_ray(cluster, job, plan.setup, shards, progress)
        return
    n_workers = options.workers
    if n_workers is None:
        # One process holds the chip.
        is_on_chip = plan.transcriber.encoder.name.startswith("hef")
        n_workers = 1 if is_on_chip else available_cores()
    with ShardRunner(job.storage, job.settings, plan.setup, n_workers) as runner:
        if options.watch:
            shards = watch_shards(job, runner)
        yield from runner.run(shards, progress)


def _summarise(progress: Progress, storage: Storage, n_failures: int) -> str:
    """Return the line at the end of a run."""
    parts = [f"{_count_items(progress.n_done)} in {storage.label}, {n_failures} failed"]
    if progress.n_done:
        parts.append(f"{clock(progress.audio_s)} of audio in {clock(progress.seconds)}")
    else:
        parts.append("nothing left to do")
    parts += [f"{count} {_WARNINGS[kind]}" for kind, count in progress.warned.items()]
    if n_failures:
        parts.append(f"see {storage.label}/failures")
    return "; ".join(parts)


_WARNINGS: Final = {
    "truncated": "broke off",
    "untranscribed": "with speech without text",
}


def _count_items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _format_progress(progress: Progress) -> str:
    done = _count_items(progress.n_done)
    if progress.n_items is not None:
        done = f"{progress.n_done} of {_count_items(progress.n_items)}"
    line = f"{done}, {progress.speed:.1f} x real time"
    left_s = progress.left_s
    return line if left_s is None else f"{line}, about {clock(left_s)} left"


def _print_status(folder: str, job: JobOptions) -> ExitCode:
    """Print how far a job is, and write its metrics if asked."""
    from whisper_hailo.batch.status import read_status, to_metrics
    from whisper_hailo.batch.storage import Storage

    storage = Storage(expand_user(folder))
    status = read_status(storage)
    if job.metrics is not None:
        write_file(job.metrics, to_metrics(status, storage.label))
    if job.as_json:
        computed = {
            "remaining": status.remaining,
            "cpu_s_per_hour": status.cpu_s_per_hour,
        }
        emit_json(asdict(status) | computed)
        return ExitCode.OK
    estimate = ""
    if status.remaining and status.left_s:
        estimate = f", about {clock(status.left_s)} left"
    emit(
        f"{status.done} of {_count_items(status.items)} done, {status.failed} failed, "
        f"{status.remaining} left\n{clock(status.audio_s)} of audio, "
        f"{status.speed:.1f} x real time{estimate}\n"
    )
    if status.audio_s:
        emit(f"{status.cpu_s_per_hour:.0f} s of processor time an hour of audio\n")
    for kind, count in status.failures.items():
        emit(f"failed, {kind}: {count}\n")
    for kind, count in status.warnings.items():
        emit(f"{_WARNINGS[kind]}: {count}\n")
    return ExitCode.OK
