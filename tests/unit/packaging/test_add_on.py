"""The add-on for Home Assistant: its configuration, its options, and its announcement."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from runpy import run_path
from typing import Any

import jsonschema
import pytest
import yaml

from whisper_hailo.cli.app import run
from whisper_hailo.core.version import __version__

ADD_ON = Path(__file__).parents[3] / "packaging" / "home-assistant" / "whisper_hailo"
PROGRAM = run_path(str(ADD_ON / "run.py"))

ELEMENT = (
    r"^(bool|email|url|port|str|password|int|float|device|match\(.*\)|list\(.+\))"
    r"(\(\d*,\d*\))?\??$"
)
CONFIG = {
    "type": "object",
    "required": ["name", "version", "slug", "description", "arch"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "slug": {"type": "string", "pattern": r"^[-_.A-Za-z0-9]+$"},
        "description": {"type": "string"},
        "arch": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["aarch64", "amd64"]},
        },
        "startup": {
            "enum": ["initialize", "system", "services", "application", "once"]
        },
        "homeassistant": {"type": "string"},
        "homeassistant_api": {"type": "boolean"},
        "discovery": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "object",
            "patternProperties": {
                r"^\d+/(tcp|udp)$": {
                    "type": ["integer", "null"],
                    "minimum": 1,
                    "maximum": 65535,
                }
            },
            "additionalProperties": False,
        },
        "ports_description": {
            "type": "object",
            "additionalProperties": {"type": "string"},
        },
        "watchdog": {
            "pattern": r"^(https?|\[PROTO:\w+\]|tcp)://\[HOST\]:(\[PORT:\d+\]|\d+).*$"
        },
        "devices": {
            "type": "array",
            "items": {"type": "string", "pattern": "^/dev/[^:]+$"},
        },
        "backup_exclude": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object"},
        "schema": {"additionalProperties": {"type": "string", "pattern": ELEMENT}},
    },
}
"""The keys of https://developers.home-assistant.io/docs/add-ons/configuration in use here."""


def read_yaml(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ADD_ON / name).read_text(encoding="utf-8"))
    return found


def test_add_on_configuration_matches_the_supervisor_s_schema() -> None:
    config = read_yaml("config.yaml")
    jsonschema.validate(config, CONFIG)
    assert config["version"] == __version__
    required = {
        name for name, kind in config["schema"].items() if not kind.endswith("?")
    }
    assert config["options"].keys() == required
    assert config["ports"].keys() == config["ports_description"].keys()


def test_add_on_image_has_its_version_per_architecture() -> None:
    config = read_yaml("config.yaml")
    images = read_yaml("build.yaml")["build_from"]
    assert sorted(images) == sorted(config["arch"])
    assert {image.rpartition(":")[2] for image in images.values()} == {__version__}


@pytest.mark.parametrize("language", ["en", "de"])
def test_add_on_translations_name_options_and_ports(language: str) -> None:
    config = read_yaml("config.yaml")
    translation = read_yaml(f"translations/{language}.yaml")
    assert translation["configuration"].keys() == config["schema"].keys()
    assert all(
        entry.keys() == {"name", "description"}
        for entry in translation["configuration"].values()
    )
    assert translation["network"].keys() == config["ports"].keys()


def test_add_on_options_become_flags_of_serve(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    config = read_yaml("config.yaml")
    options = (
        dict.fromkeys(config["schema"], "1") | config["options"] | {"log_text": True}
    )
    token_file = tmp_path / "token"
    token_file.write_text("secret")
    # Globals of the program's functions.
    monkeypatch.setitem(PROGRAM["words"].__globals__, "TOKEN_FILE", token_file)
    program, *words = PROGRAM["words"](options)
    assert program == "whisper-hailo"
    assert run([*words, "--config", "/no/such/file.toml"]) == 2
    # The words before it are parsed.
    assert "/no/such/file.toml" in capsys.readouterr().err
    assert words[-1] == "--log-text"
    assert str(token_file) in words
    without = {"hotwords": "", "log_text": False, "expect_names": False}
    assert not {"--hotwords", "--home-assistant"} & set(PROGRAM["words"](without))


def test_add_on_announces_the_listening_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUPERVISOR_TOKEN", "secret")
    requests: list[tuple[str | None, Any]] = []

    class Supervisor(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.headers["Authorization"], json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    supervisor = HTTPServer(("127.0.0.1", 0), Supervisor)
    with supervisor, socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=supervisor.handle_request)
        answering.start()
        port = server.getsockname()[1]
        PROGRAM["announce"](
            port, f"http://127.0.0.1:{supervisor.server_port}/discovery"
        )
        answering.join()
    uri = f"tcp://{socket.gethostname()}:{port}"
    discovery = {"service": "wyoming", "config": {"uri": uri}}
    assert requests == [("Bearer secret", discovery)]
