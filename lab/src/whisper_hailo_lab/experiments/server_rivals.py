"""Other speech servers, each started as a process with the weights of the bundled model.

All have one thread, a beam of one where they can be told so, English, and no voice detection.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisper_hailo.core.errors import ModelError
from whisper_hailo_lab.experiments.server_clients import (
    Ask,
    inference_client,
    openai_client,
)
from whisper_hailo_lab.formats.ctranslate2 import write_ctranslate2
from whisper_hailo_lab.formats.ggml import write_ggml
from whisper_hailo_lab.repository import MICRO

_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class SentClip:
    """What is asked for, in the forms in which it is sent.

    Attributes:
        wav: a whole file.
        ask_wyoming: a client of Wyoming at an address, which sends the samples.
    """

    wav: bytes
    ask_wyoming: Callable[[str], Ask]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another server.

    Attributes:
        weights: writes them into a folder; gives what the command calls them.
        command: words behind the program, by the weights, the port and the number of threads.
        scheme: of its address, and of ours that is asked in the same way.
        client: one of an address, which asks it for a clip.
    """

    weights: Callable[[Path], Path]
    command: Callable[[Path, int, int], list[str]]
    scheme: str
    client: Callable[[str, SentClip], Ask]

    @contextmanager
    def serving(self, program: str, threads: int, folder: Path) -> Iterator[tuple[int, str]]:
        """Its process, and its address.

        Args:
            program: Python of an environment that has it, or its own.
            threads: of its engine.
            folder: for the weights.

        Raises:
            ModelError: it does not start.
        """
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [program, *self.command(self.weights(folder), port, threads)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, **quiet) as process:  # type: ignore[call-overload]
            try:
                begin_s = time.monotonic()
                while process.poll() is None and time.monotonic() < begin_s + _START_S:
                    try:
                        socket.create_connection(("127.0.0.1", port), 1).close()
                    except OSError:
                        time.sleep(0.1)
                        continue
                    yield process.pid, f"{self.scheme}://127.0.0.1:{port}"
                    return
                raise ModelError(f"the other server did not start; run {' '.join(command)}")
            finally:
                process.terminate()


def _ctranslate2(folder: Path) -> Path:
    weights = folder / "micro"
    write_ctranslate2(MICRO, weights, "int8")
    return weights


def _configured(folder: Path, threads: int) -> Path:
    """A file of settings, in JSON, which is YAML."""
    options = {"beam_size": 1, "vad_filter": False}
    model = {"name": "whisper-1", "path": str(folder), "transcribe_options": options}
    how = {"device": "cpu", "compute_type": "int8", "cpu_threads": threads}
    path = folder / "server.yaml"
    path.write_text(json.dumps({"model_options": how, "models": [model]}), encoding="utf-8")
    return path


def _ggml(folder: Path) -> Path:
    weights = folder / "micro.bin"
    write_ggml(MICRO, weights, "q8_0")
    return weights


def _wyoming_faster_whisper(weights: Path, port: int, threads: int) -> list[str]:
    return [
        *("-m", "wyoming_faster_whisper", "--uri", f"tcp://127.0.0.1:{port}"),
        *("--model", str(weights), "--data-dir", str(weights), "--language", "en"),
        *("--beam-size", "1", "--compute-type", "int8", "--cpu-threads", str(threads)),
        *("--local-files-only", "--stt-library", "faster-whisper"),
    ]


def _faster_whisper_server(weights: Path, port: int, threads: int) -> list[str]:
    return [
        *("-m", "faster_whisper_server", "--config", str(_configured(weights, threads))),
        *("--host", "127.0.0.1", "--port", str(port)),
    ]


def _whisper_cpp(weights: Path, port: int, threads: int) -> list[str]:
    return [
        *("--model", str(weights), "--host", "127.0.0.1", "--port", str(port)),
        *("--threads", str(threads), "--language", "en", "--best-of", "1", "--beam-size", "1"),
    ]


RIVALS: Final[Mapping[str, Rival]] = MappingProxyType(
    {
        "wyoming-faster-whisper": Rival(
            _ctranslate2,
            _wyoming_faster_whisper,
            "tcp",
            lambda address, clip: clip.ask_wyoming(address),
        ),
        "faster-whisper-server": Rival(
            _ctranslate2,
            _faster_whisper_server,
            "http",
            lambda address, clip: openai_client(address, file=clip.wav),
        ),
        "whisper.cpp": Rival(
            _ggml,
            _whisper_cpp,
            "http",
            lambda address, clip: inference_client(address, clip.wav),
        ),
    }
)
