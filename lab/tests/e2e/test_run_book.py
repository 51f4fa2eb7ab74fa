"""The run book for a board, on the simulated chip."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, ROOT
from tests.standin import with_chip
from tests.standin.make_hef import write_hefs
from whisper_hailo_lab.clip_archives import unpack_clips

STUDY_ROWS = 10
"""Six without a chip, four with one."""


@pytest.fixture
def archive(
    environment: dict[str, str], micro_hailo: Path, tmp_path: Path
) -> zipfile.ZipFile:
    """The archive that a user sends in."""
    encoder, decoder = write_hefs(micro_hailo, tmp_path / "hefs")
    words = {
        "librispeech": unpack_clips() / "seen", "count": 2, "model": "micro", "threads": 1,
        "out": tmp_path / "book", "encoder": encoder, "decoder": decoder, "assets": micro_hailo,
    }  # fmt: skip
    options = [
        part for name, value in words.items() for part in (f"--{name}", str(value))
    ]
    env = with_chip(tmp_path / "machine", {**environment, "RIVALS": ""})
    env["BIN"] = str(Path(sys.executable).parent)
    env["HOME"] = str(tmp_path)  # all results are in it
    process = subprocess.run(
        [ROOT / "lab/scripts/run-book", *options], env=env, capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert str(tmp_path / "book/run-book.zip") in process.stdout
    assert not (tmp_path / "machine/violations.log").exists()
    return zipfile.ZipFile(tmp_path / "book/run-book.zip")


def test_run_book_writes_one_archive(archive: zipfile.ZipFile, tmp_path: Path) -> None:
    read = {
        name: archive.read(name).decode()
        for name in archive.namelist()
        if name[-4:] != ".png"
    }
    steps = read["steps.txt"].splitlines()
    assert [step.partition(":")[0] for step in steps] == [
        "machine", "recordings", "chip", "matrix", "long sentence", "short sentence", "captions",
        "fidelity",
    ]  # fmt: skip
    assert [step for step in steps if not step.endswith(", 0 failed")] == []
    assert any(
        check["name"] == "Hailo chip"
        for check in json.loads(read["doctor.json"])["checks"]
    )

    records = [json.loads(line) for line in read["run.jsonl"].splitlines()]
    cases = {record["case"] for record in records if record["kind"] == "file"}
    assert len(cases) == STUDY_ROWS
    assert {
        "ours HEF encoder + HEF decoder, study",
        "ours HEF encoder + INT8, study",
    } <= cases
    assert all(label in read["report/index.html"] for label in cases)

    for name in ("jfk", "short"):
        for kind in ("hef-int8", "hef-hef", "10s-int8", "30s-int8"):
            timing = json.loads(read[f"{name}-{kind}.json"])
            assert timing["iterations"] == 10
            assert timing["settings"]["encoder"].startswith("hef-") is kind.startswith(
                "hef-"
            )
            assert timing["stages_ms"]["encode"]["median"] > 0
    last = json.loads(read["captions.jsonl"].splitlines()[-1])
    assert last["event"] == "statistics"
    assert json.loads(read["parity.json"])["passed"]
    assert [name for name, text in read.items() if str(tmp_path) in text] == []
