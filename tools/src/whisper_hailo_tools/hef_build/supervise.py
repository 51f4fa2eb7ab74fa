"""The supervisor of a build process, which streams its log and makes the record of the result.

The process is in a session of its own, so that Ctrl-C reaches the supervisor alone: an interrupt in
the middle of fine-tuning makes the compiler continue with the weights that it has so far.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from .job import DEVICE, INTERRUPTED, MARK, MODEL, BuildError, BuildJob, disk_errors
from .stages import HEF, STARTED, STATE_SUFFIX, Build, write_whole

RECORD_SUFFIX = ".hef.json"
LOG_SUFFIX = ".log"
JOB_SUFFIX = ".job.json"
_START = (
    "import sys; sys.path.append(sys.argv[1]); from hef_build.supervise import run_job; "
    "sys.exit(run_job(sys.argv[2:]))"
)
_SNR = re.compile(r"(?:\S*/)?(output_layer\d+)\s+SNR:\s*(-?[\d.]+(?:e-?\d+)?)\s*dB")
_CONTEXTS = re.compile(r"Applying selected partition to (\d+) contexts")


def supervise(
    job_path: Path, say: Callable[[str], None], python: str | None = None
) -> Any:  # noqa: ANN401
    """Run a job to its end.

    `say` is called with each line of the log; `python` has the compiler, `None` is this one.

    Returns:
        the record, as written to `<stem>.hef.json`.

    Raises:
        BuildError: the build fails.
    """
    job = BuildJob.load(job_path)
    with disk_errors(job.out):
        Path(job.out).mkdir(parents=True, exist_ok=True)
        with job.result(LOG_SUFFIX).open("a", encoding="utf-8") as log:
            code, failure = _run_process(job_path, say, python, log)
    if code < 0:
        name = signal.Signals(-code).name
        raise BuildError(
            DEVICE,
            f"the Hailo compiler was killed by {name} (SIGKILL usually means too little memory); "
            "start again: finished stages are kept",
        )
    if code != 0:
        if failure is not None:
            raise BuildError(code, failure)
        raise BuildError(
            MODEL,
            f"the build process exited with code {code}; see {job.result(LOG_SUFFIX)}",
        )
    return write_record(job)


def _run_process(
    job_path: Path, say: Callable[[str], None], python: str | None, log: IO[str]
) -> tuple[int, str | None]:
    """Start the process and follow it; return its exit code and the error that it reported."""
    package = str(Path(__file__).resolve().parent.parent)
    command = [
        python or sys.executable,
        "-u",
        "-c",
        _START,
        package,
        str(job_path.resolve()),
    ]
    environment = {
        # The compiler brings an ONNX Runtime of its own, and a bundle has no `core.process`.
        "ORT_DISABLE_TELEMETRY": "1",
        **os.environ,
        "PYTHONIOENCODING": "utf-8",
    }
    failure = None
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise BuildError(
            DEVICE,
            f"cannot start {command[0]} ({error.strerror}); give another --python",
        ) from error
    assert process.stdout is not None  # noqa: S101 - for the type checker: it was asked for
    try:
        for (
            line
        ) in process.stdout:  # progress bars end their lines with a carriage return
            log.write(line)
            log.flush()
            if line.startswith(MARK):
                failure = line[len(MARK) :].strip()
            elif line.strip():
                say(line.rstrip())
        return process.wait(), failure
    finally:
        if process.poll() is None:  # interrupted: its helper processes end, too
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def write_record(job: BuildJob) -> dict[str, Any]:
    """Write and return the record of a build: the result, its inputs, and the compiler."""
    state = json.loads(job.result(STATE_SUFFIX).read_text(encoding="utf-8"))
    log = job.result(LOG_SUFFIX).read_text(encoding="utf-8")
    contexts = _CONTEXTS.findall(_read_last_stage(log, "compile"))
    ratios = _SNR.findall(_read_last_stage(log, "optimize"))
    record = {
        **state["facts"],
        "hef": job.result(HEF).name,
        "bytes": job.result(HEF).stat().st_size,
        "sha256": state["compile"]["results"][HEF],
        "optimization_level": job.optimization_level,
        "snr_db": {name: float(value) for name, value in ratios},
        "contexts": int(contexts[-1]) if contexts else None,
    }
    text = json.dumps(record, indent=2, sort_keys=True) + "\n"
    write_whole(job.result(RECORD_SUFFIX), text.encode())
    return record


def _read_last_stage(log: str, stage: str) -> str:
    """Return the log from the last start of a stage on: a stage that was kept logs nothing."""
    start = log.rfind(f"{stage}{STARTED}")
    return log[max(start, 0) :]


def run_job(arguments: list[str]) -> int:
    """Run the job whose file is the only argument; return the exit code."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.INFO)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        Build(BuildJob.load(Path(arguments[0]))).run()
    except BuildError as error:
        line = " ".join(str(error).split())
        sys.stderr.write(f"{MARK}{line}\n")
        return error.code
    return 0


def _end_with(supervisor: int) -> None:
    """End this process and its children when the supervisor has ended."""
    while os.getppid() == supervisor:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)


def build_bundle(folder: Path) -> int:
    """Build the job of an unpacked bundle."""
    if sys.version_info < (3, 10):
        sys.stderr.write("build.py needs Python 3.10 or newer, the compiler's own\n")
        return 2
    try:
        record = supervise(folder / "job.json", _print_line)
    except BuildError as error:
        _print_line(f"build.py: {error}")
        return error.code
    except KeyboardInterrupt:
        _print_line("build.py: interrupted; start again: finished stages are kept")
        return INTERRUPTED
    text = f"built {folder / 'out' / record['hef']}"
    ratios = ", ".join(
        f"{name} {value:g} dB" for name, value in record["snr_db"].items()
    )
    if ratios:
        text += f", SNR {ratios}"
    _print_line(text)
    return 0


def _print_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
