"""The table of device faults is what its runs say, and they went well."""

from benchmarks import device_faults_table as kept


def test_the_committed_table_is_what_the_runs_say() -> None:
    page = kept.PAGE.read_text(encoding="utf-8")
    assert kept.filled(page, kept.load()) == page, (
        "docs/hailo-device.md is stale: python benchmarks/device_faults.py --write"
    )


def test_a_thousand_faults_left_every_file_accounted_for() -> None:
    runs = kept.load()
    assert max(run["faults"] for run in runs) >= 1000
    assert max(run["streams"] for run in runs) >= 3
    for run in runs:
        assert run["verdict"] == "ok"
        assert run["violations"] == []
        assert run["wrong_text"] == 0
        assert run["right_text"] + sum(run["reported"].values()) == run["files"]
