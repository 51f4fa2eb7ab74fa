"""Work in a process of its own, with a stand-in for the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.backends.hailo import isolated_probe
from whisper_hailo.backends.hailo.isolated_probe import DiedError, answer, run_apart, wait_at_most
from whisper_hailo.core.errors import AudioError, OptionError

PACKAGE = str(Path(isolated_probe.__file__).resolve().parents[2])


class Process:
    """In the place of one: says something, and ends when it is told to, or some waits later."""

    made: Process
    said = b""
    log = b""
    returncode = 0
    hangs = 0

    def __init__(self, command: list[str], **named: Any) -> None:
        type(self).made = self
        self.command, self.named, self.pid = command, named, 42
        self.did: list[Any] = []
        self.files = [named["stdout"], named["stderr"]]
        named["stdout"].write(self.said)
        named["stdout"].flush()
        if named["stderr"] is not None:
            named["stderr"].write(self.log)
            named["stderr"].flush()

    def terminate(self) -> None:
        self.did.append("terminate")

    def kill(self) -> None:
        self.did.append("kill")

    def wait(self, timeout: float | None = None) -> int:
        self.did.append(timeout)
        if self.hangs:
            type(self).hangs -= 1
            raise subprocess.TimeoutExpired("it", timeout or 0.0)
        return 0


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    made = type("One", (Process,), {})
    monkeypatch.setattr(subprocess, "Popen", made)
    return made


def no_wait(_: object) -> None:
    """It has ended."""


def test_the_last_line_is_the_answer(process: type[Process]) -> None:
    process.said = b"a library's\n" + json.dumps({"result": [1, "\xe4"]}).encode()
    waited: list[Any] = []
    assert run_apart("a.module", ["one", "two"], waited.append) == [1, "\xe4"]
    one = process.made
    assert waited == [one]
    assert one.command[:3] == [sys.executable, "-P", "-c"]
    assert one.command[4:] == [PACKAGE, "a.module", "one", "two"]
    assert one.named["stdin"] == subprocess.DEVNULL
    assert one.named["stderr"] is None  # it is this program's
    assert one.named["process_group"] == 0  # Ctrl-C is not its affair
    assert one.did == ["terminate", 5.0]
    assert one.files[0].closed


def test_what_its_work_raised_is_raised(process: type[Process]) -> None:
    process.said = json.dumps({"kind": "AudioError", "message": "bad"}).encode()
    with pytest.raises(AudioError, match=r"^bad$"):
        run_apart("m", [], no_wait)


def test_one_without_an_answer_died(process: type[Process]) -> None:
    process.said, process.log, process.returncode = b"no JSON\n", b"first\nlast \xff\n", -11
    with pytest.raises(DiedError, match=r"^code -11: last \ufffd$") as told:
        run_apart("m", [], no_wait, keep_log=True)
    assert (told.value.code, told.value.log) == (-11, "last \ufffd")
    with pytest.raises(DiedError) as told:
        run_apart("m", [], no_wait)
    assert told.value.log == ""
    process.said = b""
    with pytest.raises(DiedError):
        run_apart("m", [], no_wait)


def test_who_waits_no_more_ends_it_with_the_time_to_tidy_up(process: type[Process]) -> None:
    def give_up(_: object) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        run_apart("m", [], give_up)
    assert process.made.did == ["terminate", 5.0]
    for hangs, did in (
        (1, ["terminate", 5.0, "kill", 1.0]),
        (2, ["terminate", 5.0, "kill", 1.0]),  # not even that: it hangs in a driver
    ):
        process.hangs = hangs
        with pytest.raises(KeyError):
            run_apart("m", [], give_up)
        assert process.made.did == did


def test_one_that_ends_in_time_is_looked_at_twice_a_second(
    process: type[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated_probe, "_kept_waiting_s", lambda _: 0.0)
    now = [0.0]
    monkeypatch.setattr(isolated_probe.time, "monotonic", lambda: now[0])
    with open(os.devnull, "wb") as nowhere:
        one = process(["x"], stdout=nowhere, stderr=None)
    process.hangs = 3
    assert wait_at_most(one, 1.0)
    assert one.did == [0.5] * 4
    assert not wait_at_most(one, 0.0)  # no time is no time
    assert isolated_probe._kept_waiting_s(0) == 0.0


@pytest.mark.parametrize(
    ("content", "seconds"),
    [("12 2500000000 3\n", 2.5), ("12\n", 0.0), ("a b c", 0.0), (None, 0.0)],
)
def test_the_system_s_count_is_of_nanoseconds(
    content: str | None, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    if content is not None:
        (tmp_path / "schedstat").write_text(content)

    def place(name: str) -> Path:
        asked.append(name)
        return tmp_path / "schedstat"

    monkeypatch.setattr(isolated_probe, "Path", place)
    assert isolated_probe._kept_waiting_s(7) == seconds
    assert asked == ["/proc/7/schedstat"]


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arguments of the threads that look whether somebody still waits; none begins."""
    begun: list[Any] = []

    class Thread:
        def __init__(self, **named: Any) -> None:
            begun.append(named)

        def start(self) -> None:
            begun.append("start")

    monkeypatch.setattr(isolated_probe.threading, "Thread", Thread)
    monkeypatch.setattr(sys, "argv", ["m", "one", "two"])
    return begun


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda *words: list(words), {"result": ["one", "two"]}),
        (lambda *_: None, {"result": None}),
    ],
)
def test_the_other_side_works_with_the_words_and_tells(
    work: Callable[..., Any], said: object, starter: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sys.stdout.write("a library's, without an end")
    answer(work)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == said
    assert starter[0]["args"] == (os.getppid(),)
    assert starter[0]["daemon"] is True  # it keeps nobody from ending
    assert starter[1] == "start"


def test_the_other_side_tells_an_error_of_ours_and_dies_of_another(
    starter: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(error: Exception) -> Callable[..., Any]:
        def work(*_: str) -> None:
            raise error

        return work

    answer(fail(OptionError("no")))
    assert json.loads(capsys.readouterr().out) == {"kind": "OptionError", "message": "no"}
    with pytest.raises(KeyError):
        answer(fail(KeyError("odd")))
    assert len(starter) == 4


def test_the_other_side_ends_when_its_starter_has(
    starter: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(lambda *_: None)
    parents = [7, 7, 12]  # whoever takes orphans there
    did: list[Any] = []
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0))
    monkeypatch.setattr(isolated_probe.time, "sleep", did.append)
    monkeypatch.setattr(os, "kill", lambda *words: did.append(words))
    starter[0]["target"](7)
    assert did == [0.5, 0.5, (os.getpid(), signal.SIGTERM)]
