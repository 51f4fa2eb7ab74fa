"""The end of `caption`: a source that ends or fails, and Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile

from tests.fakes.caption_command import (
    FIRST,
    LINES,
    SOUND,
    Endless,
    Made,
    caption,
    made,
)
from whisper_hailo.cli.app import run
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.core.errors import AudioError, ExitCode

__all__ = ["made"]


def interrupts(*places: int, by: int = signal.SIGINT) -> Callable[[int], None]:
    """Presses Ctrl-C before some pieces of sound; 50 is between the two segments."""

    def press(at: int) -> None:
        if at in places:
            os.kill(os.getpid(), by)

    return press


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("endless", [False, True])
def test_caption_signal_ends_microphone_interrupts_file(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    endless: bool, by: int,
) -> None:  # fmt: skip
    source = Endless(endless=endless, before=interrupts(50, by=by))
    monkeypatch.setattr(SourceOptions, "make_source", lambda *_: source)
    before = signal.getsignal(by)
    assert caption("--output a.txt") == (0 if endless else ExitCode.INTERRUPTED)
    assert signal.getsignal(by) is before
    output = capsys.readouterr()
    assert output.out == f"{FIRST}\n"
    assert "2 words" in output.err
    assert ("whisper-hailo: interrupted" in output.err) != endless
    assert len(made.recognizer.heard) > 0


@pytest.mark.usefixtures("made")
def test_caption_ended_microphone_exits_with_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for endless in (False, True):
        monkeypatch.setattr(
            SourceOptions, "make_source", lambda *_, e=endless: Endless(endless=e)
        )
        assert caption() == 0


@pytest.mark.usefixtures("made")
def test_caption_second_ctrl_c_interrupts_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press(_at: int) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(SourceOptions, "make_source", lambda *_: Endless(before=press))
    assert caption() == ExitCode.INTERRUPTED
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("made")
def test_caption_failing_source_keeps_text_and_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Endless(failure=AudioError("the cable is out"))
    monkeypatch.setattr(SourceOptions, "make_source", lambda *_: source)
    assert caption("--output a.txt") == ExitCode.AUDIO
    output = capsys.readouterr()
    assert output.out == Path("a.txt").read_text() == LINES
    assert "4 words" in output.err
    assert output.err.endswith("whisper-hailo: the cable is out\n")


@pytest.mark.parametrize("name", ["heard.flac", "poem.flac"])
def test_caption_record_refuses_input_and_foreign_file(
    made: Made, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write("heard.flac", SOUND, 16_000)
    Path("poem.flac").write_text("a poem")
    before = Path(name).read_bytes()
    assert run(["caption", "heard.flac", "--record", name]) != 0
    assert name in capsys.readouterr().err
    assert Path(name).read_bytes() == before
    assert made.given == [], "before a model is looked for"
