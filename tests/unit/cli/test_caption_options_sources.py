"""Sources of captions by the command line: files, pipes and addresses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.fakes.sounds import similarity, tone, write
from tests.fakes.source_audio import heard
from whisper_hailo.cli.caption_options import SourceOptions
from whisper_hailo.core.errors import AudioError, DeviceError, OptionError
from whisper_hailo.core.process import install_command
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.live.sources.file import FileSource, PcmSource
from whisper_hailo.live.sources.network import NetworkSource
from whisper_hailo.live.sources.source import Block, Interruption, Pace, ReopenedSource


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
