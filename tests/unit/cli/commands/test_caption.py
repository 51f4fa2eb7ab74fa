"""The `caption` command and its end, with a recognizer of words that a sound spells."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from tests.fakes.caption_command import (
    FIRST,
    LINES,
    SECOND,
    SOUND,
    Endless,
    Made,
    caption,
    made,
    transcribed,
)
from tests.fakes.commands import Asked, given, missing_data
from whisper_hailo.cli.app import run
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.cli.commands import caption as module
from whisper_hailo.core.errors import AudioError, ExitCode, OutputError
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.live.events import Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.outputs.files import EventFile
from whisper_hailo.live.sources.microphone import InputDevice
from whisper_hailo.live.statistics import CaptionStatistics

__all__ = ["made", "transcribed"]

TAKES_TRANSCRIPT = module.CaptionRequest.takes_transcript


@pytest.mark.usefixtures("made")
def test_caption_prints_lines_and_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert caption() == 0
    output = capsys.readouterr()
    assert output.out == LINES
    first, text, *_ = output.err.splitlines()
    assert not missing_data(first, "speller a.wav")
    assert not missing_data(text, "4 English 2")
    assert len(output.err.splitlines()) == 4


def test_caption_options_reach_the_recognizer(made: Made) -> None:
    typed = "--min-silence 0.3 --language de --initial-prompt hello --model base"
    assert caption(f"{typed} | drafts = false") == 0
    ((model, decoding, options, hotwords, _stack),) = made.given
    wanted_options = CaptionOptions(min_silence_s=0.3, drafts=False)
    assert options == replace(wanted_options, min_partial_s=0.0), "nobody reads them"
    assert (model.model, model.moonshine, hotwords) == ("base", None, "")
    wanted: DecodingOptions = decoding.build()
    assert (wanted.language, wanted.prompts.initial_prompt) == ("de", "hello")
    assert made.detectors == [()]


@pytest.mark.usefixtures("made")
def test_caption_quiet_and_verbose_change_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert caption("--quiet") == 0
    output = capsys.readouterr()
    assert (output.out, output.err) == (LINES, "")
    assert caption("--verbose") == 0
    output = capsys.readouterr()
    assert output.out == LINES
    assert "completed at 0.06 s" in output.err
    assert FIRST not in output.err, "what is said is not logged"
    assert "                   full_segments  2\n" in output.err
    assert "          final_latency_s_median  -\n" in output.err


@pytest.mark.usefixtures("made")
def test_caption_json_prints_events_and_statistics(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert caption("--json") == 0
    output = capsys.readouterr()
    events = [json.loads(line) for line in output.out.splitlines()]
    assert [event["text"] for event in events if event["event"] == "completed"] == [
        FIRST,
        SECOND,
    ]
    assert events[-1]["event"] == "statistics"
    assert events[-1]["words"] == 4
    (line,) = output.err.splitlines()
    assert "a.wav" in line
    assert caption("--json --colour") == 2


@pytest.mark.usefixtures("made")
def test_caption_writes_captions_events_and_recording(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert caption("--output a.srt -o a.txt --events e.jsonl --record kept.flac") == 0
    assert capsys.readouterr().out == LINES
    assert Path("a.txt").read_text(encoding="utf-8") == LINES
    assert Path("a.srt").read_text(encoding="utf-8").count("-->") == 2
    events = [json.loads(line) for line in Path("e.jsonl").read_text().splitlines()]
    assert [event["text"] for event in events if event["event"] == "completed"] == [
        FIRST,
        SECOND,
    ]
    kept, rate_hz = soundfile.read("kept.flac", dtype="float32")
    assert rate_hz == 16_000
    np.testing.assert_allclose(kept[: SOUND.size], SOUND, atol=1e-4)


@pytest.mark.parametrize("name", ["a.srt", "a.VTT"])
@pytest.mark.usefixtures("made")
def test_caption_subtitles_follow_max_line_width(name: str) -> None:
    assert caption(f"--output {name} --max-line-width 3") == 0
    assert "w0\nw1\n" in Path(name).read_text(encoding="utf-8")


def test_caption_replace_changes_shown_words(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("list").write_text("w0 => Whisper\nw3 => Hailo\nw2 =>\nw1 => w*\n")
    assert caption("--replace list --output a.txt") == 0
    shown = "Whisper w*\nHailo\n"
    assert capsys.readouterr().out == Path("a.txt").read_text() == shown
    assert made.given[0][3] == "Whisper, Hailo", "masked words are not expected"


@pytest.mark.usefixtures("made")
def test_caption_notifies_service_manager(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,  # a socket's path has 107 bytes
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(f"{folder}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{folder}/notify")
        monkeypatch.setenv("WATCHDOG_USEC", "3")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        manager.setblocking(False)
        monkeypatch.setattr(
            "whisper_hailo.core.process.Supervisor.__init__.__defaults__",
            (dict(os.environ), lambda: 0.0),
        )
        assert caption() == 0
        messages = [manager.recv(200) for _ in range(3)]
    assert messages == [
        b"READY=1\nSTATUS=listening to a.wav",
        b"WATCHDOG=1",
        b"STOPPING=1",
    ]


PLAYED = {"real_time": False}


@pytest.mark.parametrize(
    ("words", "kind", "made_of"),
    [
        (
            "a.wav --real-time",
            "file.FileSource",
            ["a.wav", PLAYED | {"real_time": True}],
        ),
        ("a.wav", "file.FileSource", ["a.wav", PLAYED]),
        ("- --rate 8000", "file.PcmSource", [0, 8000, {}]),
        (
            "rtsp://a.b/c --wait-for-source 9",
            "network.NetworkSource",
            ["rtsp://a.b/c", {}, "patience", 9.0],
        ),
        (
            "--mic default",
            "microphone.MicrophoneSource",
            ["", {}, "patience", None],
        ),
        (
            "--mic 3 --wait-for-source 0",
            "microphone.MicrophoneSource",
            ["3", {}, "patience", 0.0],
        ),
    ],
)
@pytest.mark.usefixtures("made")
def test_caption_source_options_make_the_source(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    kind: str,
    made_of: list[object],
) -> None:
    calls: list[object] = []

    def make(*args: object, **named: object) -> Endless:
        calls.extend([*args, named])
        return Endless()

    def reopened(source: Endless, patience_s: object) -> Endless:
        calls.extend(["patience", patience_s])
        return source

    monkeypatch.setattr(f"whisper_hailo.live.sources.{kind}", make)
    monkeypatch.setattr("whisper_hailo.live.sources.source.ReopenedSource", reopened)
    stdin = SimpleNamespace(isatty=lambda: False, fileno=lambda: 0)
    monkeypatch.setattr(
        "whisper_hailo.cli.caption_options.sys", SimpleNamespace(stdin=stdin)
    )
    monkeypatch.setattr(
        "whisper_hailo.cli.caption_options.require_extra", lambda *_: None
    )
    assert run(["caption", *given(words, tmp_path)]) == 0
    assert calls == made_of


@pytest.mark.parametrize(
    "words",
    ["--mic 3 --rate 8000", "--mic 3 --real-time",
     "- --real-time", "- --wait-for-source 3", "a.wav --wait-for-source 3", "a.wav --rate 8000",
     "rtsp://a.b/c --rate 8000",
     "--mic browser --web --wait-for-source 3"],
)  # fmt: skip
@pytest.mark.usefixtures("made")
def test_caption_option_of_other_source_is_refused(
    words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["caption", *given(words, tmp_path)]) == 2
    last = words.replace("= ", "").split()[
        -2 if words[-1].isdigit() or "split" in words else -1
    ]
    assert last in capsys.readouterr().err


def test_caption_missing_file_is_refused_before_loading(
    made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["caption", "b.wav", "--output", "a.txt"]) == ExitCode.AUDIO
    assert "b.wav" in capsys.readouterr().err
    assert made.detectors == made.given == []
    assert not Path("a.txt").exists()


@pytest.mark.parametrize(
    ("words", "needs"), [("a.wav --web", "starlette"), ("--mic 0", "sounddevice")]
)
@pytest.mark.usefixtures("made")
def test_caption_missing_extra_is_refused_before_loading(
    words: str,
    needs: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("whisper_hailo.core.process.find_spec", lambda _: None)
    assert run(["caption", *words.split()]) == 2
    assert needs in capsys.readouterr().err


def test_caption_releases_freed_memory(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Asked(None)
    monkeypatch.setattr(module, "release_freed_memory", release)
    assert caption() == 0
    assert release.with_ == [()]
    assert len(made.given) == 1


@pytest.mark.usefixtures("made")
def test_caption_list_devices_prints_microphones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    devices = [
        InputDevice(0, "Built in", 2, 44_100, False),
        InputDevice(12, "Desk", 1, 16_000, True),
    ]
    monkeypatch.setattr(
        "whisper_hailo.live.sources.microphone.list_input_devices", lambda: devices
    )
    assert run(["caption", "--list-devices"]) == 0
    assert capsys.readouterr().out == (
        "    0  Built in, 2 channels, 44100 Hz\n*  12  Desk, 1 channels, 16000 Hz\n"
    )


@pytest.mark.usefixtures("made")
def test_caption_colour_shades_words_on_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for words, shaded in (("", False), ("--colour", True), ("--color", True)):
        assert caption(words) == 0
        out = capsys.readouterr().out
        assert ("\x1b[32mw0\x1b[0m" in out) == shaded
        assert out.endswith("w3\x1b[0m\n\r\x1b[K" if shaded else "w3\n\r\x1b[K")


@pytest.mark.parametrize("words", ["-o a.srt", "--events e.jsonl", "--record k.flac"])
@pytest.mark.usefixtures("made")
def test_caption_daily_needs_a_file(words: str) -> None:
    assert caption(f"{words} --daily") == 0
    assert caption("--daily") == 2


@pytest.mark.usefixtures("made")
def test_caption_failing_file_does_not_stop_captions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = EventFile._write_item
    failures = [OutputError("the disk is full")]

    def fail(file: EventFile, event: Event) -> None:
        if failures:
            raise failures.pop()
        write(file, event)

    monkeypatch.setattr(EventFile, "_write_item", fail)
    assert caption("--events e.jsonl") == 0
    output = capsys.readouterr()
    assert output.out == LINES
    assert "the disk is full" in output.err
    events = [json.loads(line) for line in Path("e.jsonl").read_text().splitlines()]
    assert [event["text"] for event in events if event["event"] == "completed"] == [
        FIRST,
        SECOND,
    ]


@pytest.mark.usefixtures("made")
def test_caption_behind_real_time_warns_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(statistics: CaptionStatistics, *_: object) -> None:
        statistics.behind_s = 9.0

    monkeypatch.setattr(CaptionStatistics, "note_completed", late)
    assert caption() == 0
    assert capsys.readouterr().err.count("9 s") == 1


@pytest.mark.parametrize(
    ("typed", "is_transcript"),
    [
        ("", True),
        ("--output a.srt --model base --language de", True),
        ("--real-time", False),
        ("--events e.jsonl", False),
        ("--json", False),
        ("--record a.flac", False),
        ("--task translate", False),
        ("--min-silence 0.3", False),
    ],
)
def test_caption_of_file_alone_is_its_transcript(
    typed: str,
    is_transcript: bool,
    made: Made,
    transcribed: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.CaptionRequest, "takes_transcript", TAKES_TRANSCRIPT)
    assert caption(typed) == 0
    assert transcribed == (["a.wav"] if is_transcript else [])
    assert len(made.given) == (0 if is_transcript else 1)


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
