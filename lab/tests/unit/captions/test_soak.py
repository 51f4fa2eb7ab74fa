"""The soak test's diary, and the service that it watches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from whisper_hailo.core.errors import DeviceError
from whisper_hailo_lab.captions.soak.room import Diary, Fault, Played, SoundServer
from whisper_hailo_lab.captions.soak.service import HeldMemory, Service


def test_diary_returns_what_was_added(tmp_path: Path) -> None:
    entries = [
        Fault("killed", 1.0, 2.0),
        Played("a.ogg", "Hello.", 3.0, 4.0, whole=True),
        HeldMemory(10.0, 1, 170.5, 100.25, 18, 6),
    ]
    diary = Diary(tmp_path)
    for entry in entries:
        diary.add(entry)
    assert list(Diary(tmp_path).entries()) == entries


def make_service(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service whose program is a shell script."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))
    return Service("micro", folder, {}, 1)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo converting >&2; echo 'whisper-hailo: no PortAudio here' >&2; exit 6",
            r"code is 6.*PortAudio",
        ),
        ("exit 3", "code is 3"),
    ],
    ids=["with a message", "silently"],
)
def test_service_that_ends_at_once_is_an_error(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match=message):
        make_service(tmp_path, script, monkeypatch).open()


def test_service_opens_when_the_program_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "echo micro, listening to default >&2; exec sleep 1000"
    with make_service(tmp_path, script, monkeypatch) as service:
        assert service.n_starts == 1
        assert service.process.poll() is None


def test_sound_server_names_all_missing_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None)
    packages = "pulseaudio pulseaudio-utils libportaudio2 libasound2-plugins"
    with pytest.raises(DeviceError, match=packages):
        SoundServer(tmp_path).open()
