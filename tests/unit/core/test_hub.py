"""Files of a small model hub, and what becomes of its errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import huggingface_hub
import pytest

from tests.silent import silent
from tests.unit.checkpoint.small_hub import COMMIT, serving, use_hub
from whisper_hailo.checkpoint.hub import fetch_files
from whisper_hailo.core.errors import HubError, HubUnreachableError

FILES = {"config.json": b"{}", "model.safetensors": bytes(200_000)}
PATTERNS = ("*.json", "*.safetensors")
WORKER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
from whisper_hailo.checkpoint.hub import fetch_files
fetch_files("org/name", ["*"], "")
"""


@pytest.fixture
def at_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the hub be at an address, with an empty cache."""
    return lambda address: use_hub(address, tmp_path, monkeypatch)


def fetch(revision: str | None = None) -> Path:
    return fetch_files("org/name", PATTERNS, "do this", revision)


def halves(home: Path) -> list[Path]:
    return list(home.rglob("*.incomplete"))


def failing(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_fetched_files_stay_when_hub_is_gone(
    revision: str | None, at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("org/name", {**FILES, "run.py": b"code"}) as (address, asked):
        at_hub(address)
        path = fetch(revision)
    assert path.name == COMMIT
    assert {file.name: file.read_bytes() for file in path.iterdir()} == FILES
    assert f"GET /api/models/org/name{f'/revision/{revision}' if revision else ''}" in asked
    assert not [line for line in asked if "run.py" in line]
    assert fetch(revision) == path  # the hub does not answer any more
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch(revision) == path


def test_offline_mode_asks_nothing(
    at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("org/name", FILES) as (address, asked):
        at_hub(address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(HubError, match=r"fetch org/name .*HF_HUB_OFFLINE.*, do this") as caught:
            fetch()
    assert asked == []
    assert type(caught.value) is HubError


def test_silent_hub_times_out(
    at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT", 0.1)
    with silent() as address:
        at_hub(address)
        with pytest.raises(HubUnreachableError, match=r"fetch org/name .*timed out"):
            fetch()


def test_refused_connection_is_unreachable(at_hub: Callable[[str], None]) -> None:
    at_hub("http://127.0.0.1:9")
    with pytest.raises(HubUnreachableError, match="Connection refused"):
        fetch()


def test_model_without_checkpoint_is_refused(at_hub: Callable[[str], None]) -> None:
    with serving("org/name", {"run.py": b"code"}) as (address, _):
        at_hub(address)
        with pytest.raises(HubError, match="it has no file of a checkpoint"):
            fetch()


def test_broken_download_leaves_no_half(
    at_hub: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with serving("org/name", FILES, breaks_off=True) as (address, _):
        at_hub(address)
        with pytest.raises(HubError, match="cannot fetch org/name from the model hub"):
            fetch()
    assert not halves(tmp_path)
    with pytest.raises(HubUnreachableError):  # what came of it is no snapshot
        fetch()
    with serving("org/name", FILES) as (address, _):
        at_hub(address)
        assert (fetch() / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_ctrl_c_ends_download_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving("org/name", {"model.safetensors": bytes(10**7)}, pause_s=0.05) as (address, _):
        use_hub(address, tmp_path, monkeypatch)
        environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_HUB_CACHE": str(tmp_path / "hub")}
        with subprocess.Popen(
            [sys.executable, "-c", WORKER], env=environment, stderr=subprocess.DEVNULL
        ) as process:
            try:
                while not halves(tmp_path):
                    assert process.poll() is None
                    time.sleep(0.05)
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == -signal.SIGINT  # all of it takes 1000 s
            finally:
                process.kill()
    assert not halves(tmp_path)


class TransportError(Exception):
    """Of an HTTP library, by its name."""


class _AnsweredError(ConnectionError):
    response = "503"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (ConnectionRefusedError("refused"), HubUnreachableError),
        (TimeoutError("late"), HubUnreachableError),
        (type("ConnectError", (TransportError,), {})("refused"), HubUnreachableError),
        (_AnsweredError("503"), HubError),
        (type("OfflineModeIsEnabled", (ConnectionError,), {})(), HubError),
        (OSError(28, "No space left on device"), HubError),
        (ValueError("404"), HubError),
    ],
)  # fmt: skip
def test_only_failed_connection_is_unreachable(
    cause: Exception, kind: type[HubError], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = RuntimeError("not in the cache")
    error.__cause__ = cause
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", failing(error))
    with pytest.raises(HubError) as caught:
        fetch()
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("two\n  lines"), "two lines"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("x" * 160), "x" * 160),
        (ValueError("x" * 161), "x" * 157 + "..."),
    ],
)
def test_reason_is_one_short_line(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = error
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", failing(outer))
    with pytest.raises(HubError) as told:
        fetch()
    assert str(told.value) == (
        f"cannot fetch org/name from the model hub ({reason}); check the name and the network, "
        "do this"
    )
