import sys
from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.repository import SOURCES
from whisper_hailo_lab.systems import process


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(process.PYTHON_VARIABLE, str(tmp_path))
    return tmp_path


def test_system_command_without_environment_is_this_python(root: Path) -> None:
    assert process.system_command("whisper-cpp")[0] == sys.executable
    assert root.exists()


def test_system_command_prefers_its_environment(root: Path) -> None:
    python = root / "whisper-cpp" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("", encoding="utf-8")
    assert process.system_command("whisper-cpp")[0] == str(python)


def test_system_command_missing_environment_raises(root: Path) -> None:
    with pytest.raises(OptionError, match=f"{root}/openai-whisper"):
        process.system_command("openai-whisper")


def test_find_script_needs_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert process.find_script("openai_whisper.py").is_file()
    monkeypatch.setattr(process, "RIVALS", Path("/nowhere"))
    with pytest.raises(OptionError, match="clone"):
        process.find_script("openai_whisper.py")


def test_make_environment_has_sources_and_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    variables = process.make_environment(2)
    assert variables["PYTHONPATH"].split(":") == [*map(str, SOURCES), "/mine"]
    assert variables["OMP_NUM_THREADS"] == "2"
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "OMP_NUM_THREADS" not in process.make_environment(0)
