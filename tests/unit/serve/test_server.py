"""The server: imports, and the announcement of Wyoming."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

pytest.importorskip("wyoming", reason="the server extra is not installed")

_LARGE: Final = ("fastapi", "starlette", "uvicorn", "pydantic", "zeroconf", "onnx")

_PROGRAM: Final = f"""
import sys
import whisper_hailo.serve.service, whisper_hailo.serve.server
import whisper_hailo.serve.routes.wyoming.server
from whisper_hailo.cli.commands import serve

print(*({{*sys.modules}} & {{*{_LARGE}}}))
"""


def test_wyoming_server_imports_no_http() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
