"""The server: its imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

_LARGE: Final = ("fastapi", "starlette", "uvicorn", "pydantic", "onnx")

_PROGRAM: Final = f"""
import sys
import whisper_hailo.serve.service, whisper_hailo.serve.server
import whisper_hailo.serve.routes.wyoming
from whisper_hailo.cli.commands import serve

print(*({{*sys.modules}} & {{*{_LARGE}}}))
"""


def test_a_server_of_wyoming_alone_loads_no_http() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
