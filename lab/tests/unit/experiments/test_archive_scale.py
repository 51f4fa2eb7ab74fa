"""Costs of archives, and jobs in simulated time."""

from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo_lab.experiments.archive_scale import (
    Cluster,
    ShardCosts,
    cluster_table,
    manifest_table,
    measure_manifest,
    measure_shards,
    simulate_job,
)

COSTS = ShardCosts(0.0, 1e6, 1e6)


def test_simulate_job_of_immortal_nodes_is_busy() -> None:
    outcome = simulate_job(4000, Cluster(10, speed=36.0, days_up=1e9), COSTS, seed=1)
    assert outcome.seconds == pytest.approx(4000 * 100 / 40, rel=0.05)
    assert outcome.busy > 0.95
    assert outcome.again == 0


def test_simulate_job_with_dying_nodes_repeats_shards() -> None:
    mortal = simulate_job(4000, Cluster(10, days_up=0.1), COSTS, seed=1)
    immortal = simulate_job(4000, Cluster(10, days_up=1e9), COSTS, seed=1)
    assert mortal.again > 0
    assert mortal.busy_full < immortal.busy_full


def test_measure_manifest_finds_the_first_recording(tmp_path: Path) -> None:
    costs = measure_manifest(tmp_path, 1000)
    assert costs.manifest_bytes > 1000
    assert min(costs.first_s, costs.last_share_s, costs.resume_s) >= 0


def test_measure_shards_writes_all_results(tmp_path: Path) -> None:
    costs = measure_shards(tmp_path, 2)
    assert costs.disk_bytes >= costs.result_bytes > 12 * 37 * 100
    assert len(list((tmp_path / "job" / "transcripts").iterdir())) == 2


def test_manifest_and_cluster_tables_have_rows() -> None:
    manifest = {"n_items": 1, "first_s": 0.1, "last_share_s": 0.2, "resume_s": 0.3}
    assert "1" in manifest_table([manifest | {"peak_mib": 50.0}]).plain()
    job = {"n_nodes": 1, "n_shards": 2, "seconds": 3.0, "busy": 0.9}
    table = cluster_table([job | {"busy_full": 0.99, "again": 0}])
    assert "99.0 %" in table.plain()
