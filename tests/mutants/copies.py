"""Work done in copies of this process, some at a time; a copy that ends before its work is told."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

LOOPS_FOREVER: Final = "no end"
"""What kills a fault that keeps a test from ending."""

CRASH: Final = "crash"
"""What kills one that ends its process."""


def spent_s() -> float:
    """Of the processor, by this process and its copies: no more of them on a busy machine."""
    return sum(os.times()[:4])


_SENT: list[int] = []


def send(answer: object) -> None:
    """From a copy: its answer so far; the last one counts."""
    os.write(_SENT[0], json.dumps(answer).encode() + b"\n")


def in_copies(
    work: Sequence[tuple[Any, Callable[[], Any]]], jobs: int, end_s: float
) -> Iterator[tuple[Any, Any]]:
    """Do every piece of work in a copy of this process; what it answered, when it is done."""
    waiting = list(work)[::-1]
    running: dict[int, tuple[Any, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs and spent_s() < end_s:
            what, do = waiting.pop()
            pid, answers = _start(do)
            running[pid] = what, answers
        if not running:
            return
        pid, status = os.wait()
        if pid not in running:
            continue
        what, answers = running.pop(pid)
        with os.fdopen(answers, "rb") as file:
            told = [json.loads(line) for line in file.read().splitlines()]
        # A copy that fails by itself ends with 1; the program's own end for what hangs is another.
        if told and status and os.waitstatus_to_exitcode(status) != 1:
            ended = -os.waitstatus_to_exitcode(status) in {signal.SIGPROF, signal.SIGALRM}
            yield what, [LOOPS_FOREVER if ended else CRASH, *told[-1][1:]]
        elif status:
            raise RuntimeError(f"a copy failed at {what}")
        else:
            yield what, told[-1]


def _start(do: Callable[[], Any]) -> tuple[int, int]:
    answers, sent = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(sent)
        return pid, answers
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        told = os.dup(2)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        _SENT[:] = [sent]
        send(do())
        status = 0
    except BaseException:
        os.write(told, traceback.format_exc().encode())
    finally:
        os._exit(status)
