"""Options of captions: sources, files, and the recognizer."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests import moonshine_stand_in
from tests.fakes.live_sources import heard
from tests.fakes.sounds import similarity, tone, write
from whisper_hailo.backends.options import ChipPriority
from whisper_hailo.cli.caption_options import (
    CaptionModel,
    ShowOptions,
    SourceOptions,
    open_recognizer,
    refuse_whisper_options,
)
from whisper_hailo.core.errors import AudioError, DeviceError, OptionError
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.live.events import CaptionWord, Completed
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.outputs.files import CUES, CaptionFile, EventFile
from whisper_hailo.live.sources.file import FileSource, PcmSource
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.source import Block, Interruption, Pace, ReopenedSource
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.partials import PartialBuffer

SEGMENT = Completed(
    segment_id=0,
    start_s=0.0,
    end_s=1.25,
    words=(CaptionWord(" One", 0.1), CaptionWord(" two")),
    reason="silence",
    heard_s=1.5,
    at_s=0.3,
)


@dataclass
class Transcriber:
    """A stand-in for the transcriber that records its calls.

    Attributes:
        takes: whether its decoder accepts hotwords.
    """

    takes: bool = True
    reasons: tuple[str, ...] = ("encoder a: why", "decoder b: because")
    is_open: bool = False
    heard: list[tuple[DecodingOptions, dict[str, Any]]] = field(default_factory=list)
    priorities: list[ChipPriority] = field(default_factory=list)
    default_anti_repetition = PRESETS["conservative"]
    content_s = 9.0

    def __enter__(self) -> Transcriber:
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def check(self, options: DecodingOptions, long: LongOptions | None = None) -> None:
        del long
        if options.prompts.hotwords and not self.takes:
            raise OptionError("this decoder takes no hotwords")

    def transcribe_running(
        self, _buffer: PartialBuffer, options: DecodingOptions, **named: Any
    ) -> BufferText:
        assert self.is_open
        self.heard.append((options, named))
        return BufferText(())


@pytest.fixture
def transcriber(monkeypatch: pytest.MonkeyPatch) -> Transcriber:
    found = Transcriber()

    def make(_self: CaptionModel, priority: ChipPriority) -> Transcriber:
        found.priorities.append(priority)
        return found

    monkeypatch.setattr(CaptionModel, "transcriber", make)
    return found


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as resources:
        yield resources


def given(hotwords: str | None = None, **typed: Any) -> PartialOptions[DecodingOptions]:
    prompts = {} if hotwords is None else {"hotwords": hotwords}
    return PartialOptions(
        DecodingOptions, typed, {"prompts": PartialOptions(PromptOptions, prompts)}
    )


def test_open_recognizer_warms_up_and_closes_at_end(
    transcriber: Transcriber,
    stack: contextlib.ExitStack,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = CaptionOptions()
    with caplog.at_level(logging.DEBUG, "whisper_hailo"):
        open_recognizer(CaptionModel(), given(language="de"), options, "", stack)
    assert transcriber.priorities == [ChipPriority.LIVE], (
        "live captions go before files"
    )
    assert transcriber.is_open
    assert transcriber.heard
    heard, _ = transcriber.heard[0]
    assert (heard.language, heard.anti_repetition, heard.limits.max_per_second) == (
        "de", PRESETS["conservative"], 20.0,
    )  # fmt: skip
    assert caplog.messages == ["encoder a: why", "decoder b: because"]
    stack.close()
    assert not transcriber.is_open


@pytest.mark.parametrize(
    ("typed", "shown", "takes", "expected"),
    [
        (None, "", True, None),
        ("Hailo", "", True, "Hailo"),
        (None, "Whisper", True, "Whisper"),
        ("Hailo", "Whisper", True, "Hailo, Whisper"),
        (None, "Whisper", False, None),
    ],
)
def test_open_recognizer_replacements_become_hotwords(
    *, transcriber: Transcriber, stack: contextlib.ExitStack, caplog: pytest.LogCaptureFixture,
    typed: str | None, shown: str, takes: bool, expected: str | None,
) -> None:  # fmt: skip
    transcriber.takes = takes
    partial = given(typed, language="de")
    open_recognizer(CaptionModel(), partial, CaptionOptions(), shown, stack)
    heard, _ = transcriber.heard[0]
    assert heard.prompts.hotwords == expected
    assert heard.language == "de"
    assert ("--replace" in caplog.text) is not takes


@pytest.mark.parametrize(("longest_s", "content_s"), [(None, 9.0), (20.0, 20.0)])
def test_open_recognizer_moonshine_transcribes(
    monkeypatch: pytest.MonkeyPatch, stack: contextlib.ExitStack, longest_s: float | None,
    content_s: float, tmp_path: Path,
) -> None:  # fmt: skip
    moonshine_stand_in.install(monkeypatch, tmp_path)
    model = CaptionModel(moonshine="tiny")
    options = CaptionOptions(max_segment_s=longest_s)
    recognizer = open_recognizer(model, given(), options, "", stack)
    assert (recognizer.name, recognizer.content_s) == ("Moonshine tiny", content_s)
    assert (
        recognizer.transcribe(PartialBuffer(np.zeros(3200, np.float32), Draft())).text
        == "t0 t1"
    )


@pytest.mark.parametrize(
    ("typed", "hotwords", "named"),
    [({"language": "de"}, None, "--language"), ({"max_new_tokens": 9}, None, "--max-new-tokens"),
     ({}, "Hailo", "--hotwords")],
)  # fmt: skip
def test_refuse_whisper_options_names_the_option(
    typed: dict[str, Any], hotwords: str | None, named: str
) -> None:
    captions = PartialOptions(CaptionOptions, {"min_silence_s": 1.0})
    refuse_whisper_options(
        given(), PartialOptions(CaptionModel, {"moonshine": "tiny"}), captions
    )
    with pytest.raises(OptionError, match=named):
        refuse_whisper_options(given(hotwords, **typed), captions)


def files(
    audio: str | None,
    events: Path | None,
    outputs: tuple[Path, ...],
    layout: Layout = CUES,
    **how: bool,
) -> list[EventFile | CaptionFile]:
    return ShowOptions(events=events, output=outputs, **how).make_files(audio, layout)[
        0
    ]


def recording(folder: Path) -> Path:
    path = folder / "rec.flac"
    path.write_bytes(b"fLaC" + bytes(100))
    return path


def test_make_files_refuses_the_input(tmp_path: Path) -> None:
    path = recording(tmp_path)
    other = tmp_path / "rec.srt"
    other.hardlink_to(path)
    named = ((path, ()), (None, (other,)), (path, (tmp_path / "talk.srt",)))
    for events, outputs in named:
        with pytest.raises(OptionError, match="rec"):
            files(str(path), events, outputs)
    assert path.stat().st_size == 104
    (tmp_path / "talk.srt").touch()
    assert len(files(str(path), tmp_path / "e.jsonl", (tmp_path / "talk.srt",))) == 2


def test_make_files_refuses_file_of_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recording(tmp_path)
    with path.open() as opened:
        monkeypatch.setattr("sys.stdin", opened)
        with pytest.raises(OptionError, match="rec"):
            files("-", path, ())


def test_make_files_refuses_one_name_twice(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OptionError, match=r"--events .*--output .*a\.txt"):
        files(None, tmp_path / "link" / "a.txt", (tmp_path / "a.txt",))
    with pytest.raises(OptionError, match=r"--events .*--output .*a\.srt"):
        files(None, None, (tmp_path / "a.srt", tmp_path / "a.vtt", tmp_path / "a.srt"))


def test_make_files_makes_each_output(tmp_path: Path) -> None:
    names = ("a.srt", "a.vtt", "b.txt")
    made = files(None, None, tuple(tmp_path / name for name in names))
    assert [file.name for file in made] == [str(tmp_path / name) for name in names]


def test_make_files_layout_and_daily_hold_for_all(tmp_path: Path) -> None:
    """A line has no room for two words."""
    names = ["e.jsonl", "a.srt", "a.VTT"]
    events, *outputs = (tmp_path / name for name in names)
    layout = Layout(max_line_width=5, max_line_count=1, cues="segments")
    for file in files(None, events, tuple(outputs), layout, daily=True):
        with file:
            file.put(SEGMENT)
    today = date.today().isoformat()
    assert all((tmp_path / name.replace(".", f".{today}.")).exists() for name in names)
    lines = (tmp_path / f"a.{today}.srt").read_text().splitlines()
    assert [line for line in lines if line.isalpha()] == ["One", "two"]


def test_make_source_empty_name_is_refused() -> None:
    with (
        pytest.raises(AudioError, match="''"),
        SourceOptions().make_source(""),
    ):
        pass


def test_network_source_gives_resampled_audio(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(44_100, 2.0), 44_100)
    source = NetworkSource(f"file://{path}")
    with source:
        assert source.pace is Pace.PULL
        audio = np.concatenate([block.audio for block in source.blocks()])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9


@pytest.mark.parametrize("address", ["rtsp://camera/stream", "http://radio/stream"])
def test_network_source_without_pyav_names_extra(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match=re.escape(install_command("media"))):
        NetworkSource(address).open()


def test_network_source_missing_file_is_refused() -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    with (
        pytest.raises(AudioError, match=r"such\.mp3"),
        NetworkSource("file:///no/such.mp3"),
    ):
        pass


def test_make_source_needs_exactly_one_source(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--mic"):
        SourceOptions().make_source(None)
    with pytest.raises(OptionError, match="--mic"):
        SourceOptions(mic="default").make_source("a.wav")
    assert isinstance(SourceOptions().make_source(str(tmp_path / "a.wav")), FileSource)
    for source in (
        SourceOptions().make_source("rtsp://camera/1"),
        SourceOptions(mic="usb").make_source(None),
    ):
        assert isinstance(source, ReopenedSource)
    with pytest.raises(OptionError, match=r"--rate .*5 Hz"):
        PcmSource(0, 5)


class Stdin:
    """Standard input, as a pipe or as a terminal."""

    def __init__(self, *, terminal: bool, descriptor: int = 0) -> None:
        self._terminal = terminal
        self._descriptor = descriptor

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return self._descriptor


@pytest.mark.parametrize("stdin", [None, Stdin(terminal=True)])
def test_make_source_terminal_as_pipe_is_refused(
    monkeypatch: pytest.MonkeyPatch, stdin: object
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(OptionError, match="terminal"):
        SourceOptions().make_source("-")


def test_make_source_pipe_is_endless_file_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(terminal=False))
    pipe = SourceOptions(rate=8_000).make_source("-")
    assert isinstance(pipe, PcmSource)
    assert (pipe.endless, pipe.pace) == (True, Pace.BUFFERED)
    file = write(tmp_path / "a.wav", tone(SAMPLE_RATE_HZ, 0.1), SAMPLE_RATE_HZ)
    played = SourceOptions().make_source(str(file))
    assert (played.endless, played.pace) == (False, Pace.PULL)
    assert heard(played).size == 1600, "once, where nothing else is asked for"
    assert SourceOptions(real_time=True).make_source(str(file)).pace is Pace.BUFFERED


def test_make_source_pcm_has_given_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", Stdin(terminal=False, descriptor=reading))
    os.write(writing, bytes(8_000))
    os.close(writing)
    with os.fdopen(reading):
        assert heard(SourceOptions(rate=8_000).make_source("-")).size == pytest.approx(
            8_000, abs=2
        )


class Gone(Closing):
    """A microphone, or an address, from which nothing ever comes."""

    endless = True
    pace = Pace.PULL
    name = "gone"

    def __init__(self, *_: str, **__: bool) -> None: ...

    def blocks(self) -> Iterator[Block]:
        raise DeviceError("it is gone")
        yield

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("mic", "audio"), [(None, "rtsp://camera/1"), ("default", None)]
)
def test_make_source_wait_0_fails_at_once(
    mic: str | None, audio: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo.live.sources.microphone.MicrophoneSource", Gone)
    monkeypatch.setattr("whisper_hailo.live.sources.network.NetworkSource", Gone)
    impatient = SourceOptions(mic=mic, wait_for_source=0.0).make_source(audio)
    with impatient as source, pytest.raises(DeviceError, match="gone"):
        next(source.blocks())
    with SourceOptions(mic=mic).make_source(audio) as source:
        assert next(source.blocks()).interruption == Interruption("it is gone")
