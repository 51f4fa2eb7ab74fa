"""Which processors compute in float16, and how many cores there are."""

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
def test_arm_processors_say_so_themselves(
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


def test_cores_are_those_that_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {1, 4, 9} if pid == 0 else {1}
    )
    assert process.available_cores() == 3


@pytest.mark.parametrize("threads", [0, 1, 256])
def test_so_many_threads_may_be(threads: int) -> None:
    assert check_threads(threads) == threads


@pytest.mark.parametrize("threads", [-1, 257, 1.5, "2"])
def test_so_many_threads_are_none(threads: Any) -> None:
    with pytest.raises(OptionError, match=r"threads is .*256"):
        check_threads(threads)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What an ONNX Runtime that was imported before us is told; nothing is set."""
    told: list[str] = []
    runtime = ModuleType("onnxruntime")
    runtime.disable_telemetry_events = lambda: told.append("disable")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    for switch in SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    return told


@pytest.mark.parametrize("said", [None, "", "0", "1"])
def test_user_has_the_last_word(
    said: str | None, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch in SWITCHES:
        if said is not None:
            monkeypatch.setenv(switch, said)
    keep_private()
    assert {switch: os.environ[switch] for switch in SWITCHES} == {
        switch: said or off for switch, off in SWITCHES.items()
    }
    assert calls == ([] if said else ["disable"])


def test_runtime_that_came_first_is_told_and_so_is_the_user(
    calls: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    keep_private()
    assert {name: os.environ[name] for name in SWITCHES} == {
        "ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    assert calls == ["disable"]
    assert "import whisper_hailo first, or set ORT_DISABLE_TELEMETRY=1" in caplog.text


def test_runtime_without_that_call_is_left_alone(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    keep_private()
    assert not calls
    assert not caplog.text


@pytest.mark.parametrize(
    "module", ["whisper_hailo", "whisper_hailo_lab.harness.worker"]
)
def test_switches_are_set_before_a_library_is_there(module: str) -> None:
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
    """Its address has 107 bytes at most, which a folder of pytest's may fill."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        listening.bind(f"{folder}/notify")
        listening.setblocking(False)
        yield listening


def told(manager: socket.socket) -> list[str]:
    lines = []
    while True:
        try:
            lines.append(manager.recv(4096).decode())
        except BlockingIOError:
            return lines


def test_manager_is_told_when_it_is_ready_and_when_it_ends(
    manager: socket.socket,
) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    supervisor.ready("listening to\na microphone")
    supervisor.alive()  # nobody asked for it
    supervisor.stopping()
    assert told(manager) == ["READY=1\nSTATUS=listening to a microphone", "STOPPING=1"]


def test_watchdog_hears_of_it_three_times_in_its_time(manager: socket.socket) -> None:
    clock = [100.0]
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "3000000"}
    supervisor = Supervisor(environment, now=lambda: clock[0])
    heard = []
    for _ in range(100):
        supervisor.alive()
        heard += told(manager)
        clock[0] += 0.125
    assert heard == ["WATCHDOG=1"] * 13


def test_manager_that_has_no_time_holds_nothing_up(manager: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    for _ in range(10_000):  # far more than wait at a socket
        supervisor.ready("well")
    assert told(manager)


@pytest.mark.parametrize("further", [0, 1])
def test_watchdog_of_another_process_is_left_alone(
    manager: socket.socket, further: int
) -> None:
    address, pid = manager.getsockname(), os.getpid() + further
    environment = {
        "NOTIFY_SOCKET": address,
        "WATCHDOG_USEC": "1000000",
        "WATCHDOG_PID": str(pid),
    }
    Supervisor(environment).alive()
    assert bool(told(manager)) == (further == 0)


def test_socket_s_name_may_have_what_others_begin_with() -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        tempfile.TemporaryDirectory() as folder,
    ):
        listening.bind(f"{folder}/a@b")
        listening.setblocking(False)
        Supervisor({"NOTIFY_SOCKET": f"{folder}/a@b"}).stopping()
        assert told(listening) == ["STOPPING=1"]


@pytest.mark.parametrize("of", ["", "@"])
def test_sockets_without_a_place_in_the_file_system_are_reached(of: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"whisper-hailo-test-{of}{os.getpid()}"
        listening.bind("\0" + name)
        listening.setblocking(False)
        Supervisor({"NOTIFY_SOCKET": "@" + name}).stopping()
        assert told(listening) == ["STOPPING=1"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "/no/such"},
        {"NOTIFY_SOCKET": "vsock:2:1"},
        {"WATCHDOG_USEC": "soon"},
    ],
)
def test_without_a_manager_that_listens_nothing_happens(
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

if sys.argv[1] == "told":
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
def test_blocks_before_one_that_stays_are_given_back() -> None:
    kept_mib = {}
    for how in ("told", "untold"):
        command = [sys.executable, "-c", _PROGRAM, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        kept_mib[how] = int(done.stdout)
    assert kept_mib["untold"] > 50, (
        "glibc does not keep it any more: core/process.py may go"
    )
    assert kept_mib["told"] < 10


def test_c_library_that_cannot_be_told_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert not process.release_freed_memory()


@pytest.mark.parametrize(
    ("taken", "told"), [((1, 1), True), ((0, 1), False), ((1, 0), False)]
)
def test_blocks_of_128_kib_and_free_end_are_given_back(
    taken: tuple[int, int], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M_TRIM_THRESHOLD is -1 and M_MMAP_THRESHOLD -3 in `malloc.h`; both are 128 KiB at first."""
    said: list[tuple[int, int]] = []

    def mallopt(what: int, size: int) -> int:
        said.append((what, size))
        return taken[len(said) - 1]

    library = type("Library", (), {"mallopt": staticmethod(mallopt)})
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    assert process.release_freed_memory() is told
    assert said == [(-1, 131_072), (-3, 131_072)][: len(said)]
    assert len(said) == 2 or not told


PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_every_extra_that_is_advised_can_be_installed() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert set(get_args(Extra)) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("extra", get_args(Extra))
def test_what_to_type_installs_from_a_lock(extra: Extra) -> None:
    (lock,) = re.findall(r"^pip install -r (\S+) in the clone$", install_command(extra))
    assert (PROJECT.parent / lock).is_file()


def test_who_has_no_clone_takes_the_extra_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "REPOSITORY_ROOT", tmp_path)
    assert install_command("server") == "pip install 'whisper-hailo[server]'"


def test_missing_module_is_told_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process.require_extra("web", "--web", "os", "json")
    with pytest.raises(OptionError) as told:
        process.require_extra("web", "--web", "os", "no_such_module")
    assert "no-such-module" in str(told.value)
    assert process.install_command("web") in str(told.value)
