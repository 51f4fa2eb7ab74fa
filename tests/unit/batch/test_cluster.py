"""A job on Ray, without Ray: a loop over shards that follows the size of the cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.batch_jobs import JOB, SETUP, World, results, world, write_manifest
from whisper_hailo.batch import cluster
from whisper_hailo.batch.cluster import RayCluster, run_on_ray
from whisper_hailo.batch.job import Job
from whisper_hailo.batch.run import Progress
from whisper_hailo.batch.storage import Storage
from whisper_hailo.core.errors import DeviceError, ModelError

__all__ = ["world"]

IDS = [f"{number:02}" for number in range(40)]


class RayError(Exception):
    """Error of the stand-in."""


class RayTaskError(RayError):
    """Error of a task of the stand-in, with its cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Ray:
    """Runs a task when it is waited for.

    Attributes:
        resources: of the cluster, one dict for each look; the last one stays.
        most_running: tasks that were handed out at a time.
        needs: arguments of `remote`.
    """

    def __init__(self) -> None:
        self.resources: list[dict[str, float]] = [{"CPU": 2.0}]
        self.most_running: list[int] = []
        self.needs: dict[str, Any] = {}
        self.begun: list[tuple[Any, ...]] = []
        self.refused: Exception | None = None
        self.n_shut = 0
        self.head = "head:1"
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def init(self, *words: Any, **_: Any) -> None:
        self.begun.append(words)
        if self.refused is not None:
            raise self.refused

    def shutdown(self) -> None:
        self.n_shut += 1

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(gcs_address=self.head)

    def cluster_resources(self) -> dict[str, float]:
        return self.resources.pop(0) if len(self.resources) > 1 else self.resources[0]

    def remote(self, **needs: Any) -> Callable[[Any], Any]:
        self.needs = needs
        return lambda work: SimpleNamespace(remote=lambda *given: (work, given))

    def wait(self, running: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        assert timeout > 0
        self.most_running.append(len(running))
        return running[:1], running[1:]

    @staticmethod
    def get(done: list[Any]) -> list[Any]:
        reports = []
        for work, given in done:
            try:
                reports.append(work(*given))
            except ModelError as error:
                raise RayTaskError(error) from error
        return reports


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(cluster, "_open_connection", lambda _: None)
    monkeypatch.setattr(cluster, "_runners", {})
    return made


def run(
    folder: Path, address: str | None = "head:1", n_workers: int | None = None
) -> Progress:
    progress = Progress()
    words = [write_manifest(folder, IDS)]
    with Job(Storage(str(folder / "job")), JOB, words) as job:
        made = RayCluster(address, n_workers)
        for _ in run_on_ray(made, job, SETUP, job.shards(), progress):
            pass
    return progress


def test_cluster_runs_all_shards_as_tasks(
    world: World, ray: Ray, tmp_path: Path
) -> None:
    del world
    progress = run(tmp_path)
    parts = [name for name in results(tmp_path / "job") if name.startswith("trans")]
    assert len(parts) == 10
    assert (progress.n_done, ray.n_shut) == (40, 1)
    assert max(ray.most_running) == 4, "as many again wait for nodes that join"
    assert ray.needs == {"max_retries": -1}


def test_cluster_uses_joining_nodes(world: World, ray: Ray, tmp_path: Path) -> None:
    del world
    ray.resources = [{"CPU": 1.0}] * 3 + [{"CPU": 3.0}]
    run(tmp_path)
    assert ray.most_running[:2] == [2, 2]
    assert max(ray.most_running) == 6


def test_cluster_reserves_chips_where_present(
    world: World, ray: Ray, tmp_path: Path
) -> None:
    del world
    ray.resources = [{"CPU": 9.0, "hailo": 1.0}]
    run(tmp_path)
    assert ray.needs["resources"] == {"hailo": 1}
    assert max(ray.most_running) == 2


def test_cluster_workers_bound_parallel_shards(
    world: World, ray: Ray, tmp_path: Path
) -> None:
    del world
    run(tmp_path, n_workers=3)
    assert max(ray.most_running) == 3


def test_cluster_error_of_task_ends_job(
    world: World, ray: Ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world, ray

    def fail(*_: object) -> None:
        raise ModelError("no model")

    monkeypatch.setattr(cluster, "run_shard", fail)
    with pytest.raises(ModelError, match="no model"):
        run(tmp_path)


def test_cluster_lost_task_is_a_device_error(
    world: World, ray: Ray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del world

    def lost(*_: object, **__: object) -> None:
        raise RayError("first\nlost")

    monkeypatch.setattr(ray, "wait", lost)
    with pytest.raises(DeviceError, match="lost"):
        run(tmp_path)
    assert ray.n_shut == 1


@pytest.mark.parametrize("address", [None, "head:1"])
def test_cluster_lost_head_ends_job(
    world: World,
    ray: Ray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str | None,
) -> None:
    del world
    n_looks = 0

    def refuse(_: str) -> None:
        nonlocal n_looks
        n_looks += 1
        if n_looks > 2:
            raise ConnectionRefusedError

    monkeypatch.setattr(cluster, "_open_connection", refuse)
    monkeypatch.setattr(ray, "wait", lambda running, **_: ([], running))
    with pytest.raises(DeviceError, match="head:1"):
        run(tmp_path, address)


@pytest.mark.parametrize("address", [None, "head:1"])
def test_cluster_refusal_names_address(
    world: World, ray: Ray, tmp_path: Path, address: str | None
) -> None:
    del world
    ray.refused = ConnectionError("refused")
    with pytest.raises(DeviceError, match="Ray"):
        run(tmp_path, address)
    assert ray.begun == [(address or "auto",)]
