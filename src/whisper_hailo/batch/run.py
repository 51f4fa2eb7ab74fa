"""Shards through the workers of one process: read, transcribed, written."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Lock
from time import monotonic

from whisper_hailo.audio import open_audio
from whisper_hailo.batch.fetching import Fetcher
from whisper_hailo.batch.records import JobSettings
from whisper_hailo.batch.run_log import RunLog
from whisper_hailo.batch.shard_work import ShardReport, ShardWork
from whisper_hailo.batch.shards import Shard
from whisper_hailo.batch.storage import Storage, redact
from whisper_hailo.batch.tasks import Task, read_tasks
from whisper_hailo.batch.workers import Setup, Worker, run_tasks
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.options import SpeakerOptions


@dataclass(slots=True)
class Progress:
    """How far a run is.

    Attributes:
        n_items: recordings that were to be done; `None` if the manifest is too long to be counted.
        n_done: recordings with a result, those that failed included.
        audio_s: seconds of audio transcribed.
        failed: number of recordings by kind of failure, in the shards that are done.
        warned: number of recordings by kind of warning, in the same shards.
    """

    n_items: int | None = None
    n_done: int = 0
    audio_s: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    begin_s: float = field(default_factory=monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return monotonic() - self.begin_s

    @property
    def speed(self) -> float:
        """Seconds of audio per second."""
        return self.audio_s / self.seconds if self.seconds else 0.0

    @property
    def left_s(self) -> float | None:
        """Estimated seconds to the end; `None` if unknown."""
        if self.n_items is None or not self.n_done:
            return None
        return (self.n_items - self.n_done) * self.seconds / self.n_done

    def add(self, report: ShardReport) -> None:
        """Count a shard that is done."""
        self.failed.update(report.failed)
        self.warned.update(report.warned)


class ShardRunner(Closing):
    """Runs shards with the workers of this process.

    Args:
        storage: the folder of the job.
        settings: what shapes the results.
        setup: of the workers.
        n_workers: worker processes, which are started when they are needed.
    """

    def __init__(
        self, storage: Storage, settings: JobSettings, setup: Setup, n_workers: int
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._workers = [Worker(setup) for _ in range(n_workers)]
        self._fetcher = Fetcher()
        self._log = RunLog(storage)
        self._cpu_s = sum(os.times()[:4])
        self._works: dict[int, ShardWork] = {}
        self._opening = Lock()
        self._closed = Event()
        self._resumed: deque[ShardWork] = deque()
        self._finder = SpeakerFinder()
        self._find_speakers: Callable[[str], SpeakerAttribution] | None = None
        if settings.speakers is not None:
            folder = settings.speakers.speaker_models
            self._finder = SpeakerFinder(folder, setup.model.get("threads", 1))
            self._find_speakers = partial(
                _find_speakers, self._fetcher, self._finder, settings.speakers
            )

    @property
    def is_idle(self) -> bool:
        """Whether no shard is being read, transcribed or written."""
        return not self._works

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more shards."""
        return self._closed.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, or until it is closed; return whether it is."""
        return self._closed.wait(seconds)

    def close(self) -> None:
        self._fetcher.stop()
        for worker in self._workers:
            worker.stop()
        with self._opening:
            self._closed.set()
            for work in self._works.values():
                work.close()
        self._finder.close()

    def run(
        self, shards: Iterable[Shard], progress: Progress
    ) -> Iterator[ShardReport | None]:
        """Transcribe shards; yield after each task, with the report of a shard that is done."""
        for outcome in run_tasks(self._workers, self._read_shards(shards)):
            work = self._works[outcome.shard]
            progress.n_done += work.record(outcome)
            progress.audio_s += outcome.audio_s
            report = None
            if work.is_complete:
                report = self._finish(work)
                progress.add(report)
            yield report
            yield from self._finish_resumed(progress)
        yield from self._finish_resumed(progress)

    def _read_shards(self, shards: Iterable[Shard]) -> Iterator[Task]:
        """Yield the tasks of shards; another thread may take them."""
        for shard in shards:
            with self._opening:
                if self.is_closed:
                    return
                work = ShardWork(
                    self._storage, self._settings, shard, self._find_speakers
                ).open()
                self._works[shard.number] = work
            if work.is_complete:
                self._resumed.append(work)
            else:
                yield from read_tasks(shard.number, work.todo, work.done, self._fetcher)

    def _finish_resumed(self, progress: Progress) -> Iterator[ShardReport]:
        """Finish shards that were complete but for their file when a run was killed."""
        while self._resumed:
            work = self._resumed.popleft()
            report = self._finish(work)
            progress.n_done += len(work.todo)
            progress.add(report)
            yield report

    def _finish(self, work: ShardWork) -> ShardReport:
        """Write the results of a shard."""
        report = work.finish()
        work.close()
        del self._works[work.number]
        # Reading is this process's, transcribing that of the workers.
        cpu_s = sum(os.times()[:4])
        report = replace(report, cpu_s=round(report.cpu_s + cpu_s - self._cpu_s, 3))
        self._cpu_s = cpu_s
        self._log.write(report)
        return report


def _find_speakers(
    fetcher: Fetcher, finder: SpeakerFinder, options: SpeakerOptions, audio: str
) -> SpeakerAttribution:
    """Return what gives the segments of a recording to its speakers."""
    file = fetcher.fetch(audio)
    try:
        with open_audio(file.path, redact(audio)) as stream:
            return finder.find(stream.blocks(SAMPLE_RATE_HZ), options)
    finally:
        file.close()
