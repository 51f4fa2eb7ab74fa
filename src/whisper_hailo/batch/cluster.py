"""A job on a Ray cluster: a loop over its shards, each a task that any node may run.

Only this file imports Ray. A task reads its recordings, transcribes them and writes their results,
so that only shards go through the driver, and a node that is lost costs its shards only. More tasks
are handed out than fit: nodes that join are used at once, and an autoscaler sees that it is needed.
"""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from whisper_hailo.batch.job import Job
from whisper_hailo.batch.run import Progress, ShardRunner
from whisper_hailo.batch.shard_work import ShardReport
from whisper_hailo.batch.shards import Shard
from whisper_hailo.batch.storage import Storage
from whisper_hailo.batch.workers import Setup
from whisper_hailo.core.errors import DeviceError, WhisperHailoError

CHIP: Final = "hailo"
"""Ray's resource of a node for each chip: `ray start --resources '{"hailo": 1}'`."""

_INIT_OPTIONS: Final[dict[str, Any]] = {
    "logging_level": logging.ERROR,
    "log_to_driver": False,
}
_CONNECT_S: Final = 10.0

_POLL_S: Final = 5.0
"""Time between looks at how many processors the cluster has, and whether its head is there."""

_MOST_MISSED: Final = 3
"""Looks without an answer after which the head is gone. Ray itself waits for a minute, and then
ends the process with the stack of its C++."""


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster, and how much of it a job takes.

    Attributes:
        address: of its head; `None` is the cluster that runs on this machine.
        n_workers: shards at a time; `None` is one per chip, or per core if there are no chips.
    """

    address: str | None = None
    n_workers: int | None = None


def run_on_ray(
    cluster: RayCluster,
    job: Job,
    setup: Setup,
    shards: Iterable[Shard],
    progress: Progress,
) -> Iterator[ShardReport]:
    """Transcribe shards; yield the report of each that is done.

    Every node needs the model, the recordings and the folder of the job, or access to them.
    """
    pending = iter(shards)
    with _connect(cluster.address) as ray:
        run = pickle.dumps((job.storage.address(""), job.settings, setup))
        head = ray.get_runtime_context().gcs_address
        resources = ray.cluster_resources()
        needs = {"num_cpus": 0, "resources": {CHIP: 1}} if CHIP in resources else {}
        task = ray.remote(max_retries=-1, **needs)(run_shard)
        running: list[Any] = []
        n_missed = 0
        try:
            while True:
                # Ray waits for a minute for a head that is gone, so it is not asked then.
                if _answers(head):
                    n_missed = 0
                    n_wanted = cluster.n_workers or _count_places(ray)
                    for shard in islice(pending, max(0, n_wanted - len(running))):
                        running.append(task.remote(run, shard))
                else:
                    n_missed += 1
                if n_missed == _MOST_MISSED:
                    raise DeviceError(_describe_break(f"its head {head} is gone"))
                if not running:
                    return
                done, running = ray.wait(running, timeout=_POLL_S)
                for report in ray.get(done):
                    progress.n_done += report.n_items
                    progress.audio_s += report.audio_s
                    progress.add(report)
                    yield report
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, WhisperHailoError):
                raise error.cause from error
            raise DeviceError(_describe_break(error)) from error
        except ray.exceptions.RayError as error:
            raise DeviceError(_describe_break(error)) from error


def _count_places(ray: Any) -> int:  # noqa: ANN401 - a module without types
    """Return how many tasks the cluster can run, and as many that wait for more nodes."""
    resources = ray.cluster_resources()
    n_places = int(resources.get(CHIP, 0)) or int(resources.get("CPU", 1))
    return 2 * max(1, n_places)


def _describe_break(reason: object) -> str:
    lines = str(reason).strip().splitlines() or [type(reason).__name__]
    return (
        f"the cluster failed ({lines[-1][:300]}); run the same command again to resume"
    )


_runners: dict[bytes, ShardRunner] = {}
"""That of this process of Ray, which keeps its model from task to task."""


def run_shard(run: bytes, shard: Shard) -> ShardReport:
    """Transcribe a shard in a process of a node.

    Args:
        run: folder, settings and setup, pickled by our own driver.
        shard: to be done.
    """
    if run not in _runners:
        folder, settings, setup = pickle.loads(run)  # noqa: S301 - of our own driver
        _runners[run] = ShardRunner(Storage(folder), settings, setup, 1)
    (report,) = filter(None, _runners[run].run([shard], Progress()))
    return report


def _answers(address: str) -> bool:
    """Return whether the head of a cluster takes connections."""
    try:
        _open_connection(address)
    except OSError:
        return False
    return True


def _open_connection(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), _CONNECT_S).close()


@contextmanager
def _connect(address: str | None) -> Iterator[Any]:
    """Yield Ray's module, connected."""
    import ray

    try:
        if address is not None:
            # Fail fast: Ray itself waits for minutes at an address without a listener.
            _open_connection(address)
        ray.init(address or "auto", **_INIT_OPTIONS)
    except (OSError, RuntimeError, ValueError) as error:
        raise DeviceError(
            f"no Ray cluster at {address or 'this machine'} ({error}); start one with: ray start "
            "--head"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
