"""Files of a small model hub, and errors of the hub."""

from __future__ import annotations

import errno
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

from tests.fakes.file_server import silent
from tests.fakes.model_hub import COMMIT, serving, use_hub
from whisper_hailo.checkpoint import hub
from whisper_hailo.checkpoint.hub import fetch_files
from whisper_hailo.core.errors import (
    HubError,
    HubUnreachableError,
    ModelError,
    OptionError,
)


def test_parse_name_of_short_names_and_hub_ids() -> None:
    assert hub.parse_name("tiny").hub_id == "openai/whisper-tiny"
    assert hub.parse_name("base.en").hub_id == "openai/whisper-base.en"
    assert hub.parse_name("turbo").hub_id == "openai/whisper-large-v3-turbo"
    fine_tuned = hub.parse_name("someone/whisper-small-sv")
    assert (fine_tuned.hub_id, fine_tuned.label) == (
        "someone/whisper-small-sv",
        "small-sv",
    )


def test_parse_name_of_bundled_model_is_in_the_package() -> None:
    assert hub.parse_name("micro").path == hub.ASSETS / "micro"


def test_parse_name_prefers_names_over_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    assert hub.parse_name("tiny").path is None
    assert hub.parse_name("./tiny").path == Path("tiny")
    (tmp_path / "org" / "model").mkdir(parents=True)
    assert hub.parse_name("org/model").path == Path("org/model")


@pytest.mark.parametrize("name", ["/no/such/place", "./x", "../x", "~/x", "here/x"])
def test_parse_name_of_a_missing_path_says_so(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="x"):
        hub.parse_name(name)
    assert hub.parse_name("elsewhere/x").hub_id == "elsewhere/x"


@pytest.mark.parametrize("name", ["tiney", "a/b/c", ""])
def test_parse_name_of_unknown_lists_alternatives(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(ModelError, match="micro"):
        hub.parse_name(name)


def test_parse_name_of_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.touch()
    with pytest.raises(ModelError, match="model"):
        hub.parse_name(str(file))


@pytest.mark.parametrize(
    ("typed", "meant"), [("mirco", "micro"), ("Tiny", "tiny"), ("larg-v3", "large-v3")]
)
def test_parse_name_of_misspelling_suggests_a_name(typed: str, meant: str) -> None:
    with pytest.raises(ModelError, match=rf"{typed} .*{meant}"):
        hub.parse_name(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "models/ggml-base.en.bin",
        "ggml-base.en-q5_1.bin",
        "~/base.en.pt",
        "base.en.gguf",
    ],
)
def test_parse_name_of_foreign_file_gives_our_name(typed: str) -> None:
    with pytest.raises(ModelError, match=r"base\.en"):
        hub.parse_name(typed)


@pytest.mark.parametrize("name", ["small.pt", "ggml-base-q5_1.bin", "mine.pth"])
def test_parse_name_of_a_file_is_the_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    parsed = hub.parse_name(str(tmp_path / name))
    assert parsed.path == tmp_path / name
    assert parsed.label == Path(name).stem


def test_fetch_tokenizer_is_in_the_checkpoint_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path))
    for name, multilingual in (("base", True), ("tiny.en", False)):
        folder = hub.checkpoint_folder(f"openai/whisper-{name}")
        folder.mkdir(parents=True)
        path = hub.fetch_tokenizer(multilingual=multilingual)
        assert path == folder / "tokenizer.json"


def test_parse_name_accepts_directory_named_like_a_file(tmp_path: Path) -> None:
    directory = tmp_path / "ggml-base.en.bin"
    directory.mkdir()
    assert hub.parse_name(str(directory)).path == directory


def test_parse_name_accepts_hub_id_with_suffix() -> None:
    assert hub.parse_name("org/own.bin").hub_id == "org/own.bin"


def test_locate_checkpoint_refuses_revision_of_directory(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--revision"):
        hub.locate_checkpoint(hub.CheckpointName(label="x", path=tmp_path), "main")


def test_locate_checkpoint_offline_names_alternatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*_: object, **__: object) -> str:
        try:
            raise ConnectionError("Name or service not known")
        except ConnectionError as error:
            raise RuntimeError("retries exhausted") from error

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    with pytest.raises(HubError) as caught:
        hub.locate_checkpoint(hub.parse_name("openai/whisper-small"), None)
    message = str(caught.value)
    assert "openai/whisper-small" in message
    assert "Name or service not known" in message
    assert "--model base" in message
    assert "--model micro" in message


@pytest.fixture
def at_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the hub be at an address, with an empty cache."""
    return lambda address: use_hub(address, tmp_path, monkeypatch)


def test_locate_checkpoint_fetches_data_and_notes_commit(
    at_hub: Callable[[str], None],
) -> None:
    data = {"config.json": b"{}", "model.safetensors": bytes(200_000)}
    others = {"pytorch_model.bin": b"pickle", "run.py": b"code", "README.md": b"text"}
    with serving("org/name", {**data, **others}) as (address, requests):
        at_hub(address)
        path, source = hub.locate_checkpoint(hub.parse_name("org/name"), "v1")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == data
    assert (source.name, source.revision) == ("org/name", COMMIT)
    assert path.name == COMMIT
    assert not [name for name in others if any(name in request for request in requests)]


def test_is_file_cached_after_fetch_file(at_hub: Callable[[str], None]) -> None:
    with serving("org/name", {"model.onnx": b"graph"}) as (address, _):
        at_hub(address)
        assert not hub.is_file_cached("org/name", "model.onnx", COMMIT)
        hub.fetch_file("org/name", "model.onnx", COMMIT, "or do without")
    assert hub.is_file_cached("org/name", "model.onnx", COMMIT)
    assert not hub.is_file_cached("org/name", "other.onnx", COMMIT)


def test_locate_checkpoint_without_safetensors_fetches_torch(
    at_hub: Callable[[str], None],
) -> None:
    data = {"config.json": b"{}", "pytorch_model.bin": bytes(200_000)}
    with serving("org/name", {**data, "run.py": b"code"}) as (address, _):
        at_hub(address)
        path, _ = hub.locate_checkpoint(hub.parse_name("org/name"), "v1")
    assert {file.name: file.read_bytes() for file in path.iterdir()} == data


def test_locate_checkpoint_notes_commits_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that was filled by hand may call its snapshots anything."""
    for folder, expected in ((COMMIT, COMMIT), ("main", None), (COMMIT[1:], None)):
        monkeypatch.setattr(hub, "fetch_files", lambda *_: tmp_path / folder)  # noqa: B023
        _, source = hub.locate_checkpoint(hub.parse_name("org/name"), None)
        assert (source.name, source.revision) == ("org/name", expected)


@pytest.mark.parametrize("revision", ["", "a b", "x;y"])
def test_locate_checkpoint_refuses_malformed_revision(revision: str) -> None:
    with pytest.raises(OptionError, match="--revision"):
        hub.locate_checkpoint(hub.parse_name("tiny"), revision)


def test_parse_name_of_pipe_is_refused_unread(tmp_path: Path) -> None:
    pipe = tmp_path / "model.pt"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="model"):
        hub.parse_name(str(pipe))


FILES = {"config.json": b"{}", "model.safetensors": bytes(200_000)}
WORKER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
from whisper_hailo.checkpoint.hub import fetch_files
fetch_files("org/name", "")
"""


def fetch(revision: str | None = None) -> Path:
    return fetch_files("org/name", "do this", revision)


def halves(home: Path) -> list[Path]:
    return list(home.rglob("*.incomplete"))


def failing(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_fetch_files_uses_the_cache_when_hub_is_gone(
    revision: str | None, at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("org/name", {**FILES, "run.py": b"code"}) as (address, requests):
        at_hub(address)
        path = fetch(revision)
    assert path.name == COMMIT
    assert {file.name: file.read_bytes() for file in path.iterdir()} == FILES
    assert (
        f"GET /api/models/org/name{f'/revision/{revision}' if revision else ''}"
        in requests
    )
    assert not [line for line in requests if "run.py" in line]
    assert fetch(revision) == path  # the hub does not answer any more
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert fetch(revision) == path


def test_fetch_files_offline_asks_nothing(
    at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("org/name", FILES) as (address, requests):
        at_hub(address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(HubError, match="HF_HUB_OFFLINE") as caught:
            fetch()
    assert requests == []
    assert type(caught.value) is HubError


def test_fetch_files_from_silent_hub_times_out(
    at_hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT", 0.1)
    with silent() as address:
        at_hub(address)
        with pytest.raises(HubUnreachableError, match="org/name"):
            fetch()


def test_fetch_files_refused_connection_is_unreachable(
    at_hub: Callable[[str], None],
) -> None:
    at_hub("http://127.0.0.1:9")
    with pytest.raises(HubUnreachableError, match=os.strerror(errno.ECONNREFUSED)):
        fetch()


def test_fetch_files_without_checkpoint_is_refused(
    at_hub: Callable[[str], None],
) -> None:
    with serving("org/name", {"run.py": b"code"}) as (address, _):
        at_hub(address)
        with pytest.raises(HubError, match="org/name"):
            fetch()


def test_fetch_files_broken_download_leaves_no_half(
    at_hub: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with serving("org/name", FILES, breaks_off=True) as (address, _):
        at_hub(address)
        with pytest.raises(HubError, match="org/name"):
            fetch()
    assert not halves(tmp_path)
    with pytest.raises(HubUnreachableError):  # what came of it is no snapshot
        fetch()
    with serving("org/name", FILES) as (address, _):
        at_hub(address)
        assert (fetch() / "model.safetensors").read_bytes() == FILES[
            "model.safetensors"
        ]


def test_fetch_files_ends_at_once_on_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving("org/name", {"model.safetensors": bytes(10**7)}, pause_s=0.05) as (
        address,
        _,
    ):
        use_hub(address, tmp_path, monkeypatch)
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_CACHE": str(tmp_path / "hub"),
        }
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
    """Error named like an HTTP library's."""


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
def test_is_unreachable_for_failed_connections_only(
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
def test_find_cause_is_one_short_line(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = RuntimeError("outer")
    outer.__cause__ = error
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", failing(outer))
    with pytest.raises(HubError) as caught:
        fetch()
    assert f"({reason})" in str(caught.value)
    assert "\n" not in str(caught.value)
