"""Lanes of other processors: comparison of logits, counted instructions, scripts."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo_lab.documents.processors import step_table
from whisper_hailo_lab.processors.compare import compare_logits
from whisper_hailo_lab.processors.hide_instructions import replace_cpuid
from whisper_hailo_lab.processors.steps import open_counter
from whisper_hailo_lab.repository import LAB


def logits(*values: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([values], dtype=np.float32)


def test_compare_logits_within_the_bound_is_good() -> None:
    exact = logits(5.2, 1.0)
    comparison = compare_logits("micro-int8", logits(5.0, 1.0), logits(5.1, 1.0), exact)
    assert comparison["good"]
    assert comparison["same_token"] == 1
    assert comparison["steps"] == 1
    # Twice the error of the quantisation.
    assert comparison["rms_bound"] == pytest.approx(0.4 / 2**0.5)
    assert comparison["bound"] == pytest.approx(0.4)
    assert not compare_logits("micro-int8", logits(5.0, 1.0), logits(5.5, 1.0), exact)[
        "good"
    ]
    assert not compare_logits("micro-none", logits(5.0, 1.0), logits(5.1, 1.0), exact)[
        "good"
    ]


def test_compare_logits_judges_many_differences() -> None:
    here = np.zeros((1, 100), np.float32)
    exact = np.full((1, 100), 0.1, np.float32)
    there = here.copy()
    there[0, 7] = 0.19  # 1.9 times the largest loss, and little in the mean
    assert compare_logits("micro-int8", here, there, exact)["good"]
    there[0, 7] = 0.21
    assert not compare_logits("micro-int8", here, there, exact)["good"]
    assert not compare_logits("micro-int8", here, here - 0.21, exact)["good"]


def test_compare_logits_allows_near_ties_only() -> None:
    assert compare_logits(
        "micro-int4", logits(1.0, 0.95), logits(1.0, 1.04), logits(1.1, 0.95)
    )["good"]
    flipped = compare_logits(
        "micro-int4-codes", logits(5.0, 1.0), logits(1.0, 5.0), logits(5.1, 1.0)
    )
    assert not flipped["good"]
    assert flipped["same_token"] == 0


def test_compare_logits_another_leading_token_is_bad() -> None:
    here = np.zeros((2, 1000), np.float32)
    here[:, 4] = 2.5, 1.0
    exact = here.copy()
    exact[:, 7] = 3.0  # so one logit may be 6 off, and all of them 0.19 in the mean
    tie = here.copy()
    tie[1, 5] = 1.1
    comparison = compare_logits("micro-int4", here, tie, exact)
    assert comparison["good"]
    assert comparison["same_token"] == 1
    assert comparison["leading"] == 1
    flipped = here.copy()
    flipped[0, 5] = 2.6
    comparison = compare_logits("micro-int4", here, flipped, exact)
    assert comparison["largest_difference"] < comparison["bound"]
    assert comparison["rms_difference"] < comparison["rms_bound"]
    assert not comparison["good"]


def test_open_counter_reads_the_shared_file(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    path.write_bytes((41).to_bytes(8, "little"))
    read = open_counter(path)
    assert read() == 41
    with path.open("r+b") as file:
        file.write((42).to_bytes(8, "little"))
    assert read() == 42
    assert open_counter(None)() == 0


def test_step_table_has_dashes_for_unknown_figures() -> None:
    row = compare_logits(
        "tiny-int8", logits(5.0, 1.0), logits(5.0, 1.0), logits(5.5, 1.0)
    ) | {"instructions": 10_428_320}
    text = step_table(
        [row, {"model": "ctranslate2-int8", "instructions": 2_000_000}]
    ).markdown()
    assert (
        "| tiny-int8 | 10.43 | 0.0e+00 | 7.1e-01 | 0.0e+00 | 1.0e+00 | 1 of 1 |" in text
    )
    assert "| ctranslate2-int8 | 2.00 | - | - | - | - | - |" in text


def _library(code: bytes, at: int, address: int) -> bytes:
    """Return an ELF file with one loaded segment of code, and one that is not loaded."""
    header = bytearray(64)
    struct.pack_into("<Q", header, 32, 64)  # where the table of segments begins
    struct.pack_into("<HH", header, 54, 56, 2)
    loaded = struct.pack(
        "<IIQQQQQQ", 1, 5, at, address, address, len(code), len(code), 16
    )
    note = struct.pack("<IIQQQQQQ", 4, 4, at, address, address, len(code), len(code), 4)
    return (bytes(header) + loaded + note).ljust(at, b"\0") + code


def test_replace_cpuid_writes_breakpoints_as_long() -> None:
    code = b"\x90\x0f\xa2\x0f\xa2\xc3"
    changed = replace_cpuid(_library(code, 256, 0x1100), [0x1101, 0x1103])
    assert changed == _library(b"\x90\xcc\x90\xcc\x90\xc3", 256, 0x1100)
    for wrong in (0x1102, 0x1105, 0x9999):
        with pytest.raises(ValueError, match=f"{wrong:#x}"):
            replace_cpuid(_library(code, 256, 0x1100), [wrong])


ROOT = Path(__file__).parents[4]


def test_processor_lanes_name_files_that_exist() -> None:
    command = "source lab/scripts/emulation.sh && compute_tests"
    listed = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, check=True, capture_output=True, text=True
    )
    paths = listed.stdout.split()
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = set()
    for script in ("test-aarch64", "test-processors", "emulation.sh"):
        text = (ROOT / "lab" / "scripts" / script).read_text(encoding="utf-8")
        named |= set(re.findall(r"lab/benchmarks/processors/([\w.-]+)", text))
        named |= {
            f"{name}.py"
            for name in re.findall(r"whisper_hailo_lab\.processors\.(\w+)", text)
        }
    assert len(named) > 8
    folders = (
        ROOT / "lab" / "benchmarks" / "processors",
        LAB / "src/whisper_hailo_lab/processors",
    )
    assert named <= {path.name for folder in folders for path in folder.iterdir()}


LOGGED = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$0 $*" in *"$BROKEN"*) exit 2 ;; esac
case "$*" in *" transcribe "* | "transcribe "*) echo "what was said" ;; esac
"""


class Scripts:
    """The scripts in a folder with everything fetched; the programs that they start only log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "log"
        (root / "lab" / "scripts").mkdir(parents=True)
        for script in ("test-aarch64", "test-processors", "emulation.sh"):
            shutil.copy(ROOT / "lab" / "scripts" / script, root / "lab" / "scripts")
        (root / "requirements").mkdir()
        (root / "requirements" / "dev.txt").touch()
        for folder in (
            "aarch64/sysroot",
            "aarch64/sysroot-cortex-a72",
            "aarch64/site",
            "emulator",
        ):
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


def test_processor_lane_on_another_machine_is_77(scripts: Scripts) -> None:
    assert scripts.run("nonsense").returncode == 2
    broken = scripts.run("demo", broken="whisper_hailo_lab.processors.prepare")
    assert broken.returncode == 2
    assert scripts.log.read_text(encoding="utf-8").count("\n") == 1
    scripts.machine("armv7l")
    skipped = scripts.run("short")
    assert "armv7l" in skipped.stderr
    assert skipped.returncode == 77, "the code that scripts/check prints as skipped"


def test_demo_lane_transcribes_on_both_processors(
    scripts: Scripts,
) -> None:
    demo = scripts.run("demo")
    assert demo.returncode == 0
    assert demo.stdout == "what was said\n"
    made, there, here = scripts.log.read_text(encoding="utf-8").splitlines()
    models = scripts.root / "build" / "aarch64" / "models"
    assert (
        made == f"python -m whisper_hailo_lab.processors.prepare {models} --sizes micro"
    )
    words = f"transcribe --model {models}/micro-none --threads 1 src/whisper_hailo/assets/demo.flac"
    assert there.startswith("qemu-aarch64 ")
    assert there.endswith(f" -m whisper_hailo {words}")
    assert here == f"whisper-hailo {words}"


def test_processor_lane_with_another_text_fails(scripts: Scripts) -> None:
    assert scripts.run("short", script="test-processors").returncode == 0
    log = scripts.log.read_text(encoding="utf-8")
    assert "qemu-x86_64 " in log
    assert "-cpu Haswell" in log
    assert "python -m whisper_hailo_lab.processors.compare" in log
    scripts.put(".venv/bin/whisper-hailo", "#!/bin/sh\necho something else\n")
    wrong = scripts.run("short", script="test-processors")
    assert wrong.returncode == 1
    assert "something else" in wrong.stderr
    assert scripts.run("nonsense", script="test-processors").returncode == 2
    assert (
        scripts.run(
            "short", "whisper_hailo_lab.processors.compare", "test-processors"
        ).returncode
        != 0
    )
