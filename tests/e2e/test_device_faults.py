"""A short run of `tests.device_faults`; the whole one takes a thousand faults."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.conftest import PATIENCE_S, ROOT


@pytest.mark.parametrize("streams", [1, 3])
def test_device_faults_at_random_points_give_no_wrong_text(
    environment: dict[str, str], streams: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.device_faults",
        "--json",
    ]
    # Enough for recordings of each stream to run between them.
    n_faults = 12 * streams
    command += ["--faults", str(n_faults), "--seed", "7", "--streams", str(streams)]
    env = {**environment, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    facts = json.loads(process.stdout)
    assert facts["faults"] >= n_faults
    assert facts["right_text"] > 0
    assert facts["wrong_text"] == 0
    assert facts["right_text"] + sum(facts["reported"].values()) == facts["files"]
