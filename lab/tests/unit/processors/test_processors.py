"""What the lanes of other processors make of logits and counts."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo_lab.documents.processors import (
    stages_table,
    steps_table,
    words_table,
)
from whisper_hailo_lab.processors import prepare_windows
from whisper_hailo_lab.processors.compare import row
from whisper_hailo_lab.processors.counter import counter
from whisper_hailo_lab.processors.hide_instructions import without_cpuid
from whisper_hailo_lab.processors.windows import PER_SECOND, counted
from whisper_hailo_lab.repository import LAB
from whisper_hailo_lab.runs.records import Case
from whisper_hailo_lab.speed import plan


def logits(*values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([values], dtype=np.float32)


def test_a_difference_within_the_bound_is_good() -> None:
    exact = logits(5.2, 1.0)
    found = row("micro-int8", logits(5.0, 1.0), logits(5.1, 1.0), exact)
    assert found["good"]
    assert (found["same_token"], found["steps"]) == (1, 1)
    assert found["rms_bound"] == pytest.approx(0.4 / 2**0.5)  # twice what the quantisation costs
    assert found["bound"] == pytest.approx(0.4)
    assert not row("micro-int8", logits(5.0, 1.0), logits(5.5, 1.0), exact)["good"]
    assert not row("micro-none", logits(5.0, 1.0), logits(5.1, 1.0), exact)["good"]


def test_one_large_difference_is_chance_and_many_are_a_fault() -> None:
    here, exact = np.zeros((1, 100), np.float32), np.full((1, 100), 0.1, np.float32)
    there = here.copy()
    there[0, 7] = 0.19  # 1.9 times the largest loss, and little in the mean
    assert row("micro-int8", here, there, exact)["good"]
    there[0, 7] = 0.21
    assert not row("micro-int8", here, there, exact)["good"]
    assert not row("micro-int8", here, here - 0.21, exact)["good"]


def test_near_ties_may_fall_either_way_and_nothing_else() -> None:
    assert row("micro-int4", logits(1.0, 0.95), logits(1.0, 1.04), logits(1.1, 0.95))["good"]
    flipped = row("micro-int4-float-kernel", logits(5.0, 1.0), logits(1.0, 5.0), logits(5.1, 1.0))
    assert not flipped["good"]
    assert flipped["same_token"] == 0


def test_leading_token_is_the_same_within_logit_error() -> None:
    here = np.zeros((2, 1000), np.float32)
    here[:, 4] = 2.5, 1.0
    exact = here.copy()
    exact[:, 7] = 3.0  # so one logit may be 6 off, and all of them 0.19 in the mean
    tie = here.copy()
    tie[1, 5] = 1.1
    found = row("micro-int4", here, tie, exact)
    assert (found["good"], found["same_token"], found["leading"]) == (True, 1, 1)
    flipped = here.copy()
    flipped[0, 5] = 2.6
    found = row("micro-int4", here, flipped, exact)
    assert found["largest_difference"] < found["bound"]
    assert found["rms_difference"] < found["rms_bound"]
    assert not found["good"]


def test_the_counter_is_read_from_the_file_that_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    path.write_bytes((41).to_bytes(8, "little"))
    read = counter(path)
    assert read() == 41
    with path.open("r+b") as file:
        file.write((42).to_bytes(8, "little"))
    assert read() == 42
    assert counter(None)() == 0


def test_the_table_has_dashes_where_only_instructions_are_known() -> None:
    known = row("tiny-int8", logits(5.0, 1.0), logits(5.0, 1.0), logits(5.5, 1.0)) | {
        "instructions": 10_428_320
    }
    text = steps_table([known, {"model": "ctranslate2-int8", "instructions": 2_000_000}]).markdown()
    assert "| tiny-int8 | 10.43 | 0.0e+00 | 7.1e-01 | 0.0e+00 | 1.0e+00 | 1 of 1 |" in text
    assert "| ctranslate2-int8 | 2.00 | - | - | - | - | - |" in text


def test_windows_are_divided_by_ours() -> None:
    stages = {"encode": 700.4, "cross_kv": 60.0, "decode": 239.6}
    rows = [
        {"case": "ours", "stages": stages, "work": 1000.0},
        {"case": "theirs", "stages": {"mel": 9.0, "rest": 2500.0}, "work": 2500.0},
    ]
    text = stages_table(rows, "ours").markdown()
    assert "| ours | 700 | 60 | 240 | 1,000 | 1.00 |" in text
    assert "| theirs | - | - | - | 2,500 | 2.50 |" in text


def test_words_by_arithmetic_and_those_that_were_not_heard() -> None:
    rows = [
        {"name": "VNNI", "in_pairs": False, "words": 1000, "errors": {"float32": 72, "8 bits": 74}},
        {"name": "AVX2", "in_pairs": True, "words": 1000, "errors": {"8 bits": 75}},
    ]
    text = words_table(rows).markdown()
    assert "| arithmetic | products are added in | words | float32 | 8 bits |" in text
    assert "| VNNI | 32 bits | 1,000 | 7.20 % | 7.40 % |" in text
    assert "| AVX2 | pairs in 16 bits | 1,000 | - | 7.50 % |" in text


def _library(code: bytes, at: int, address: int) -> bytes:
    """An ELF file with one segment of code that is loaded, and one that is not."""
    header = bytearray(64)
    struct.pack_into("<Q", header, 32, 64)  # where the table of segments begins
    struct.pack_into("<HH", header, 54, 56, 2)
    loaded = struct.pack("<IIQQQQQQ", 1, 5, at, address, address, len(code), len(code), 16)
    note = struct.pack("<IIQQQQQQ", 4, 4, at, address, address, len(code), len(code), 4)
    return (bytes(header) + loaded + note).ljust(at, b"\0") + code


def test_questions_to_the_processor_become_breakpoints_as_long() -> None:
    code = b"\x90\x0f\xa2\x0f\xa2\xc3"
    changed = without_cpuid(_library(code, 256, 0x1100), [0x1101, 0x1103])
    assert changed == _library(b"\x90\xcc\x90\xcc\x90\xc3", 256, 0x1100)
    for wrong in (0x1102, 0x1105, 0x9999):
        with pytest.raises(ValueError, match=f"{wrong:#x}"):
            without_cpuid(_library(code, 256, 0x1100), [wrong])


@pytest.mark.slow
def test_the_clocks_of_a_system_count_instructions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The bundled model stands for any; the counter is told to add a million at each look."""
    executed = iter(range(0, 10**12, 10**6))
    monkeypatch.setattr(
        "whisper_hailo.core.timing.perf_counter", lambda: next(executed) / PER_SECOND
    )
    monkeypatch.setattr("time.perf_counter", lambda: next(executed) / PER_SECOND)
    case = Case("tiny-1: ours", "ours", "forced", "micro", "en", 1)
    found = counted({"case": asdict(case), "path": "micro"})
    assert found["case"] == "ours"
    assert found["tokens"] is not None
    stages = found["stages"]
    assert set(stages) == {"mel", "encode", "cross_kv", "decode"}
    assert all(count == pytest.approx(round(count)) and count >= 1 for count in stages.values())
    assert found["work"] >= stages["encode"] + stages["cross_kv"] + stages["decode"]


def test_cases_of_ours_are_made_for_that_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And a rival without an environment is left out, and told of."""
    monkeypatch.setenv("WHISPER_HAILO_CACHE", "restored afterwards")
    monkeypatch.setattr(prepare_windows, "random_checkpoint", lambda size, out: out)
    monkeypatch.setattr(prepare_windows, "made", lambda case: f"made of {case.model}")
    monkeypatch.setattr(prepare_windows.process, "interpreter", lambda name: None)
    monkeypatch.setattr("sys.argv", ["prepare_windows", str(tmp_path / "cases.jsonl")])
    caplog.set_level("INFO")
    prepare_windows.main()
    lines = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    ours = [line["case"] for line in lines if line["case"]["system"] == "ours"]
    assert [case["settings"]["half"] for case in ours] == [True] * 4
    assert {line["path"] for line in lines} == {f"made of {tmp_path / 'tiny'}"}
    for label in (plan.STUDY, plan.CTRANSLATE2, plan.FASTER_WHISPER):
        assert f"{label} is left out" in caplog.text
    assert len(lines) == len(prepare_windows.WANTED) - 3  # whisper.cpp's are written by us


ROOT = Path(__file__).parents[4]


def test_the_lanes_name_files_that_exist() -> None:
    text = (ROOT / "lab" / "benchmarks" / "processors" / "tests.txt").read_text(encoding="utf-8")
    paths = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = set()
    for script in ("test-aarch64", "test-processors", "emulation.sh"):
        text = (ROOT / "lab" / "scripts" / script).read_text(encoding="utf-8")
        named |= set(re.findall(r"lab/benchmarks/processors/([\w.-]+)", text))
        named |= {
            f"{name}.py" for name in re.findall(r"whisper_hailo_lab\.processors\.(\w+)", text)
        }
    assert len(named) > 8
    folders = (ROOT / "lab" / "benchmarks" / "processors", LAB / "src/whisper_hailo_lab/processors")
    assert named <= {path.name for folder in folders for path in folder.iterdir()}


LOGGED = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$0 $*" in *"$BROKEN"*) exit 2 ;; esac
case "$*" in *" transcribe "* | "transcribe "*) echo "what was said" ;; esac
"""


class Scripts:
    """The scripts in a place where all is fetched, and where what they start only says so."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "log"
        (root / "lab" / "scripts").mkdir(parents=True)
        for script in ("test-aarch64", "test-processors", "emulation.sh"):
            shutil.copy(ROOT / "lab" / "scripts" / script, root / "lab" / "scripts")
        (root / "requirements").mkdir()
        (root / "requirements" / "dev.txt").touch()
        for folder in ("aarch64/sysroot", "aarch64/sysroot-cortex-a72", "aarch64/site", "emulator"):
            self.put(f"build/{folder}/done", "")
        (root / "build/aarch64/sysroot/usr/bin").mkdir(parents=True)
        for machine in ("aarch64", "x86_64"):
            self.put(f"build/emulator/usr/bin/qemu-{machine}", LOGGED)
        self.put(".venv/bin/python", LOGGED)
        self.put(".venv/bin/whisper-hailo", LOGGED)
        for program in ("apt-get", "dpkg-deb"):
            self.put(f"bin/{program}", LOGGED)
        self.machine("x86_64")

    def machine(self, name: str) -> None:
        self.put("bin/uname", f"#!/bin/sh\necho {name}\n")

    def run(
        self, word: str, broken: str = "nothing", script: str = "test-aarch64"
    ) -> subprocess.CompletedProcess[str]:
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [self.root / "lab" / "scripts" / script, word],
            env={"PATH": path, "LOG": str(self.log), "BROKEN": broken},
            capture_output=True,
            text=True,
            check=False,
        )

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


def test_unfit_machine_is_told_from_a_failing_program(scripts: Scripts) -> None:
    assert scripts.run("nonsense").returncode == 2
    broken = scripts.run("demo", broken="whisper_hailo_lab.processors.prepare")
    assert (broken.returncode, scripts.log.read_text(encoding="utf-8").count("\n")) == (2, 1)
    scripts.machine("armv7l")
    cannot = scripts.run("short")
    assert "this machine is armv7l" in cannot.stderr
    assert cannot.returncode == 77, "what scripts/check prints as skipped"


def test_both_machines_hear_the_demo_with_the_common_model(
    scripts: Scripts,
) -> None:
    done = scripts.run("demo")
    assert (done.returncode, done.stdout) == (0, "what was said\n")
    made, there, here = scripts.log.read_text(encoding="utf-8").splitlines()
    models = scripts.root / "build" / "aarch64" / "models"
    assert made == f"python -m whisper_hailo_lab.processors.prepare {models} --sizes micro"
    words = f"transcribe --model {models}/micro-none --threads 1 src/whisper_hailo/assets/demo.flac"
    assert there.startswith("qemu-aarch64 ")
    assert there.endswith(f" -m whisper_hailo {words}")
    assert here == f"whisper-hailo {words}"


def test_older_processor_with_other_text_is_a_wrong_result(scripts: Scripts) -> None:
    assert scripts.run("short", script="test-processors").returncode == 0
    ran = scripts.log.read_text(encoding="utf-8")
    assert "qemu-x86_64 " in ran
    assert "-cpu Haswell" in ran
    assert "python -m whisper_hailo_lab.processors.compare" in ran
    scripts.put(".venv/bin/whisper-hailo", "#!/bin/sh\necho something else\n")
    wrong = scripts.run("short", script="test-processors")
    assert (wrong.returncode, "something else" in wrong.stderr) == (1, True)
    assert scripts.run("nonsense", script="test-processors").returncode == 2
    assert (
        scripts.run("short", "whisper_hailo_lab.processors.compare", "test-processors").returncode
        != 0
    )
