"""A job on a Ray cluster: reading, transcribing and collecting as stages of one stream.

Only this file imports Ray. Groups are read by tasks wherever there is a core; their audio goes
through Ray's object store, which slows readers down where workers are slower, and each actor of the
pool has a model. Only the driver writes, so that work repeated after a lost node is recorded once.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.batch.tasks import Group, Outcome, read_tasks
from whisper_hailo.batch.workers import Setup, Worker
from whisper_hailo.core.errors import DeviceError

CHIP: Final = "hailo"
"""Ray's resource of a node for each chip: `ray start --resources '{"hailo": 1}'`."""

_QUIET: Final = {"RAY_DATA_LOG_LEVEL": "ERROR"}
_OWN_CLUSTER: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_task_events_report_interval_ms": "0",
}
"""For a cluster of our own: Ray collects nothing for a dashboard, and listens on the loopback
device only, as where a firewall would ask (see its `services.get_node_ip_address`)."""

WORKERS_PER_READER: Final = 4
"""Reading takes a seventh of the time of transcribing with the fastest model. It reserves no core:
where actors have taken all of them it would never start."""

_INIT_OPTIONS: Final[dict[str, Any]] = {
    "logging_level": logging.ERROR,
    "log_to_driver": False,
}
_MAX_BLOCKS: Final = 2000
_CONNECT_S: Final = 10.0

Rows: TypeAlias = dict[str, NDArray[Any]]
"""A column of pickled objects, from this program's own processes."""


def run_on_ray(
    setup: Setup, groups: Iterable[Group], address: str | None, n_workers: int | None
) -> Iterator[Outcome]:
    """Yield the outcomes of all tasks of some groups, as they come.

    Every node needs the model, or access to it. Without an address a cluster is started on this
    machine; by default there is an actor per chip, or per core where there are no chips.
    """
    rows = [{"group": pickle.dumps(group)} for group in groups]
    if not rows:
        return
    with _connect(address) as ray:
        try:
            for row in _build_dataset(ray, rows, setup, n_workers).iter_rows():
                yield pickle.loads(row["outcome"])  # noqa: S301 - of our own actor
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            lines = str(cause).strip().splitlines() or [type(cause).__name__]
            raise DeviceError(
                f"the cluster broke ({lines[-1][:300]}); run the same command again: it goes on"
            ) from error


def _build_dataset(
    ray: Any,  # noqa: ANN401 - a module without types
    rows: list[dict[str, bytes]],
    setup: Setup,
    n_workers: int | None,
) -> Any:  # noqa: ANN401 - Ray's `Dataset`
    """Return the job as a lazy Ray dataset."""
    n_chips = int(ray.cluster_resources().get(CHIP, 0))
    n_cores = int(ray.cluster_resources().get("CPU", 1))
    n_workers = n_workers or n_chips or max(1, n_cores)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_errored_blocks = 0
    context.memory_usage_poll_interval_s = None
    context.target_max_block_size = (
        1  # each task goes alone: a block of many would keep one actor
    )
    # An actor that waits for a reader is kept: in another one its model would be loaded again.
    context.autoscaling_config.actor_pool_util_downscaling_threshold = -1.0
    groups = ray.data.from_items(rows, override_num_blocks=min(len(rows), _MAX_BLOCKS))
    tasks = groups.map_batches(
        read_groups,
        batch_size=1,
        batch_format="numpy",
        num_cpus=0,
        concurrency=1 + n_workers // WORKERS_PER_READER,
    )
    return tasks.map_batches(
        type("Transcribing", (TranscriptionActor,), {"setup": pickle.dumps(setup)}),
        batch_size=1,
        batch_format="numpy",
        compute=ray.data.ActorPoolStrategy(
            min_size=1, max_size=n_workers, initial_size=n_workers
        ),
        num_cpus=0 if n_chips else 1,
        resources={CHIP: 1} if n_chips else None,
    )


@contextmanager
def _connect(address: str | None) -> Iterator[Any]:
    """Yield Ray's module, connected."""
    variables = _QUIET if address else _QUIET | _OWN_CLUSTER
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    import ray

    try:
        if address is None:
            with _without_dashboard():
                ray.init("local", include_dashboard=False, **_INIT_OPTIONS)
        else:
            # Fail fast: Ray itself waits for minutes at an address without a listener.
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _CONNECT_S).close()
            ray.init(address, **_INIT_OPTIONS)
    except (OSError, RuntimeError, ValueError) as error:
        raise DeviceError(
            f"no Ray cluster at {address or 'this machine'} ({error}); start one with: ray start "
            "--head"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _without_dashboard() -> Iterator[None]:
    """Start Ray without its dashboard's process.

    Without a dashboard it only reports Ray's use. Even with reports off, it asks the metadata
    servers of three clouds whether it runs there, and Ray has no option for that. `Node` is not
    part of Ray's interface: pyproject.toml pins the versions that have it.
    """
    from ray._private.node import Node

    start_api_server = Node.start_api_server
    Node.start_api_server = lambda *_, **__: None
    try:
        yield
    finally:
        Node.start_api_server = start_api_server


def read_groups(batch: Rows) -> Iterator[Rows]:
    """Read the audio of groups; the first stage."""
    for group in batch["group"]:
        for task in read_tasks(pickle.loads(group)):  # noqa: S301 - of our own driver
            yield {"task": _to_column(pickle.dumps(task))}


class TranscriptionActor:
    """Stage: tasks to outcomes, by a worker process that may crash.

    Attributes:
        setup: of the job; stored in the class, since Ray's object store may be lost with a node.
    """

    setup: bytes

    def __init__(self) -> None:
        self._worker = Worker(pickle.loads(self.setup))  # noqa: S301 - of our own driver
        self._worker.start()

    def __call__(self, batch: Rows) -> Rows:
        (task,) = batch["task"]
        outcome = self._worker.do(pickle.loads(task))  # noqa: S301 - of our own reader
        return {"outcome": _to_column(pickle.dumps(outcome))}


def _to_column(data: bytes) -> NDArray[Any]:
    column = np.empty(1, object)
    column[0] = data
    return column
