"""`whisper-hailo batch`: transcribe an archive, each recording once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.cli.commands.transcribe import decoding_options, with_cue_words
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
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import flag, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.paths import expand_user
from whisper_hailo.core.process import available_cores, require_extra
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.pipeline import (
    USUAL_BATCH,
    USUAL_OPTIONS,
    check_batch_size,
)

if TYPE_CHECKING:
    from whisper_hailo.batch.job import BatchJob
    from whisper_hailo.batch.tasks import Outcome
    from whisper_hailo.batch.workers import Setup
    from whisper_hailo.speakers.attribution import SpeakerAttribution
    from whisper_hailo.speakers.finder import SpeakerFinder
    from whisper_hailo.transcription.transcriber import Transcriber

_WORK: Final = "Workers"
_RAY: Final = "ray"

_MAX_WORKERS: Final = 4096
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


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
        "Address of a running Ray cluster.",
        _WORK,
        metavar="HOST:PORT",
        shown="starts one here",
    )
    batch_size: int = flag(USUAL_BATCH, "Windows decoded together.", _WORK)
    as_json: bool = flag(False, "Print the progress of the job as JSON.", name="--json")

    def __post_init__(self) -> None:
        require_choices(self)
        check_batch_size(self.batch_size)
        fits = self.workers is None or 1 <= self.workers <= _MAX_WORKERS
        require_valid(self, "workers", fits, f"1 to {_MAX_WORKERS}")
        if self.address is not None and self.runner != _RAY:
            raise OptionError("--address needs --engine ray; give both")


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
    """Transcribe an archive, each recording once; resume interrupted jobs; `batch status DIR`."""
    from whisper_hailo.batch.job import BatchJob, JobSettings
    from whisper_hailo.batch.manifest import read_sources
    from whisper_hailo.batch.workers import Setup
    from whisper_hailo.speakers.finder import SpeakerFinder

    if words[0] == "status" and len(words) == 2:
        return _print_status(Path(expand_user(words[1])), as_json=job.as_json)
    folder = output.require_folder()
    _refuse_addresses([*words, str(folder)])
    if job.runner == _RAY:
        require_extra("cluster", "--engine ray", "ray")
    options_on = partial(decoding_options, decoding, fallback, output)
    model.expect_language(options_on(USUAL_OPTIONS, FALLBACK_STEP))
    finder = SpeakerFinder(speakers.speaker_models, model.threads)
    if speakers.speakers is not None:
        finder.load()  # before a model is looked for
    if not model.threads:
        model = replace(model, threads=1)  # workers are as many as cores
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    if speakers.speakers is not None:
        # Without word times whole segments are given to speakers.
        needs_words = options.word_timestamps or transcriber.decoder.limits.aligns
        options = replace(options, word_timestamps=needs_words)
    transcriber.check(options, long)
    log_engine(transcriber)
    identity = transcriber.identity(options, long, job.batch_size)
    if speakers.speakers is not None:
        identity += f" {speakers.speakers} {speakers.speaker_names}"
    settings = JobSettings(
        identity=identity,
        settings=transcriber.settings(options, long, job.batch_size),
        task=options.task,
        formats=output.formats if output.fmt else (),
        layout=output.layout,
        has_words=options.word_timestamps,
    )
    # Formats may be added to a job, so the words that only subtitles need are no part of it.
    options = with_cue_words(options, output, transcriber)
    setup = Setup(model.arguments(), options, long, job.batch_size)
    sources = read_sources([Path(word) for word in words])
    find_speakers = None
    if speakers.speakers is not None:
        find_speakers = partial(_find_speakers, finder, speakers)
    with (
        finder,
        BatchJob(folder, settings, sources, find_speakers=find_speakers) as running,
    ):
        line = StatusLine()
        for outcome in _run(job, setup, running, transcriber):
            running.record_outcome(outcome)
            line.update(_format_progress(running))
        line.close()
        n_failures = len(running.failures)
    if job.as_json:
        return _print_status(folder, as_json=True)
    print_note(_summarise(running, folder, n_failures))
    return ExitCode.AUDIO if n_failures else ExitCode.OK


def _find_speakers(
    finder: SpeakerFinder, options: SpeakerOptions, audio: str
) -> SpeakerAttribution:
    """Return what gives the segments of a recording to its speakers."""
    from whisper_hailo.audio import open_audio

    with open_audio(audio) as stream:
        return finder.find(stream.blocks(SAMPLE_RATE_HZ), options)


def _refuse_addresses(names: Iterable[str]) -> None:
    """Refuse `s3://...`: as a path it would be a folder `s3:` here."""
    for name in names:
        if _ADDRESS.match(name):
            raise OptionError(
                f"{display_path(name)} is an address, expected a path; mount or copy it"
            )


def _run(
    job: JobOptions, setup: Setup, running: BatchJob, transcriber: Transcriber
) -> Iterator[Outcome]:
    """Yield the outcomes of all pending tasks, by the workers that were asked for."""
    from whisper_hailo.batch.cluster import run_on_ray
    from whisper_hailo.batch.workers import run_locally

    if job.runner == _RAY:
        return run_on_ray(setup, running.groups(), job.address, job.workers)
    n_workers = job.workers
    if n_workers is None:
        is_on_chip = transcriber.encoder.name.startswith(
            "hef"
        )  # which one process holds
        n_workers = 1 if is_on_chip else available_cores()
    return run_locally(setup, running.groups(), n_workers)


def _summarise(job: BatchJob, folder: Path, n_failures: int) -> str:
    """Return the line at the end of a run."""
    work = "nothing was left to do"
    if job.record.audio_s or n_failures:
        work = f"{clock(job.record.audio_s)} of audio in {clock(job.record.seconds)}"
    name = display_path(folder)
    advice = f", see {name}/failures.jsonl" if n_failures else ""
    if job.record.untranscribed_s >= 1:
        work += f", {clock(job.record.untranscribed_s)} of speech without text"
    return f"{_count_items(job.n_items)} in {name}, {n_failures} failed; {work}{advice}"


def _count_items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _format_progress(job: BatchJob) -> str:
    line = f"{job.n_done} of {_count_items(job.n_items)}, {job.record.speed:.1f} x real time"
    left_s = job.left_s
    return line if left_s is None else f"{line}, about {clock(left_s)} left"


def _print_status(folder: Path, *, as_json: bool) -> int:
    from whisper_hailo.batch.job import read_status

    status = read_status(folder)
    if as_json:
        emit_json(asdict(status) | {"remaining": status.remaining})
        return ExitCode.OK
    estimate = ""
    if status.remaining and status.left_s:
        estimate = f", about {clock(status.left_s)} left"
    emit(
        f"{status.done} of {_count_items(status.items)} done, {status.failed} failed, "
        f"{status.remaining} left\n{clock(status.audio_s)} of audio, "
        f"{status.speed:.1f} x real time{estimate}\n"
    )
    if status.untranscribed_s >= 1:
        emit(f"{clock(status.untranscribed_s)} of speech without text\n")
    for kind, count in status.failures.items():
        emit(f"{kind}: {count}\n")
    return ExitCode.OK
