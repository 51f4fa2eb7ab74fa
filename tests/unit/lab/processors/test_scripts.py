"""How the scripts of the lanes end, where what they start only says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from whisper_hailo_lab.repository import PACKAGE

ROOT = Path(__file__).parents[4]


def test_the_lanes_name_files_that_exist() -> None:
    text = (ROOT / "benchmarks" / "processors" / "tests.txt").read_text(encoding="utf-8")
    paths = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []
    named = set()
    for script in ("test-aarch64", "test-processors", "emulation.sh"):
        text = (ROOT / "scripts" / script).read_text(encoding="utf-8")
        named |= set(re.findall(r"benchmarks/processors/([\w.-]+)", text))
        named |= {
            f"{name}.py" for name in re.findall(r"whisper_hailo_lab\.processors\.(\w+)", text)
        }
    assert len(named) > 8
    folders = (ROOT / "benchmarks" / "processors", PACKAGE.parent / "whisper_hailo_lab/processors")
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
        (root / "scripts").mkdir()
        for script in ("test-aarch64", "test-processors", "emulation.sh"):
            shutil.copy(ROOT / "scripts" / script, root / "scripts")
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
            [self.root / "scripts" / script, word],
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


def test_a_machine_that_cannot_run_it_is_told_from_a_program_that_fails(scripts: Scripts) -> None:
    assert scripts.run("nonsense").returncode == 2
    broken = scripts.run("demo", broken="whisper_hailo_lab.processors.prepare")
    assert (broken.returncode, scripts.log.read_text(encoding="utf-8").count("\n")) == (2, 1)
    scripts.machine("armv7l")
    cannot = scripts.run("short")
    assert "this machine is armv7l" in cannot.stderr
    check = (ROOT / "scripts" / "check").read_text(encoding="utf-8")
    left_out = re.findall(r'(\d+)\) echo "left out: this machine cannot', check)
    assert left_out == [str(cannot.returncode)]
    assert cannot.returncode not in {0, 1, 2}


def test_both_machines_hear_the_demo_with_the_model_that_was_made_for_both(
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


def test_an_older_processor_that_hears_something_else_is_a_wrong_result(scripts: Scripts) -> None:
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
