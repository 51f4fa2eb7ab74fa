"""Instructions of a window, from log-mel to tokens.

    python -m whisper_hailo_lab.processors.windows CASES.jsonl COUNTER LINE

The systems of `make lab NAME=bench-speed`, whose clocks count instructions here:
`time.perf_counter` gives billions of them instead of seconds, so milliseconds are millions. One
case per process, which prints a line of JSON.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from whisper_hailo_lab.processors.counter import counter

PER_SECOND = 1e9


def counted(given: dict[str, Any]) -> dict[str, Any]:
    """Millions of instructions of each stage of one case, and its tokens.

    Args:
        given: a line of `prepare_windows.py`.
    """
    from whisper_hailo.core.types import SAMPLE_RATE_HZ
    from whisper_hailo_lab.runs.records import Case
    from whisper_hailo_lab.speed.plan import label_of
    from whisper_hailo_lab.systems.protocol import Loading
    from whisper_hailo_lab.systems.table import entry

    case = Case(**given["case"])
    system = entry(case.system).make(Loading(case, given["path"]))
    drawn = np.random.default_rng(0).standard_normal(10 * SAMPLE_RATE_HZ)
    noise = (0.1 * drawn).astype(np.float32)
    system.open(_unwatched)
    system.transcribe(noise, case.language)  # the first run still allocates
    begin = time.perf_counter()
    result = system.transcribe(noise, case.language)
    whole = 1000.0 * (time.perf_counter() - begin)
    system.close()
    return {
        "machine": platform.machine(),
        "case": label_of(case.name),
        "tokens": result.n_tokens,
        "stages": result.stages_ms,
        "work": whole - result.stages_ms.get("mel", 0.0),
    }


def _unwatched(component: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - as `Watch`
    """Nobody looks at the memory of a component here."""
    return work()


def main() -> None:
    """One line of the cases."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    read = counter(Path(sys.argv[2]))
    time.perf_counter = lambda: read() / PER_SECOND  # before anything else imports it
    sys.stdout.write(json.dumps(counted(json.loads(lines[int(sys.argv[3])]))) + "\n")


if __name__ == "__main__":
    main()
