"""`whisper-hailo batch`: transcribe an archive, each recording once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.cli.commands.transcribe import decoding_options
from whisper_hailo.cli.messages import note
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.progress import StatusLine, clock
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, OutputOptions, tell_engine
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.files import expand_user
from whisper_hailo.core.flags import flag, option_group, require_choices, require_valid
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import available_cores, require_extra
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.text.outputs import ALL_FORMATS, FORMATS
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.transcription.longform.plan import LongOptions
from whisper_hailo.transcription.pipeline import USUAL_BATCH, USUAL_OPTIONS, check_batch_size

if TYPE_CHECKING:
    from whisper_hailo.batch.job import BatchJob
    from whisper_hailo.batch.tasks import Outcome
    from whisper_hailo.batch.workers import Setup
    from whisper_hailo.transcription.transcriber import Transcriber

ENGINES: Final = ("local", "ray")
STATUS: Final = "status"
MOST_WORKERS: Final = 4096

_WORK: Final = "Workers"


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Where the results go, and which workers run."""

    output_dir: str | None = flag(
        None, "Folder of the job.", name="--output-dir", short="-o",
        also=("--output",), metavar="DIR",
    )  # fmt: skip
    fmt: tuple[str, ...] = flag(
        (), f"Files beside the JSON: {', '.join(FORMATS)}, {ALL_FORMATS}.", name="--format",
        short="-f", metavar="LIST",
    )  # fmt: skip
    workers: int | None = flag(
        None, "Processes with a model each.", _WORK, shown="cores; 1 with a chip"
    )
    engine: str = flag("local", "Who runs the workers", _WORK, choices=ENGINES)
    address: str | None = flag(
        None, "A Ray cluster that runs already.", _WORK, metavar="HOST:PORT", shown="one is started"
    )
    batch_size: int = flag(USUAL_BATCH, "Windows decoded together.", _WORK)
    as_json: bool = flag(False, "Print how far the job is as JSON.", name="--json")
    layout: Layout = option_group(Layout)

    def __post_init__(self) -> None:
        require_choices(self)
        check_batch_size(self.batch_size)
        fits = self.workers is None or 1 <= self.workers <= MOST_WORKERS
        require_valid(self, "workers", fits, f"1 to {MOST_WORKERS}")
        if self.address is not None and self.engine != "ray":
            raise OptionError("--address needs --engine ray; give both")


def batch(
    words: Annotated[list[str], Argument("Recordings of the job.", "MANIFEST|FOLDER|FILE...")],
    model: ModelOptions,
    decoding: PartialOptions[DecodingOptions],
    fallback: Fallback,
    long: LongOptions,
    job: JobOptions,
) -> int:
    """Transcribe an archive, each recording once; resume interrupted jobs; `batch status DIR`."""
    if words[0] == STATUS and len(words) == 2:
        return _tell_status(Path(expand_user(words[1])), as_json=job.as_json)
    if job.output_dir is None:
        raise OptionError("--output-dir is missing: the folder of the job")
    if job.engine == "ray":
        require_extra("cluster", "--engine ray", "ray")
    files = OutputOptions(fmt=job.fmt, output_dir=Path(job.output_dir), layout=job.layout)
    options_on = cache(partial(decoding_options, decoding, fallback, files))
    model.expect_language(options_on(USUAL_OPTIONS, FALLBACK_STEP))
    model = _one_thread_each(model)
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    transcriber.check(options, long)
    tell_engine(transcriber)
    return _run([Path(word) for word in words], transcriber, options, long, model, job, files)


def _one_thread_each(model: ModelOptions) -> ModelOptions:
    """Give each worker one thread: workers are as many as cores."""
    return model if model.threads else replace(model, threads=1)


def _run(
    sources: list[Path],
    transcriber: Transcriber,
    options: DecodingOptions,
    long: LongOptions,
    model: ModelOptions,
    wanted: JobOptions,
    files: OutputOptions,
) -> int:
    from whisper_hailo.batch.job import BatchJob, JobSettings
    from whisper_hailo.batch.manifest import read_sources
    from whisper_hailo.batch.workers import Setup

    folder = Path(expand_user(wanted.output_dir or ""))
    settings = JobSettings(
        transcriber.identity(options, long, wanted.batch_size),
        transcriber.settings(options, long, wanted.batch_size),
        options.task,
        files.formats if wanted.fmt else (),
        wanted.layout,
    )
    setup = Setup(model.arguments(), options, long, wanted.batch_size)
    with BatchJob(folder, settings, read_sources(sources)) as job:
        progress = _Progress(job)
        for outcome in _outcomes(job, setup, wanted, _n_workers(transcriber, wanted)):
            job.take(outcome)
            progress()
        progress.close()
        failures = len(job.failures)
    if wanted.as_json:
        return _tell_status(folder, as_json=True)
    record = job.record
    done = f"{clock(record.audio_s)} of audio in {clock(record.seconds)}"
    note(
        f"{_items(job.n_items)} in {display_path(folder)}, {failures} failed; "
        + (done if record.audio_s or failures else "nothing was left to do")
        + f", see {display_path(folder)}/failures.jsonl" * bool(failures)
    )
    return ExitCode.AUDIO if failures else ExitCode.OK


def _items(count: int) -> str:
    return f"{count} item" + "s" * (count != 1)


def _outcomes(job: BatchJob, setup: Setup, wanted: JobOptions, n_workers: int) -> Iterator[Outcome]:
    if wanted.engine == "ray":
        from whisper_hailo.batch.cluster import run_on_ray

        return run_on_ray(setup, job.groups(), wanted.address, wanted.workers)
    from whisper_hailo.batch.workers import run_locally

    return run_locally(setup, job.groups(), n_workers)


def _n_workers(transcriber: Transcriber, wanted: JobOptions) -> int:
    if wanted.workers is not None:
        return wanted.workers
    return 1 if transcriber.encoder.name.startswith("hef") else available_cores()


class _Progress:
    """A status line with an estimate of the remaining time."""

    def __init__(self, job: BatchJob) -> None:
        self._job = job
        self._line = StatusLine(monotonic())

    def __call__(self) -> None:
        if not self._line.is_due(now_s := monotonic()):
            return
        n_done, record = self._job.n_done, self._job.record
        line = f"{n_done} of {_items(self._job.n_items)}, {record.speed:.1f} x real time"
        if (left_s := self._job.left_s) is not None:
            line += f", about {clock(left_s)} left"
        self._line.show(now_s, line)

    def close(self) -> None:
        self._line.close()


def _tell_status(folder: Path, *, as_json: bool) -> int:
    from whisper_hailo.batch.job import read_status

    status = read_status(folder)
    if as_json:
        emit_json(asdict(status) | {"remaining": status.remaining})
        return ExitCode.OK
    emit(f"{status.done} of {_items(status.items)} done, {status.failed} failed, ")
    emit(
        f"{status.remaining} left\n{clock(status.audio_s)} of audio, {status.speed:.1f} x real time"
    )
    emit(f", about {clock(status.left_s)} left\n" if status.remaining and status.left_s else "\n")
    for kind, count in status.failures.items():
        emit(f"{kind}: {count}\n")
    return ExitCode.OK
