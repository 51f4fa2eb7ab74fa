"""A job in simulated time ends when its narrowest place has finished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo_lab.experiments.archive_scale import (
    Archive,
    ArchiveCosts,
    Cluster,
    JobOutcome,
    job_table,
    simulate_job,
)

COSTS = ArchiveCosts(0.0, 0.0, 10.0, 1e6, 300.0, 5e3, 1e4)
ARCHIVE = Archive(2000.0)
CLUSTER = Cluster(10, 10.0, node_bytes_s=1e12, storage_bytes_s=1e12, days_up=1e9)


def run_job(
    costs: ArchiveCosts = COSTS, cluster: Cluster = CLUSTER, archive: Archive = ARCHIVE
) -> JobOutcome:
    return simulate_job(archive, cluster, costs, seed=1)


def test_job_of_busy_workers_takes_the_ideal_time() -> None:
    outcome = run_job()
    assert outcome.n_tasks == 2000 * 12
    assert outcome.ideal_s == pytest.approx(2000 * 3600 / (40 * 10.0))
    assert outcome.seconds == pytest.approx(outcome.ideal_s, rel=0.01)
    assert outcome.busy["workers"] == pytest.approx(1, rel=0.01)
    assert outcome.again == 0


@pytest.mark.parametrize(
    ("place", "costs", "cluster"),
    [
        ("driver", replace(COSTS, dispatch_s=1.5, note_s=0.5), CLUSTER),
        ("readers", replace(COSTS, reading=150 / CLUSTER.n_readers), CLUSTER),
        (
            "storage",
            COSTS,
            replace(CLUSTER, storage_bytes_s=8000 * 3600 * 2000 / 48_000),
        ),
    ],
)
def test_job_takes_as_long_as_its_narrowest_place(
    place: str, costs: ArchiveCosts, cluster: Cluster
) -> None:
    outcome = run_job(costs, cluster)
    assert outcome.seconds == pytest.approx(48_000, rel=0.03)
    assert outcome.busy[place] == pytest.approx(1, rel=0.03)
    assert max(outcome.busy, key=lambda name: outcome.busy[name]) == place


def test_job_with_dying_nodes_does_tasks_again() -> None:
    mortal = replace(CLUSTER, days_up=0.1)
    outcome = run_job(cluster=mortal)
    assert outcome.again == pytest.approx(outcome.n_tasks * 30 / 8640, rel=0.3)
    assert outcome.seconds > run_job().seconds
    assert outcome.n_tasks == run_job().n_tasks
    assert outcome == run_job(cluster=mortal)


def test_job_memory_and_restart_follow_items_and_tasks() -> None:
    slow = replace(CLUSTER, node_bytes_s=1e6)
    long = run_job(cluster=slow, archive=replace(ARCHIVE, item_s=3600.0))
    short = run_job(cluster=slow, archive=replace(ARCHIVE, item_s=36.0))
    assert (long.driver_bytes, short.driver_bytes) == (2000 * 300, 200_000 * 300)
    assert (long.ledger_bytes, short.ledger_bytes) == (24_000 * 5e3, 200_000 * 5e3)
    assert long.restart_s == pytest.approx(120, rel=0.01)
    assert short.restart_s == pytest.approx(1000, rel=0.01)


def test_job_table_names_the_narrowest_place() -> None:
    row = {
        "n_nodes": 1000, "hours": 1e6, "speed": 15.0, "n_tasks": 12_000_000, "seconds": 36_000.0,
        "busy": {"driver": 0.99, "workers": 0.5}, "again": 7, "driver_bytes": 2**31,
        "restart_s": 117.0,
    }  # fmt: skip
    (cells,) = job_table([row]).rows
    assert cells == (
        "1,000", "1,000,000", "15", "12,000,000", "10.0", "50 %", "driver, 99 %", "7", "2.0", "117",
    )  # fmt: skip
