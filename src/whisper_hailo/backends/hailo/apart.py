"""What is asked of a chip in a process of its own, whose end is not this program's.

A call that hangs in the driver takes its whole process with it (`bounded`). Whoever only looks
which chips there are, or tries one, does so apart, and goes on without when no answer comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo.backends.hailo.binding import load_binding
from whisper_hailo.backends.hailo.bounded import ANSWER_S, hangs
from whisper_hailo.backends.hailo.chip import ChipFacts, chip_facts
from whisper_hailo.backends.hailo.faults import Faults
from whisper_hailo.backends.hailo.lease import Lease
from whisper_hailo.backends.hailo.options import ChipOptions
from whisper_hailo.backends.hef.read import read_hef
from whisper_hailo.core.errors import DeviceError, DeviceTimeoutError
from whisper_hailo.core.own_process import DiedError, Waitable, answer, run_apart, wait_at_most

_RUN_S: Final = 60.0


def chips(timeout_s: float = ANSWER_S) -> list[ChipFacts]:
    """Every chip that the binding sees, without opening one for inference.

    Raises:
        NoBindingError, BindingMismatchError, DeviceError: the binding cannot tell, or hangs.
    """
    found = _ask(["look"], timeout_s, "looking for chips")
    return [ChipFacts(**facts) for facts in found]


def try_hef(path: Path, timeout_s: float = _RUN_S) -> None:
    """Run the first network of a HEF once, on zeros.

    Raises:
        DeviceError, HefError: it does not run; each says what to do.
    """
    _ask(["run", str(path)], timeout_s, f"running {path.name}")


def _ask(words: list[str], timeout_s: float, what: str) -> Any:  # noqa: ANN401 - JSON
    """What a process of this module says.

    Raises:
        WhisperHailoError: its failure, or that it said nothing in time.
    """

    def wait(process: Waitable) -> None:
        if not wait_at_most(process, timeout_s):
            raise DeviceTimeoutError(hangs(what, timeout_s))

    try:
        return run_apart("whisper_hailo.backends.hailo.apart", words, wait, keep_log=True)
    except DiedError as error:
        raise DeviceError(
            f"Hailo's library ended its process while {what} (code {error.code}, "
            f"{error.log or 'not a word'}); see whisper-hailo doctor"
        ) from error


def _look() -> list[dict[str, Any]]:
    """Run in the process of `chips`: what every chip says of itself."""
    binding = load_binding()
    with Faults(binding).during("looking for chips"):
        return [asdict(chip_facts(binding, str(device))) for device in binding.Device.scan()]


def _run(name: str) -> None:
    """Run in the process of `try_hef`: one inference of zeros."""
    hef = read_hef(Path(name), verify=False)
    group = hef.groups[0]
    zeros = {stream.name: np.zeros(stream.shape, np.float32) for stream in group.inputs}
    with Lease(hef, group.name, ChipOptions()) as lease:
        lease.run(zeros, tuple(stream.name for stream in group.outputs))


_TASKS: Final[dict[str, Callable[..., Any]]] = {"look": _look, "run": _run}


if __name__ == "__main__":
    answer(lambda task, *words: _TASKS[task](*words))
