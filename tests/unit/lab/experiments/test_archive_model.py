"""A job in simulated time ends when its narrowest place is through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whisper_hailo_lab.experiments.archive_scale import (
    Archive,
    ArchiveCosts,
    Cluster,
    Ran,
    simulate,
)

COSTS = ArchiveCosts(0.0, 0.0, 10.0, 1e6, 300.0, 5e3, 1e4)
ARCHIVE = Archive(2000.0)
CLUSTER = Cluster(10, 10.0, node_bytes_s=1e12, storage_bytes_s=1e12, days_up=1e9)


def ran(costs: ArchiveCosts = COSTS, cluster: Cluster = CLUSTER, archive: Archive = ARCHIVE) -> Ran:
    return simulate(archive, cluster, costs, seed=1)


def test_workers_that_never_wait_take_the_ideal_time() -> None:
    found = ran()
    assert found.n_tasks == 2000 * 12
    assert found.ideal_s == pytest.approx(2000 * 3600 / (40 * 10.0))
    assert found.seconds == pytest.approx(found.ideal_s, rel=0.01)
    assert found.busy["workers"] == pytest.approx(1, rel=0.01)
    assert found.again == 0


@pytest.mark.parametrize(
    ("place", "costs", "cluster"),
    [
        ("driver", replace(COSTS, dispatch_s=1.5, note_s=0.5), CLUSTER),
        ("readers", replace(COSTS, reading=150 / CLUSTER.n_readers), CLUSTER),
        ("storage", COSTS, replace(CLUSTER, storage_bytes_s=8000 * 3600 * 2000 / 48_000)),
    ],
)
def test_the_narrowest_place_decides(place: str, costs: ArchiveCosts, cluster: Cluster) -> None:
    found = ran(costs, cluster)
    assert found.seconds == pytest.approx(48_000, rel=0.03)
    assert found.busy[place] == pytest.approx(1, rel=0.03)
    assert max(found.busy, key=lambda name: found.busy[name]) == place


def test_what_a_dead_node_was_at_is_done_again() -> None:
    found = ran(cluster=replace(CLUSTER, days_up=0.1))
    assert found.again == pytest.approx(found.n_tasks * 30 / 8640, rel=0.3)
    assert found.seconds > ran().seconds
    assert found.n_tasks == ran().n_tasks
    assert found == ran(cluster=replace(CLUSTER, days_up=0.1))


def test_memory_and_restart_follow_recordings_and_tasks() -> None:
    slow = replace(CLUSTER, node_bytes_s=1e6)
    one, more = (ran(cluster=slow, archive=replace(ARCHIVE, item_s=s)) for s in (3600.0, 36.0))
    assert (one.driver_bytes, more.driver_bytes) == (2000 * 300, 200_000 * 300)
    assert (one.ledger_bytes, more.ledger_bytes) == (24_000 * 5e3, 200_000 * 5e3)
    assert one.restart_s == pytest.approx(120, rel=0.01)
    assert more.restart_s == pytest.approx(1000, rel=0.01)
