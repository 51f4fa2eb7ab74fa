"""Which source is opened for what the command line names: files, pipes and addresses."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.unit.live.sources.listening import heard
from tests.unit.sounds import similarity, tone, write
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.extras import to_add
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.pcm import PcmSource
from whisper_hailo.live.sources.reopened import ReopenedSource
from whisper_hailo.live.sources.select import open_source
from whisper_hailo.live.sources.source import Pace


def test_nothing_is_no_file_and_not_the_current_folder() -> None:
    with pytest.raises(AudioError, match="'' does not exist"), open_source(""):
        pass


def test_a_file_of_speakers_has_more_than_one_channel(tmp_path: Path) -> None:
    path = str(write(tmp_path / "a.wav", tone(16_000, 0.1)))
    with open_source(path) as source:
        assert source.name == path
    with pytest.raises(AudioError, match="1 channel"), open_source(path, split=True):
        pass


def test_an_address_that_gives_sound(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    path = tmp_path / "a.flac"
    soundfile.write(path, tone(44_100, 2.0), 44_100)
    source = NetworkSource(f"file://{path}")
    with source:
        assert source.pace is Pace.ASKED
        audio = np.concatenate([block.audio for block in source.blocks()])
    assert audio.size == pytest.approx(2.0 * SAMPLE_RATE_HZ, abs=50)
    assert similarity(audio, tone(SAMPLE_RATE_HZ, 2.0)) > 0.9


@pytest.mark.parametrize("address", ["rtsp://camera/stream", "http://radio/stream"])
def test_an_address_without_the_library_is_one_line(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match="needs PyAV.*" + re.escape(to_add("media"))):
        NetworkSource(address).open()


def test_an_address_without_an_answer() -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    with pytest.raises(AudioError, match="cannot be opened"), NetworkSource("file:///no/such.mp3"):
        pass


def test_the_command_line_names_exactly_one_source(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give one of"):
        open_source(None)
    with pytest.raises(OptionError, match="give one of"):
        open_source("a.wav", microphone="")
    assert isinstance(open_source(str(tmp_path / "a.wav")), FileSource)
    for source in (open_source("rtsp://camera/1"), open_source(None, microphone="usb")):
        assert isinstance(source, ReopenedSource)
    with pytest.raises(OptionError, match="--rate is 5 Hz"):
        PcmSource(0, 5)


class Stdin:
    """Standard input, as a pipe or as a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        return 0


@pytest.mark.parametrize("stdin", [None, Stdin(terminal=True)])
def test_a_terminal_is_no_pipe(monkeypatch: pytest.MonkeyPatch, stdin: object) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(OptionError, match="standard input is a terminal; pipe raw 16-bit"):
        open_source("-")


def test_a_pipe_goes_on_until_its_listener_has_enough_and_a_file_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(terminal=False))
    pipe = open_source("-", rate_hz=8_000)
    assert isinstance(pipe, PcmSource)
    assert (pipe.endless, pipe.pace) == (True, Pace.AHEAD)
    file = write(tmp_path / "a.wav", tone(SAMPLE_RATE_HZ, 0.1), SAMPLE_RATE_HZ)
    played = open_source(str(file))
    assert (played.endless, played.pace) == (False, Pace.ASKED)
    assert heard(played).size == 1600, "once, where nothing else is asked for"
    assert heard(open_source(str(file), loops=3)).size == 4800
    assert open_source(str(file), real_time=True).pace is Pace.AHEAD
