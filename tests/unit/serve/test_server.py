"""What a server loads before a door asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from whisper_hailo.cli.settings import PREFIX

pytest.importorskip("wyoming", reason="the server extra is not installed")

_LARGE: Final = ("fastapi", "starlette", "uvicorn", "pydantic", "zeroconf", "onnx")

_PROGRAM: Final = f"""
import sys
import whisper_hailo.serve.engine, whisper_hailo.serve.server
import whisper_hailo.serve.routes.wyoming.session
from whisper_hailo.cli.commands import serve

serve.ConfiguredOptions(serve._SETTINGS, None)
print(*({{*sys.modules}} & {{*{_LARGE}}}))
"""


def test_a_server_of_wyoming_alone_loads_neither_http_nor_what_reads_settings() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
