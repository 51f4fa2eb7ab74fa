"""Processors, threads, telemetry switches, the service manager, freed memory and extras."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from whisper_hailo.core import process
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import (
    SWITCHES,
    Extra,
    Supervisor,
    check_threads,
    has_float16_kernels,
    install_command,
    keep_private,
)

PI_5 = "Features\t: fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimddp\n"
PI_4 = "Features\t: fp asimd evtstrm crc32 cpuid\n"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    has_float16_kernels.cache_clear()
    yield
    has_float16_kernels.cache_clear()


@pytest.mark.parametrize(
    ("named", "cpuinfo", "expected"),
    [
        (("aarch64", "Linux"), PI_5, True),
        (("aarch64", "Linux"), PI_4, False),
        (("aarch64", "Linux"), "model name : asimdhp\n", False),
        (("aarch64", "Linux"), f"Model\t: \xff\n{PI_5}", True),
        (("aarch64", "Linux"), None, False),
        (("x86_64", "Linux"), PI_5, False),
        (("arm64", "Darwin"), PI_5, False),
    ],
)
def test_has_float16_kernels_follows_cpuinfo(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    named: tuple[str, str],
    cpuinfo: str | None,
    expected: bool,
) -> None:
    path = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        path.write_text(f"process\t: 0\n{cpuinfo}", encoding="latin-1")
    monkeypatch.setattr(process, "CPUINFO", path)
    monkeypatch.setattr(platform, "machine", lambda: named[0])
    monkeypatch.setattr(platform, "system", lambda: named[1])
    assert has_float16_kernels() is expected


def test_available_cores_follow_affinity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {1, 4, 9} if pid == 0 else {1}
    )
    assert process.available_cores() == 3


@pytest.mark.parametrize("threads", [0, 1, 256])
def test_check_threads_valid_count_is_returned(threads: int) -> None:
    assert check_threads(threads) == threads


@pytest.mark.parametrize("threads", [-1, 257, 1.5, "2"])
def test_check_threads_invalid_count_is_refused(threads: Any) -> None:
    with pytest.raises(OptionError, match=r"threads is .*256"):
        check_threads(threads)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls of an ONNX Runtime that was imported before this package; no switch is set."""
    calls: list[str] = []
    runtime = ModuleType("onnxruntime")
    runtime.disable_telemetry_events = lambda: calls.append("disable")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    for switch in SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    return calls


@pytest.mark.parametrize("setting", [None, "", "0", "1"])
def test_keep_private_keeps_switches_of_user(
    setting: str | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch in SWITCHES:
        if setting is not None:
            monkeypatch.setenv(switch, setting)
    keep_private()
    assert {switch: os.environ[switch] for switch in SWITCHES} == {
        switch: setting or off for switch, off in SWITCHES.items()
    }
    assert calls == ([] if setting else ["disable"])


def test_keep_private_after_runtime_import_warns(
    calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    keep_private()
    assert {name: os.environ[name] for name in SWITCHES} == {
        "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    assert calls == ["disable"]
    assert "ORT_DISABLE_TELEMETRY=1" in caplog.text


def test_keep_private_runtime_without_telemetry_is_ignored(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    keep_private()
    assert not calls
    assert not caplog.text


@pytest.mark.parametrize(
    "module", ["whisper_hailo", "whisper_hailo_lab.harness.worker"]
)
def test_import_sets_switches_before_onnxruntime(module: str) -> None:
    code = f"import os, sys, {module}; print('onnxruntime' in sys.modules)"
    code += f"; print(*(os.environ[switch] for switch in {[*SWITCHES]}))"
    bare = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=bare,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["False", "1 1 0"]


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """A service manager's socket; its path has at most 107 bytes, so not in pytest's folder."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        listening.bind(f"{folder}/notify")
        listening.setblocking(False)
        yield listening


def received(manager: socket.socket) -> list[str]:
    lines = []
    while True:
        try:
            lines.append(manager.recv(4096).decode())
        except BlockingIOError:
            return lines


def test_supervisor_sends_ready_and_stopping(
    manager: socket.socket,
) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    supervisor.ready("listening to\na microphone")
    supervisor.alive()  # nobody asked for it
    supervisor.stopping()
    assert received(manager) == [
        "READY=1\nSTATUS=listening to a microphone",
        "STOPPING=1",
    ]


def test_supervisor_alive_notifies_three_times_per_interval(
    manager: socket.socket,
) -> None:
    clock = [100.0]
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "3000000"}
    supervisor = Supervisor(environment, now=lambda: clock[0])
    messages = []
    for _ in range(100):
        supervisor.alive()
        messages += received(manager)
        clock[0] += 0.125
    assert messages == ["WATCHDOG=1"] * 13


def test_supervisor_full_socket_does_not_block(manager: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    for _ in range(10_000):  # far more than wait at a socket
        supervisor.ready("well")
    assert received(manager)


@pytest.mark.parametrize("further", [0, 1])
def test_supervisor_watchdog_of_other_process_is_ignored(
    manager: socket.socket, further: int
) -> None:
    address = manager.getsockname()
    pid = os.getpid() + further
    environment = {
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "1000000",
        "WATCHDOG_PID": str(pid),
    }
    Supervisor(environment).alive()
    assert bool(received(manager)) == (further == 0)


def test_supervisor_socket_path_with_at_sign_is_reached() -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        listening.bind(f"{folder}/a@b")
        listening.setblocking(False)
        Supervisor({"NOTIFY_SOCKET": f"{folder}/a@b"}).stopping()
        assert received(listening) == ["STOPPING=1"]


@pytest.mark.parametrize("infix", ["", "@"])
def test_supervisor_abstract_socket_is_reached(infix: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"whisper-hailo-test-{infix}{os.getpid()}"
        listening.bind("\0" + name)
        listening.setblocking(False)
        Supervisor({"NOTIFY_SOCKET": "@" + name}).stopping()
        assert received(listening) == ["STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "/no/such"},
        {"NOTIFY_SOCKET": "vsock:2:1"},
        {"WATCHDOG_USEC": "soon"},
    ],
)
def test_supervisor_without_listener_does_nothing(
    environment: dict[str, str],
) -> None:
    supervisor = Supervisor(environment)
    supervisor.ready("well")
    supervisor.alive()
    supervisor.stopping()


_PROGRAM = """
import sys
import numpy as np
from whisper_hailo.core.process import release_freed_memory

def rss_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

if sys.argv[1] == "trimmed":
    assert release_freed_memory()
np.ones(2 << 20)  # 16 MiB, freed at once: glibc takes it for a sign
begin = rss_mib()
blocks = [np.ones(1 << 17) for _ in range(64)]  # 1 MiB each
pins = [np.ones(8000) for _ in range(64)]  # more than there are holes for: some are behind them
blocks.clear()
print(rss_mib() - begin)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt"
)
def test_release_freed_memory_returns_blocks_to_system() -> None:
    kept_mib = {}
    for how in ("trimmed", "default"):
        command = [sys.executable, "-c", _PROGRAM, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kept_mib[how] = int(done.stdout)
    assert kept_mib["default"] > 50, (
        "glibc does not keep it any more: core/process.py may go"
    )
    assert kept_mib["trimmed"] < 10


def test_release_freed_memory_without_mallopt_is_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not process.release_freed_memory()


@pytest.mark.parametrize(
    ("results", "expected"), [((1, 1), True), ((0, 1), False), ((1, 0), False)]
)
def test_release_freed_memory_sets_both_thresholds(
    results: tuple[int, int], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M_TRIM_THRESHOLD is -1 and M_MMAP_THRESHOLD -3 in `malloc.h`; both are 128 KiB at first."""
    calls: list[tuple[int, int]] = []

    def mallopt(parameter: int, size: int) -> int:
        calls.append((parameter, size))
        return results[len(calls) - 1]

    library = type("Library", (), {"mallopt": staticmethod(mallopt)})
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    assert process.release_freed_memory() is expected
    assert calls == [(-1, 131_072), (-3, 131_072)][: len(calls)]
    assert len(calls) == 2 or not expected


PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_extras_are_declared_in_pyproject() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert set(get_args(Extra)) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("extra", get_args(Extra))
def test_install_command_names_existing_lock_file(extra: Extra) -> None:
    (lock,) = re.findall(r"^pip install -r (\S+) in the clone$", install_command(extra))
    assert (PROJECT.parent / lock).is_file()


def test_install_command_without_clone_names_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "REPOSITORY_ROOT", tmp_path)
    assert install_command("server") == "pip install 'whisper-hailo[server]'"


def test_require_extra_missing_module_names_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process.require_extra("web", "--web", "os", "json")
    with pytest.raises(OptionError) as caught:
        process.require_extra("web", "--web", "os", "no_such_module")
    assert "no-such-module" in str(caught.value)
    assert process.install_command("web") in str(caught.value)
