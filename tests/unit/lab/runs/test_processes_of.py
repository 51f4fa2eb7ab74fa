"""Workers of a command are found below it, and their memory is told."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

from whisper_hailo_lab.experiments.archives import cpu_s, peaks_mib

TAKEN_MIB = 40


def hold(pipe: Connection) -> None:
    taken = b"x" * (TAKEN_MIB << 20)
    pipe.send(len(taken))
    pipe.recv()


@pytest.mark.slow
def test_a_worker_is_told_with_what_it_took() -> None:
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    worker = context.Process(target=hold, args=(theirs,), daemon=True)
    worker.start()
    pipe.recv()
    peaks = peaks_mib(os.getpid())
    worker.kill()
    worker.join()
    assert worker.pid is not None
    assert TAKEN_MIB < peaks[worker.pid] < 1000
    assert os.getpid() not in peaks


def test_a_command_without_workers_counts_itself_and_one_that_ended_nothing() -> None:
    words = [sys.executable, "-c", "input(print('here', flush=True))"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as alone:
        assert alone.stdout is not None
        assert alone.stdout.readline() == b"here\n"
        (found,) = peaks_mib(alone.pid).items()
        assert found[0] == alone.pid
        assert 1 < found[1] < 200
        alone.communicate(b"\n")
    assert peaks_mib(alone.pid) == {}


@pytest.mark.slow
def test_the_processor_s_time_of_a_command_is_told() -> None:
    words = [sys.executable, "-c", "sum(range(20_000_000)); input(print('here', flush=True))"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"here\n"
        (taken,) = cpu_s(busy.pid).items()
        busy.communicate(b"\n")
    assert taken[0] == busy.pid
    assert 0.01 < taken[1] < 60
    (gone,) = cpu_s(busy.pid).values()
    assert gone == 0
