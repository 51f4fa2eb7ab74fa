"""Options of the server that are not typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.cli.commands.serve import _SETTINGS
from whisper_hailo.cli.groups import Given
from whisper_hailo.cli.model import ModelOptions
from whisper_hailo.cli.settings import ConfiguredOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.options import Address, LimitOptions, ListenOptions, SafetyOptions
from whisper_hailo.transcription.longform.plan import LongOptions

pytest.importorskip("pydantic_settings", reason="the server extra is not installed")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file with some of each."""
    file = tmp_path / "serve.toml"
    file.write_text(
        'http = "127.0.0.1:9000"\nmax-upload = 25\napi-key = ["one", "two"]\nmodel = "micro"\n'
    )
    return file


def settled(kind: Any, config: Path | None = None, **typed: Any) -> Any:
    return ConfiguredOptions(_SETTINGS, config).settle(Given(kind, typed)).on()


def test_a_file_says_what_is_not_typed(config: Path) -> None:
    assert settled(ListenOptions, config).http == Address("127.0.0.1", 9000)
    assert settled(LimitOptions, config).max_upload_mib == 25
    assert settled(SafetyOptions, config).api_key == ("one", "two")
    assert settled(ModelOptions, config).model == "micro"
    assert settled(LimitOptions, config).queue == LimitOptions().queue


def test_the_environment_goes_before_the_file_and_what_is_typed_before_both(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_SERVE_CONFIG", str(config))
    monkeypatch.setenv("WHISPER_HAILO_SERVE_MAX_UPLOAD", "7")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_API_KEY", "three,four")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_LOG_JSON", "true")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_TRIM_WINDOW", "true")
    assert settled(LimitOptions).max_upload_mib == 7
    assert settled(LimitOptions, max_upload_mib=3).max_upload_mib == 3
    assert settled(SafetyOptions).api_key == ("three", "four")
    assert settled(ListenOptions).log_json
    assert settled(LongOptions).trim_window
    assert settled(ListenOptions).http == Address("127.0.0.1", 9000)
    other = config.with_name("other.toml")
    other.write_text("queue = 3\n")
    assert settled(LimitOptions, other).queue == 3, "the file that is typed, not the other"
    assert settled(ListenOptions, other).http is None


def test_a_variable_is_known_in_small_letters_and_a_list_by_what_is_between_its_commas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("whisper_hailo_serve_api_key", "one,,two,")
    assert settled(SafetyOptions).api_key == ("one", "two")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("maxupload = 3", "maxupload is no option of serve"),
        ('max-upload = "many"', "--max-upload is 'many'"),
        ('http = "here"', "--http is 'here', expected an address and a port"),
        ("http = ", r"cannot be read \(Invalid value"),
        ('task = "translate"', "task is no option of serve"),
        ("api_key = 3", "--api-key is '3': "),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(content)
    with pytest.raises(OptionError, match=told):
        settled(ListenOptions, file)
    with pytest.raises(OptionError, match="cannot be read"):
        settled(ListenOptions, tmp_path / "nowhere.toml")


def test_misspelt_variable_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_SERVE_MAX_UPLAOD", "7")
    assert settled(LimitOptions).max_upload_mib == LimitOptions().max_upload_mib
    assert "WHISPER_HAILO_SERVE_MAX_UPLOAD?" in caplog.text
