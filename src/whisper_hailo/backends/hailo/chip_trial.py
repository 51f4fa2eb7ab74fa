"""Trials of a chip that take a minute: times, sharing with another process, recovery."""

from __future__ import annotations

import inspect
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import IO, Any, Final

import numpy as np

from whisper_hailo.backends.hailo import isolated_probe
from whisper_hailo.backends.hailo.hef_contract import EncoderShape
from whisper_hailo.backends.hailo.hef_parts import HefEncoder
from whisper_hailo.core.errors import DeviceError, DeviceTimeoutError
from whisper_hailo.core.types import FloatArray

N_WINDOWS: Final = 20
CAPTION_INTERVAL_S: Final = 0.5
"""Partial captions come this often; between them a chip may fall asleep."""

_READY_S: Final = 60.0
"""For a process to open a chip."""

_CALLS: Final = (
    ("VDevice", ""),
    ("VDevice", "create_params"),
    ("VDevice", "create_infer_model"),
    ("VDevice", "release"),
    ("Device", "scan"),
    ("HEF", "get_sorted_output_names"),
)
_OBJECT_CALLS: Final = (
    "create_bindings",
    "wait_for_async_ready",
    "run_async",
    "get_async_queue_size",
    "set_scheduler_priority",
    "shutdown",
)
"""Calls of the binding that this program makes: on its classes, and on a configured model."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Times of some runs on the chip in ms, queue included."""

    n_runs: int
    mean_ms: float
    median_ms: float
    min_ms: float
    max_ms: float

    def describe(self) -> str:
        """Return the times in one line."""
        return (
            f"{self.mean_ms:.1f} ms a window (median {self.median_ms:.1f}, {self.min_ms:.1f} to "
            f"{self.max_ms:.1f}, {self.n_runs} windows)"
        )


def measure_runs(
    encoder: HefEncoder, mel: FloatArray, interval_s: float = 0.0
) -> RunTimes:
    """Encode one window `(n_mels, n_frames)` again and again; `encoder` is open.

    A run starts `interval_s` after the one before it started, or at once if that took longer.
    """
    batch = mel[np.newaxis]
    encoder.encode(batch)  # the first run loads weights and is no measure of the rest
    times_ms = []
    for _ in range(N_WINDOWS):
        start_s = time.monotonic()
        encoding = encoder.encode_async(batch)
        encoding.result()
        times_ms.append(encoding.took_ms)
        pause_s = start_s + interval_s - time.monotonic()
        time.sleep(max(0.0, pause_s))
    return RunTimes(
        n_runs=len(times_ms),
        mean_ms=statistics.fmean(times_ms),
        median_ms=statistics.median(times_ms),
        min_ms=min(times_ms),
        max_ms=max(times_ms),
    )


def call_signatures(binding: Any, configured: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the parameters of every call of the binding that this program makes."""
    signatures = {}
    for class_name, method in _CALLS:
        owner = getattr(binding, class_name, None)
        function = getattr(owner, method, None) if method else owner
        name = f"{class_name}.{method}" if method else class_name
        signatures[name] = _signature(function)
    for method in _OBJECT_CALLS:
        function = getattr(configured, method, None)
        signatures[f"ConfiguredInferModel.{method}"] = _signature(function)
    return signatures


def _signature(function: Any) -> str:  # noqa: ANN401
    """Return the parameters of a function; compiled ones state them in their first line."""
    if function is None:
        return "missing"
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        lines = (function.__doc__ or "unknown").strip().splitlines()
        return lines[0]


def share_with_process(path: Path) -> float:
    """Run a HEF in another process while this one holds the chip; return its ms for a run.

    This process has opened the chip with `--share`.

    Raises:
        DeviceError: the other process cannot use the chip.
    """
    answer = isolated_probe.run_isolated(
        ["share", str(path)], _READY_S, "sharing the chip"
    )
    return float(answer)


def recover_after_kill(path: Path) -> float:
    """Kill a process in the middle of its runs; return seconds until the chip runs here again.

    Raises:
        DeviceError: the process cannot use the chip, or it does not come back.
    """
    command = [sys.executable, "-P", "-m", isolated_probe.__name__, "hold", str(path)]
    read_end, write_end = os.pipe()
    process = subprocess.Popen(command, stdout=write_end, process_group=0)
    os.close(write_end)  # so that the output ends with the process
    with os.fdopen(read_end, "rb") as output:
        try:
            _wait_until_running(output)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    start_s = time.monotonic()
    until_s = start_s + _READY_S
    while True:
        try:
            isolated_probe.try_hef(path)
            return time.monotonic() - start_s
        except DeviceError:  # its driver may need a moment to notice
            if time.monotonic() >= until_s:
                raise
            time.sleep(0.5)


def _wait_until_running(output: IO[bytes]) -> None:
    """Wait for the line that a process writes when it has run once."""
    readable, _, _ = select([output], [], [], _READY_S)
    if not readable:
        raise DeviceTimeoutError(
            f"a process could not run the chip within {_READY_S:g} s; see doctor"
        )
    for line in output:  # Hailo's library may print before
        if line == isolated_probe.RUNNING:
            return
    raise DeviceError(
        "the process that should hold the chip ended; see doctor for what is wrong"
    )


def describe_encoder(shape: EncoderShape) -> str:
    """Return what an encoder takes and gives, in one line."""
    return (
        f"{shape.group}: {shape.input} {shape.n_frames} frames of {shape.n_mels} bins, "
        f"{shape.output} {shape.n_positions} positions of {shape.d_model}"
    )
