"""A job on Ray, with stand-ins for Ray, for workers and for who reads."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from tests.unit.batch.made_up_ray import Cluster, Node, Pool, RayError, stand_in
from tests.unit.batch.workers import SETUP, Worker, a_task, done, places, read, workers
from whisper_hailo.batch.cluster import run_on_ray
from whisper_hailo.batch.tasks import Group, Outcome
from whisper_hailo.core.errors import DeviceError

__all__ = ["read", "workers"]

LOCAL = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_enable_metrics_collection",
         "RAY_task_events_report_interval_ms")  # fmt: skip
QUIET = "RAY_DATA_LOG_LEVEL"


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, workers: list[Worker], read: Any) -> Cluster:
    """Nothing of it is set in the environment, now and afterwards."""
    del workers, read
    for name in (QUIET, *LOCAL):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return stand_in(monkeypatch)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Who was called, and for how long; somebody is there."""
    calls: list[Any] = []

    def dial(address: Any, timeout_s: float) -> socket.socket:
        calls.append((address, timeout_s))
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", dial)
    return calls


def one_task(read: Any) -> list[Group]:
    groups: list[Group] = read([a_task(0)])
    return groups


def test_every_task_of_every_group_is_done_by_one_of_the_actors(
    ray: Cluster, workers: list[Worker], read: Any
) -> None:
    tasks = [[a_task(0), a_task(1, 2)], [], [a_task(0, group=2), a_task(1, group=2)]]
    outcomes = list(run_on_ray(SETUP, read(*tasks), None, 2))
    assert places(outcomes) == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert outcomes == [done(task) for group in tasks for task in group]
    assert [[(task.group, task.index) for task in worker.tasks] for worker in workers] == [
        [(0, 0), (2, 0)], [(0, 1), (2, 1)],
    ]  # fmt: skip
    assert (ray.n_shut, ray.n_blocks) == (1, 3)


def test_where_nothing_is_left_to_do_no_cluster_is_asked_for(ray: Cluster) -> None:
    assert list(run_on_ray(SETUP, [], "nobody", None)) == []
    assert (ray.begun, ray.n_shut) == ([], 0)


@pytest.mark.parametrize(
    ("resources", "asked", "expected"),
    [
        pytest.param({"CPU": 8.0}, None, (8, 1, None, 3), id="one for each core"),
        pytest.param({"CPU": 8.0}, 3, (3, 1, None, 1), id="as many as are asked for"),
        pytest.param({"CPU": 8.0}, 4, (4, 1, None, 2), id="a reader for four more"),
        pytest.param(
            {"CPU": 8.0, "hailo": 2.0}, None, (2, 0, {"hailo": 1}, 1), id="chips"
        ),
        pytest.param(
            {"CPU": 1.0, "hailo": 2.0}, 5, (5, 0, {"hailo": 1}, 2), id="more than chips"
        ),
        pytest.param({"CPU": 0.0}, None, (1, 1, None, 1), id="no core is free"),
        pytest.param({}, None, (1, 1, None, 1), id="no core is known of"),
    ],
)
def test_there_are_so_many_actors_and_each_has_a_chip_or_a_core(
    ray: Cluster,
    read: Any,
    resources: dict[str, float],
    asked: int | None,
    expected: tuple[int, int, dict[str, int] | None, int],
) -> None:
    """Expected are the actors, what each needs of cores and of chips, and those who read."""
    ray.resources = resources
    assert len(list(run_on_ray(SETUP, one_task(read), None, asked))) == 1
    reading, doing = ray.stages
    assert reading["num_cpus"] == 0  # where actors have all cores it would never begin
    assert doing["compute"] == Pool(1, expected[0], expected[0])
    assert (doing["num_cpus"], doing["resources"], reading["concurrency"]) == expected[
        1:
    ]


def test_groups_and_tasks_go_alone_so_that_no_actor_waits(
    ray: Cluster, read: Any
) -> None:
    list(run_on_ray(SETUP, one_task(read), None, None))
    assert [stage["batch_size"] for stage in ray.stages] == [1, 1]
    context = ray.context
    assert context.target_max_block_size == 1
    assert context.autoscaling_config.actor_pool_util_downscaling_threshold < 0
    assert context.max_errored_blocks == 0  # what fails is told, and not left out
    assert context.enable_progress_bars is False
    assert context.memory_usage_poll_interval_s is None


def test_more_groups_than_ray_has_blocks_for_share_them(
    ray: Cluster, read: Any
) -> None:
    assert list(run_on_ray(SETUP, read(*[[]] * 2001), None, 1)) == []
    assert ray.n_blocks == 2000
    assert len(ray.stages) == 2


def test_cluster_of_this_machine_is_quiet_and_hears_nobody_else(
    ray: Cluster, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(QUIET, "DEBUG")
    list(run_on_ray(SETUP, one_task(read), None, None))
    ((where,), how) = ray.begun[0]
    assert where == "local"
    assert how["include_dashboard"] is False
    assert (how["logging_level"], how["log_to_driver"]) == (40, False)
    assert ray.starts == []  # the process that would ask clouds whether it runs there
    assert [os.environ[name] for name in LOCAL] == ["0", "0", "0"]
    assert os.environ[QUIET] == "DEBUG"  # the user's word counts
    Node.start_api_server(include_dashboard=True, cluster=ray)
    assert ray.starts == ["dashboard True"]  # what is Ray's is as before


def test_a_cluster_that_runs_is_joined_as_it_is(
    ray: Cluster, read: Any, dialled: list[Any]
) -> None:
    assert len(list(run_on_ray(SETUP, one_task(read), "fe80::1:6379", None))) == 1
    assert dialled == [(("fe80::1", 6379), 10.0)]
    assert ray.begun == [
        (("fe80::1:6379",), {"logging_level": 40, "log_to_driver": False})
    ]
    assert not any(name in os.environ for name in LOCAL)
    assert os.environ[QUIET] == "ERROR"


@pytest.mark.parametrize("error", [OSError, RuntimeError, ValueError])
def test_where_there_is_no_cluster_it_is_said_how_to_start_one(
    ray: Cluster, read: Any, dialled: list[Any], error: type[Exception]
) -> None:
    ray.refused = error("nobody")
    for address, place in (("host:1", "host:1"), (None, "this machine")):
        said = (
            rf"no Ray cluster at {place} \(nobody\); start one with: ray start --head"
        )
        with pytest.raises(DeviceError, match=said):
            list(run_on_ray(SETUP, one_task(read), address, None))
    assert ray.n_shut == 0


def test_an_address_where_nobody_listens_is_not_waited_for(
    ray: Cluster, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for address in ("host:1", "host"):
        with pytest.raises(DeviceError, match=f"no Ray cluster at {address}"):
            list(run_on_ray(SETUP, one_task(read), address, None))
    assert ray.begun == []


def test_broken_cluster_says_why_and_keeps_results(ray: Cluster, read: Any) -> None:
    caused = RayError("outer")
    caused.cause = ValueError("traceback\n" + "x" * 400 + "\n")  # type: ignore[attr-defined]
    outcomes: list[Outcome] = []
    for error, said in (
        (RayError("many lines\nof Ray's\n"), "of Ray's"),
        (RayError(), "RayError"),
        (caused, "x" * 300),
    ):
        ray.broken = error
        with pytest.raises(DeviceError) as told:
            outcomes += run_on_ray(SETUP, one_task(read), None, None)
        assert str(told.value) == (
            f"the cluster broke ({said}); run the same command again: it goes on"
        )
    assert outcomes == [done(a_task(0))] * 3
    assert ray.n_shut == 3


def test_who_stops_taking_leaves_the_cluster(ray: Cluster, read: Any) -> None:
    stream = run_on_ray(SETUP, read([a_task(0), a_task(1)]), None, None)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert ray.n_shut == 1
