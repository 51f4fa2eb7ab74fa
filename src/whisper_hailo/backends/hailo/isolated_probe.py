"""Questions to a chip in a process of their own, whose end is not this program's.

A call that hangs in the driver takes its whole process with it (`bounded`). Listing chips and
trying one is done in another process, so that this one can go on when no answer comes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np

from whisper_hailo.backends.hailo.binding import load_binding
from whisper_hailo.backends.hailo.chip import ChipFacts, Lease, chip_facts
from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.last_words import LIBC
from whisper_hailo.backends.hailo.watchdog import hangs
from whisper_hailo.backends.options import ChipOptions
from whisper_hailo.core import errors
from whisper_hailo.core.errors import DeviceError, DeviceTimeoutError, WhisperHailoError
from whisper_hailo.core.types import FloatArray

_LOOK_S: Final = 20.0
"""A busy machine takes seconds to start a process."""

_RUN_S: Final = 60.0
_DIE_S: Final = 1.0
"""A process that hangs in a driver does not even die at once; then it is left alone."""

_PR_SET_PDEATHSIG: Final = 1

RUNNING: Final = b"running\n"
"""The line of a process that has run a HEF once, and goes on."""

Probe: TypeAlias = tuple[Lease, dict[str, FloatArray], tuple[str, ...]]


def chips(timeout_s: float = _LOOK_S) -> list[ChipFacts]:
    """Return every chip that the binding sees, without opening one for inference."""
    answers = run_isolated(["look"], timeout_s, "looking for chips")
    return [ChipFacts(**facts) for facts in answers]


def try_hef(path: Path, timeout_s: float = _RUN_S) -> None:
    """Run the first network of a HEF once, on zeros."""
    run_isolated(["run", str(path)], timeout_s, f"running {path.name}")


def compare_with_cpu(path: Path, directory: Path, timeout_s: float = _RUN_S) -> str:
    """Compare an encoder's HEF with the model directory's own encoder; return the figures.

    Raises:
        WrongAnswerError: the chip answers wrongly.
    """
    words = ["answer", str(path), str(directory)]
    return str(run_isolated(words, timeout_s, f"comparing {path.name} with the CPU"))


def run_isolated(words: list[str], timeout_s: float, action: str) -> Any:  # noqa: ANN401 - JSON
    """Run a task in a process of its own; return its result, or raise its error.

    `words` are a name of `TASKS` and its arguments, `action` is for messages.

    Raises:
        DeviceTimeoutError: no answer in time.
        DeviceError: the process ended without an answer.
        WhisperHailoError: the task's own error.
    """
    command = [sys.executable, "-P", "-m", __name__, *words]
    # Files in memory: an unread pipe would fill up and stop the process.
    with (
        os.fdopen(os.memfd_create("out"), "w+b") as out,
        os.fdopen(os.memfd_create("log"), "w+b") as log,
    ):
        # Ctrl-C reaches this process alone, which then ends the other.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, process_group=0
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise DeviceTimeoutError(hangs(action, timeout_s)) from error
        finally:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_DIE_S)
        answer_line = _last_line(out)
        log_line = _last_line(log)
    try:
        answer = json.loads(answer_line)
    except ValueError as error:
        raise DeviceError(
            f"Hailo's library crashed while {action} (code {process.returncode}, "
            f"{log_line or 'no output'}); see whisper-hailo doctor"
        ) from error
    if "kind" in answer:
        error_class = getattr(errors, answer["kind"])
        raise error_class(answer["message"])
    return answer["result"]


def _last_line(file: IO[bytes]) -> str:
    """Return the last line, since the library may print before the answer."""
    file.seek(0)
    lines = file.read().decode(errors="replace").splitlines()
    return lines[-1] if lines else ""


def run_task(task: str, *words: str) -> None:
    """Run a task in the other process, which ends with its parent, and print its result."""
    LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    answer: dict[str, Any]
    try:
        answer = {"result": TASKS[task](*words)}
    except WhisperHailoError as error:
        answer = {"kind": type(error).__name__, "message": str(error)}
    # On a line of its own, whatever the library printed before.
    sys.stdout.write("\n" + json.dumps(answer))


def _list_chips() -> list[dict[str, Any]]:
    binding = load_binding()
    with Faults(binding).during("looking for chips"):
        devices = binding.Device.scan()
        return [asdict(chip_facts(binding, str(device))) for device in devices]


def _run_probe(path: str) -> None:
    with _open_zeros(path, ChipOptions()) as (lease, zeros, outputs):
        lease.run(zeros, outputs)


@contextmanager
def _open_zeros(path: str, options: ChipOptions) -> Iterator[Probe]:
    """Open the first network of a HEF; yield its lease, zeros for it, and its outputs' names."""
    hef = read_hef(Path(path), verify=False)
    group = hef.groups[0]
    zeros = {name: np.zeros(shape, np.float32) for name, shape in group.inputs.items()}
    with Lease(hef, group.name, options) as lease:
        yield lease, zeros, tuple(group.outputs)


_SHARED_RUNS: Final = 20


def _run_shared(path: str) -> float:
    """Run the first network of a HEF on a shared chip; return the mean ms of a run."""
    with _open_zeros(path, ChipOptions(share=True)) as (lease, zeros, outputs):
        lease.run(zeros, outputs)  # the first run loads weights
        times_ms = []
        for _ in range(_SHARED_RUNS):
            run = lease.run_async(zeros, outputs)
            run.result()
            times_ms.append(run.took_ms)
    return sum(times_ms) / len(times_ms)


def _hold(path: str) -> None:
    """Run a HEF until this process is killed; a line says when it has run once."""
    with _open_zeros(path, ChipOptions()) as (lease, zeros, outputs):
        lease.run(zeros, outputs)
        sys.stdout.write(RUNNING.decode())
        sys.stdout.flush()
        while True:
            lease.run(zeros, outputs)


def _answer(path: str, directory: str) -> str:
    """Compare a HEF's features with the CPU's; return the figures in one line."""
    from whisper_hailo.backends.hailo.hef_parts import HefEncoder
    from whisper_hailo.backends.hailo.known_answer import ask, wrong_answer
    from whisper_hailo.core.spec import ModelSpec

    spec = ModelSpec.load(Path(directory))
    with HefEncoder(Path(path), spec) as encoder:
        answer = ask(encoder, Path(directory), spec)
    if answer.problem:
        raise wrong_answer(encoder, answer)
    return answer.describe()


TASKS: Final[dict[str, Callable[..., Any]]] = {
    "look": _list_chips,
    "run": _run_probe,
    "share": _run_shared,
    "hold": _hold,
    "answer": _answer,
}


if __name__ == "__main__":
    run_task(*sys.argv[1:])
