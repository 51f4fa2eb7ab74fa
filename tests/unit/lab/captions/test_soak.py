"""The soak of the command: what it says where it cannot begin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whisper_hailo.core.errors import DeviceError
from whisper_hailo_lab.captions.soak.room import SoundServer
from whisper_hailo_lab.captions.soak.service import Service


def program(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose program is a shell script."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))
    return Service("micro", folder, {}, 1)


def test_a_program_that_ends_at_once_is_told_by_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo converting >&2; echo 'whisper-hailo: no PortAudio here' >&2; exit 6"
    service = program(tmp_path, script, monkeypatch)
    with pytest.raises(DeviceError, match=r"its code is 6: whisper-hailo: no PortAudio here$"):
        service.open()


def test_a_program_that_ends_without_a_word_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="its code is 3: it said nothing"):
        program(tmp_path, "exit 3", monkeypatch).open()


def test_a_program_that_listens_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo micro, listening to default >&2; exec sleep 1000"
    with program(tmp_path, script, monkeypatch) as service:
        assert service.n_starts == 1
        assert service.process.poll() is None


def test_all_that_the_sound_server_needs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    packages = "pulseaudio pulseaudio-utils libportaudio2 libasound2-plugins"
    with pytest.raises(DeviceError, match=f"sudo apt install {packages}$"):
        SoundServer(tmp_path).open()
