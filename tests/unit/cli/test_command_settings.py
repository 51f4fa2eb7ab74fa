"""Options that are not typed: a TOML file and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from whisper_hailo.cli.app import PROGRAM_GROUP, load_command
from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.options import Address


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration file with options of each type."""
    file = tmp_path / "serve.toml"
    file.write_text(
        'http = "127.0.0.1:9000"\nmax-upload = 25\napi-key = ["one", "two"]\nmodel = "micro"\n'
        "temperature = 1\nno-speech-threshold = 0.5\n"
    )
    return file


def settled(*words: str | Path, command: str = "serve") -> dict[str, Any]:
    """Options of a command after typed words, environment and file."""
    found = load_command(command)
    assert found is not None
    with PROGRAM_GROUP.make_context("whisper-hailo", [command]) as program:
        return found.make_context(
            command, [str(word) for word in words], program
        ).params


def test_config_file_gives_untyped_options(config: Path) -> None:
    options = settled("--config", config)
    assert options["http"] == Address("127.0.0.1", 9000)
    assert options["max_upload"] == 25
    assert options["api_key"] == ("one", "two")
    assert options["model"] == ("micro",)
    assert options["temperature"] == 1.0
    assert options["no_speech_threshold"] == 0.5
    assert options["queue"] is None


def test_settings_typed_beats_environment_beats_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_SERVE_CONFIG", str(config))
    monkeypatch.setenv("WHISPER_HAILO_SERVE_MAX_UPLOAD", "7")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_API_KEY", "three,four")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_LOG_TEXT", "true")
    monkeypatch.setenv("WHISPER_HAILO_SERVE_ALIAS", "")
    options = settled()
    assert options["max_upload"] == 7
    assert options["api_key"] == ("three", "four")
    assert options["log_text"] is True
    assert options["http"] == Address("127.0.0.1", 9000)
    assert not options["alias"]
    assert settled("--max-upload", "3")["max_upload"] == 3
    other = config.with_name("other.toml")
    other.write_text("queue = 3\n")
    assert settled("--config", other)["queue"] == 3, (
        "the file that is typed, not the other"
    )
    assert settled("--config", other)["http"] is None


@pytest.mark.parametrize("command", ["transcribe", "caption", "batch"])
def test_config_file_works_for_transcribing_commands(
    command: str, tmp_path: Path
) -> None:
    file = tmp_path / "file.toml"
    file.write_text(
        'hotwords = "Hailo"\nsuppress_blank = false\nmargin-s = 2\nsuppress-tokens = [5, 6]\n'
    )
    options = settled("--config", file, "a.wav", command=command)
    assert (options["hotwords"], options["suppress_blank"]) == ("Hailo", False)
    assert options["margin_s"] == 2.0
    assert options["suppress_tokens"] == (5, 6)


def test_config_file_single_text_becomes_list(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text('alias = "house"\n')
    assert settled("--config", file)["alias"] == ("house",)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        ("maxupload = 3", "max-upload"),
        ('max-upload = "many"', "--max-upload .*'many'"),
        ("max-upload = 2.5", r"--max-upload .*2\.5"),
        ("model = true", "--model .*True"),
        ('http = "here"', "--http .*'here'"),
        ("http = ", "cannot be read"),
        ('task = "translate"', "task .*serve"),
    ],
)
def test_config_file_with_wrong_entry_is_refused(
    tmp_path: Path, content: str, pattern: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(content)
    with pytest.raises(OptionError, match=pattern):
        settled("--config", file)
    with pytest.raises(OptionError, match=r"nowhere\.toml"):
        settled("--config", tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    "name", ["WHISPER_HAILO_SERVE_MAX_UPLAOD", "whisper_hailo_serve_max_upload"]
)
def test_environment_misspelt_variable_warns(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "7")
    assert settled()["max_upload"] is None
    assert "WHISPER_HAILO_SERVE_MAX_UPLOAD?" in caplog.text


@pytest.mark.parametrize("key", ["config", "help-all"])
def test_config_file_with_command_line_only_key_is_refused(
    key: str, tmp_path: Path
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f"{key} = 'x'\n")
    with pytest.raises(OptionError, match=f"{key} .*serve"):
        settled("--config", file)


def test_environment_version_variable_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_VERSION", "1.0")
    assert settled()["max_upload"] is None
