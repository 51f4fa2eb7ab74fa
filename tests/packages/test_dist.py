"""Wheels and sdist of `make dist`: what is in them, and the wheels in an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
LOCKS = ("base", "server")
PORT = 8391
PATIENCE_S = 300
MOST_MIB = 10
LARGEST_MIB = 20
"""Of one file: the bundled model is the largest."""


def the(suffix: str) -> Path:
    """The program's file of a kind."""
    (found,) = DIST.glob(f"whisper_hailo-*.{suffix}")
    return found


def other(name: str) -> Path:
    """The wheel of another distribution: tools or lab."""
    (path,) = DIST.glob(f"whisper_hailo_{name}-*.whl")
    return path


@pytest.fixture(scope="module")
def wheel() -> dict[str, int]:
    """Names in it, with their sizes."""
    with zipfile.ZipFile(the("whl")) as file:
        return {entry.filename: entry.file_size for entry in file.infolist()}


@pytest.fixture(scope="module")
def sdist() -> dict[str, int]:
    with tarfile.open(the("tar.gz")) as file:
        return {
            entry.name.partition("/")[2]: entry.size
            for entry in file.getmembers()
            if entry.isfile()
        }


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment outside of the checkout, with the locks and the wheel."""
    home = tmp_path_factory.mktemp("home") / "environment"
    venv.create(home, with_pip=True)
    pip = [
        home / "bin" / "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    locks = [
        word for name in LOCKS for word in ("-r", ROOT / "requirements" / f"{name}.txt")
    ]
    index = {
        name: value for name, value in os.environ.items() if name != "PIP_NO_INDEX"
    }
    subprocess.run([*pip, "--require-hashes", *locks], check=True, cwd=home, env=index)
    subprocess.run([*pip, "--no-index", the("whl")], check=True, cwd=home)
    return home


def own(environment: Path) -> dict[str, str]:
    """Variables of a user who has nothing but this environment."""
    return {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "HOME": str(environment),
    }


def run(environment: Path, *words: str) -> str:
    done = subprocess.run(
        ["whisper-hailo", *words], cwd=environment, env=own(environment), capture_output=True,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_has_program_its_model_and_its_pages_and_no_tests(
    wheel: dict[str, int],
) -> None:
    roots = {name.split("/")[0] for name in wheel}
    (info,) = (name for name in roots if name.endswith(".dist-info"))
    (data,) = (name for name in roots if name.endswith(".data"))
    assert roots == {"whisper_hailo", info, data}
    assert {
        f"whisper_hailo/assets/{name}.flac" for name in ("demo", "jfk")
    } <= wheel.keys()
    assert "whisper_hailo/py.typed" in wheel
    assert f"{info}/licenses/LICENSE" in wheel
    share = {
        name.removeprefix(f"{data}/data/share/")
        for name in wheel
        if name.startswith(data)
    }
    assert share == {
        "man/man1/whisper-hailo.1",
        "bash-completion/completions/whisper-hailo",
        "zsh/site-functions/_whisper-hailo",
        "fish/vendor_completions.d/whisper-hailo.fish",
    }


@pytest.mark.parametrize("suffix", ["whl", "gz"])
def test_nothing_strays_into_the_packages(
    suffix: str, request: pytest.FixtureRequest
) -> None:
    names: dict[str, int] = request.getfixturevalue(
        {"whl": "wheel", "gz": "sdist"}[suffix]
    )
    stray = [
        name
        for name in names
        if "__pycache__" in name or name.startswith(("tests/", "."))
    ]
    assert [name for name in stray if name != ".gitignore"] == []
    assert [name for name, size in names.items() if size > LARGEST_MIB << 20] == []
    assert the(suffix).stat().st_size < MOST_MIB << 20


def test_sdist_gives_the_same_wheel(tmp_path: Path) -> None:
    with tarfile.open(the("tar.gz")) as file:
        file.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again"]
    subprocess.run(
        [sys.executable, *words], cwd=source, check=True, capture_output=True
    )
    built = the("whl")
    assert (tmp_path / "again" / built.name).read_bytes() == built.read_bytes()


@pytest.mark.parametrize(
    ("name", "module"), [("tools", "compile.py"), ("lab", "cli/evaluate.py")]
)
def test_wheel_of_another_distribution_has_it_alone(name: str, module: str) -> None:
    with zipfile.ZipFile(other(name)) as file:
        names = file.namelist()
    assert {path.split("/")[0].partition("-")[0] for path in names} == {
        f"whisper_hailo_{name}"
    }
    assert f"whisper_hailo_{name}/{module}" in names
    assert [
        path for path in names if "__pycache__" in path or path.endswith(".toml")
    ] == []


def test_wheel_transcribes_in_an_empty_environment(environment: Path) -> None:
    assert run(environment, "--version").startswith("whisper-hailo ")
    (demo,) = environment.glob(
        "lib/python3*/site-packages/whisper_hailo/assets/demo.flac"
    )
    text = run(environment, "transcribe", "--model", "micro", "-q", str(demo))
    assert text.split() == demo.with_suffix(".txt").read_text(encoding="utf-8").split()


OTHERS = {
    "tools": ("Hailo tools", ("validate", "check", "calibrate", "emulate", "compile")),
    "lab": ("Laboratory", ("time", "evaluate", "compare", "prepare", "report")),
}
"""Heading in `--help` and commands of the other distributions."""


def test_wheel_alone_names_the_package_of_a_missing_command(environment: Path) -> None:
    listed = run(environment, "--help")
    for name, (heading, commands) in OTHERS.items():
        assert f"{heading}:" not in listed
        for command in commands:
            lacking = subprocess.run(
                ["whisper-hailo", command, "--help"], cwd=environment, env=own(environment),
                capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert lacking.returncode == 2
            assert f"pip install whisper-hailo-{name}" in lacking.stderr


def test_three_wheels_install_together(environment: Path) -> None:
    pip = environment / "bin" / "pip"
    # With their dependencies: each wheel must find the others, and nothing else, that it needs.
    wheels = [other(name) for name in OTHERS]
    subprocess.run(
        [pip, "install", "--quiet", "--no-index", *wheels], check=True, cwd=environment
    )
    subprocess.run([pip, "check"], check=True, cwd=environment)
    listed = run(environment, "--help")
    for heading, commands in OTHERS.values():
        assert f"{heading}:" in listed
        for command in commands:
            assert f"whisper-hailo {command}" in run(environment, command, "--help")


def test_pages_of_the_manual_and_shells_are_where_they_look(
    environment: Path,
) -> None:
    page = environment / "share" / "man" / "man1" / "whisper-hailo.1"
    assert page.read_text(encoding="utf-8").startswith(".TH WHISPER")
    words = ["bash", "-c", 'source "$1"; complete -p whisper-hailo', "bash"]
    script = environment / "share" / "bash-completion" / "completions" / "whisper-hailo"
    done = subprocess.run([*words, script], capture_output=True, text=True, check=True)
    assert "whisper-hailo" in done.stdout


@pytest.fixture
def server(environment: Path) -> Iterator[int]:
    words = [
        "whisper-hailo",
        "serve",
        "--model",
        "micro",
        "--http",
        f"127.0.0.1:{PORT}",
    ]
    process = subprocess.Popen(words, cwd=environment, env=own(environment))
    yield PORT
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


def test_wheel_serves(server: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            with closing(HTTPConnection("127.0.0.1", server, timeout=5)) as connection:
                connection.request("GET", "/ready")
                if connection.getresponse().status == 200:
                    return
        except ConnectionError:
            pass
        time.sleep(0.2)
    raise AssertionError("it is never ready")
