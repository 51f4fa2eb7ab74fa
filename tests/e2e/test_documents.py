"""Run every command and every line of Python in the README and `docs/python.md`, as written.

What cannot run here is fenced as `bash not run: REASON`, and skipped for that reason. The bundled
model stands for `tiny`, which would have to be fetched, and the demo recording for
`~/recording.m4a` and `~/recordings`. A block that activates the environment holds for those after.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, ROOT
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import SAMPLE_RATE_HZ
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.arguments import merge_transcribe_kwargs

FENCED = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
NOT_RUN = "not run: "
ACTIVATION = "source .venv/bin/activate"
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OURS = "whisper-hailo"
BUILD = Path(__file__).parents[2] / "requirements" / "build.txt"
TOOLS = {
    "pip",
    "setuptools",
    *re.findall(r"^([\w-]+)==", BUILD.read_text(), flags=re.MULTILINE),
}
"""A virtual environment has two from the start, and `make` adds those that install this project."""
HIDER = """\
import os, sys
from importlib.machinery import PathFinder

HIDDEN = frozenset(os.environ["HIDDEN_MODULES"].split(","))


class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in HIDDEN
        return None if hidden else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""
"""Python imports a module of the name `sitecustomize` whenever it starts."""


@dataclass(frozen=True)
class Block:
    """Fenced code of the README.

    Attributes:
        language: empty for drawings.
        note: text behind the language.
        code: as written.
        extras: those that blocks before this one have installed.
        is_activated: a block before this one has activated the environment.
    """

    language: str
    note: str
    code: str
    extras: frozenset[str]
    is_activated: bool = False


def read_blocks() -> list[Block]:
    blocks: list[Block] = []
    extras: frozenset[str] = frozenset()
    for language, note, code in FENCED.findall(
        (ROOT / "README.md").read_text(encoding="utf-8")
    ):
        is_activated = any(ACTIVATION in block.code for block in blocks)
        blocks.append(Block(language, note, code, extras, is_activated))
        if "pip install" in code:
            extras |= set(re.findall(r"-r requirements/([\w-]+)\.txt", code))
    return blocks


BLOCKS = read_blocks()


def list_cases(language: str) -> list[object]:
    """Blocks of a language for `parametrize`, those that cannot run with their reason."""
    return [
        pytest.param(
            block,
            id=next(
                line
                for line in block.code.splitlines()
                if not line.startswith("source")
            ),
            marks=[pytest.mark.skip(reason=block.note)]
            if block.note.startswith(NOT_RUN)
            else [],
        )
        for block in BLOCKS
        if block.language == language
    ]


@pytest.fixture(scope="module")
def home(environment: dict[str, str]) -> Path:
    """The reader's home with a recording of a telephone."""
    av = pytest.importorskip("av", reason="the media extra is not installed")
    folder = Path(environment["HOME"])
    samples = np.ascontiguousarray(load_audio(DEMO)[None])
    with av.open(str(folder / "recording.m4a"), "w") as container:
        stream = container.add_stream("aac", rate=SAMPLE_RATE_HZ, layout="mono")
        for start in range(0, samples.shape[1], 1024):
            part = np.ascontiguousarray(samples[:, start : start + 1024])
            frame = av.AudioFrame.from_ndarray(part, format="fltp", layout="mono")
            frame.sample_rate = SAMPLE_RATE_HZ
            frame.pts = start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    (folder / "recordings").mkdir()
    shutil.copy(folder / "recording.m4a", folder / "recordings" / "talk.m4a")
    return folder


def run(
    words: list[str], block: Block, environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, env={**environment, **hiding(folder, block.extras)},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def test_readme_blocks_run_or_have_a_reason() -> None:
    run_here = [
        block for block in BLOCKS if block.language == "bash" and not block.note
    ]
    assert len(run_here) >= 5
    assert [block.language for block in BLOCKS].count("python") == 1
    for block in BLOCKS:
        assert block.language in {"bash", "python", ""}
        assert not block.note or re.fullmatch(rf"{NOT_RUN}needs .+", block.note)
        assert block.language or "whisper-hailo" not in block.code


@pytest.mark.parametrize("block", list_cases("bash"))
@pytest.mark.usefixtures("home")
def test_readme_command_blocks_run(
    block: Block, environment: dict[str, str], tmp_path: Path
) -> None:
    script = block.code.replace("--model tiny", "--model micro")
    if block.is_activated:
        script = f"{ACTIVATION}\n{script}"
    result = run(
        ["bash", "-euo", "pipefail", "-c", script], block, environment, tmp_path
    )
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    if (
        "transcribe" in script or "make demo" in script
    ) and "--output-dir" not in script:
        assert DEMO_TEXT in result.stdout.replace("\n", " ")


@pytest.mark.parametrize("block", list_cases("python"))
def test_readme_python_block_prints_the_text(
    block: Block, environment: dict[str, str], tmp_path: Path
) -> None:
    result = run(
        [sys.executable, "-W", "error", "-c", block.code], block, environment, tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert DEMO_TEXT in result.stdout.replace("\n", " ")


def test_readme_commands_see_only_installed_extras(
    environment: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("av", reason="the media extra is not installed")
    program = [sys.executable, "-c", "import whisper_hailo, onnxruntime, numpy, av"]
    without = run(program, Block("", "", "", frozenset()), environment, tmp_path)
    assert "No module named 'av'" in without.stderr
    having = run(
        program, Block("", "", "", frozenset({"media"})), environment, tmp_path
    )
    assert having.returncode == 0, having.stderr


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda text: text.split("\n", 1)[0][:30]
)
def test_python_page_examples_run_as_written(
    example: str, environment: dict[str, str], tmp_path: Path
) -> None:
    shutil.copy(DEMO, tmp_path / "talk.flac")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"talk.flac"}


def test_python_page_has_all_examples() -> None:
    assert len(EXAMPLES) >= 9


def test_python_page_lists_names_that_exist() -> None:
    (row,) = re.findall(
        r"^\| (`beam_size`.*) \| the same names \|$", PAGE, re.MULTILINE
    )
    names = re.findall(r"`(\w+)`", row)
    assert len(names) >= 20
    for name in names:
        with pytest.raises(OptionError) as known:
            merge_transcribe_kwargs(DecodingOptions(), {name: object()})
        with pytest.raises(OptionError) as unknown:
            merge_transcribe_kwargs(DecodingOptions(), {f"{name}_x": object()})
        # An unknown name is refused before its value.
        reason = str(unknown.value).replace(f"{name}_x", name).partition(";")[0]
        assert not str(known.value).startswith(reason)


def hiding(folder: Path, extras: frozenset[str]) -> dict[str, str]:
    """Variables under which Python sees the base installation, these extras, and nothing else.

    Args:
        folder: an empty one, for the module that hides.
        extras: those that are installed.
    """
    (folder / "sitecustomize.py").write_text(HIDER, encoding="utf-8")
    visible = set(_needed(OURS, extras, set())) | TOOLS
    hidden = [
        module
        for module, packages in packages_distributions().items()
        if visible.isdisjoint(canonicalize_name(package) for package in packages)
    ]
    return {"PYTHONPATH": str(folder), "HIDDEN_MODULES": ",".join(sorted(hidden))}


def _needed(
    package: str, extras: frozenset[str], known: set[tuple[str, str]]
) -> Iterator[str]:
    """A package, and those that it needs with these extras, as far as they are installed."""
    try:
        wanted = requires(package) or []
    except PackageNotFoundError:
        return
    yield canonicalize_name(package)
    for extra in ("", *sorted(extras)):
        if (package, extra) in known:
            continue
        known.add((package, extra))
        for requirement in map(Requirement, wanted):
            if requirement.marker is None or requirement.marker.evaluate(
                {"extra": extra}
            ):
                name = canonicalize_name(requirement.name)
                yield from _needed(name, frozenset(requirement.extras), known)
