"""The real command, restarted when it dies as a service manager does, and its faults."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.protocols import Closing

PARTIAL_S: Final = 0.5
"""New sound of each partial: several programs share the processor."""

_READY: Final = re.compile(r"listening to")
_PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class HeldMemory:
    """Memory of the program at a time.

    Attributes:
        age_s: age of the process.
        run: number of starts so far.
        rss_mib: resident memory.
        anonymous_mib: part of it that no file backs.
        n_descriptors: open descriptors.
        n_threads: threads.
    """

    age_s: float
    run: int
    rss_mib: float
    anonymous_mib: float
    n_descriptors: int
    n_threads: int


class Service(Closing):
    """Captions of a microphone, with a page and all outputs.

    Args:
        model: checkpoint.
        folder: folder of the outputs.
        environment: environment of the sound server.
        port: port of the page.

    Attributes:
        n_starts: number of starts.
        stderr: lines of standard error, each after the number of its start.
    """

    def __init__(
        self,
        model: str,
        folder: Path,
        environment: dict[str, str],
        port: int,
    ) -> None:
        self._command = [
            sys.executable,
            "-m",
            "whisper_hailo",
            "caption",
            "--model",
            model,
        ]
        self._command += [
            "--threads",
            "1",
            "--min-partial",
            str(PARTIAL_S),
            "--mic",
            "default",
        ]
        self._command += ["--web", "--web-port", str(port)]
        self._command += [
            "--events",
            str(folder / "a.jsonl"),
            "--output",
            str(folder / "a.srt"),
        ]
        self._command += ["--record", str(folder / "a.flac")]
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._began_s = 0.0
        self._ready = threading.Event()
        self._is_ending = False
        self.n_starts = 0
        self.stderr: list[str] = []
        self.address = f"http://127.0.0.1:{port}/"

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process that runs, or ran last."""
        if self._process is None:
            raise RuntimeError("the service was not started; use a with block")
        return self._process

    def open(self) -> Self:
        """Start it, and wait until it listens.

        Raises:
            DeviceError: it ends before that, or hangs.
        """
        if not self._start():
            self.process.kill()
            code = self.process.wait()
            last = self.stderr[-1].partition(": ")[2] if self.stderr else "no output"
            raise DeviceError(
                f"the program does not listen, its code is {code}: {last}"
            )
        threading.Thread(target=self._keep_running, name="service", daemon=True).start()
        return self

    def close(self) -> None:
        """End it as a service manager does."""
        self._is_ending = True
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(_PATIENCE_S)

    def kill(self) -> None:
        """Kill it, and wait until it listens again."""
        self._ready.clear()
        self.process.kill()
        self._ready.wait(_PATIENCE_S)

    def freeze(self, seconds: float) -> None:
        """Stop it for a while."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def fill_disk(self, seconds: float) -> None:
        """Let none of its files grow for a while."""
        pid = self.process.pid
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, unlimited))
        time.sleep(seconds)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))

    def sample_memory(self) -> HeldMemory | None:
        """Return its memory now; `None` while there is no process."""
        proc = Path(f"/proc/{self.process.pid}")
        try:
            status = (proc / "status").read_text(encoding="utf-8")
            n_descriptors = len(os.listdir(proc / "fd"))
        except OSError:
            return None
        fields = dict(
            re.findall(r"^(VmRSS|RssAnon|Threads):\s+(\d+)", status, re.MULTILINE)
        )
        if "VmRSS" not in fields:  # a zombie
            return None
        return HeldMemory(
            age_s=time.monotonic() - self._began_s,
            run=self.n_starts,
            rss_mib=int(fields["VmRSS"]) / 1024,
            anonymous_mib=int(fields["RssAnon"]) / 1024,
            n_descriptors=n_descriptors,
            n_threads=int(fields["Threads"]),
        )

    def _start(self) -> bool:
        """Start the process and return whether it listens in time."""
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._began_s = time.monotonic()
        self.n_starts += 1
        reader = threading.Thread(
            target=self._read_stderr, args=(self._process,), daemon=True
        )
        reader.start()
        while not (listens := self._ready.wait(_POLL_S)):
            if (
                self._process.poll() is not None
                or time.monotonic() > self._began_s + _PATIENCE_S
            ):
                break
        if not listens and self._process.returncode is not None:
            reader.join(_PATIENCE_S)  # its last line says why it ended
        return listens

    def _read_stderr(self, process: subprocess.Popen[str]) -> None:
        if process.stderr is None:
            return
        with process.stderr as lines:
            for line in lines:
                self.stderr.append(f"{self.n_starts}: {line.rstrip()}")
                if _READY.search(line):
                    self._ready.set()

    def _keep_running(self) -> None:
        while not self._is_ending:
            self.process.wait()
            if not self._is_ending:
                self._start()
