"""What a service manager is told, by a socket that stands for systemd's."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator

import pytest

from whisper_hailo.core.process import Supervisor


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


def test_a_manager_is_told_when_it_is_ready_and_when_it_ends(manager: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    supervisor.ready("listening to\na microphone")
    supervisor.alive()  # nobody asked for it
    supervisor.stopping()
    assert told(manager) == ["READY=1\nSTATUS=listening to a microphone", "STOPPING=1"]


def test_a_watchdog_hears_of_it_three_times_in_its_time(manager: socket.socket) -> None:
    clock = [100.0]
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "3000000"}
    supervisor = Supervisor(environment, now=lambda: clock[0])
    heard = []
    for _ in range(100):
        supervisor.alive()
        heard += told(manager)
        clock[0] += 0.125
    assert heard == ["WATCHDOG=1"] * 13


def test_a_manager_that_has_no_time_holds_nothing_up(manager: socket.socket) -> None:
    supervisor = Supervisor({"NOTIFY_SOCKET": manager.getsockname()})
    for _ in range(10_000):  # far more than wait at a socket
        supervisor.ready("well")
    assert told(manager)


@pytest.mark.parametrize("further", [0, 1])
def test_a_watchdog_of_another_process_is_left_alone(manager: socket.socket, further: int) -> None:
    address, pid = manager.getsockname(), os.getpid() + further
    environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(pid)}
    Supervisor(environment).alive()
    assert bool(told(manager)) == (further == 0)


def test_a_socket_s_name_may_have_what_others_begin_with() -> None:
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
    [{}, {"NOTIFY_SOCKET": "/no/such"}, {"NOTIFY_SOCKET": "vsock:2:1"}, {"WATCHDOG_USEC": "soon"}],
)
def test_without_a_manager_that_listens_nothing_happens(environment: dict[str, str]) -> None:
    supervisor = Supervisor(environment)
    supervisor.ready("well")
    supervisor.alive()
    supervisor.stopping()
