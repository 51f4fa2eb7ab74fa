"""Import failures of the binding, and status numbers of its exceptions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.standin import FOLDER
from whisper_hailo.backends.hailo import binding
from whisper_hailo.backends.hailo.faults import status_of
from whisper_hailo.core.errors import BindingMismatchError, NoBindingError


@pytest.fixture
def no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [key for key in sys.modules if key.split(".")[0] == "hailo_platform"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", ())


@pytest.mark.usefixtures("no_binding")
def test_load_binding_without_binding_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        NoBindingError, match=r"hailo_platform.*sudo apt install hailo-all"
    ):
        binding.load_binding()
    (tmp_path / "python3" / "hailo_platform").mkdir(parents=True)
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", (f"{tmp_path}/python*",))
    with pytest.raises(
        NoBindingError, match=r"python3/hailo_platform.*--system-site-packages"
    ):
        binding.load_binding()


def test_why_no_binding_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", (str(tmp_path),))
    monkeypatch.setattr(binding, "find_spec", lambda _: None)
    assert binding.why_no_binding() == "no Hailo binding in this environment"
    (tmp_path / "hailo_platform").mkdir()
    assert binding.why_no_binding() == (
        "the Hailo binding is installed but invisible to this environment (doctor)"
    )
    monkeypatch.setattr(binding, "find_spec", lambda name: name)
    assert binding.why_no_binding() is None


@pytest.mark.usefixtures("no_binding")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            "library",
            r"\b4\.20\.0\b.*libhailort .*\b5\.1\.1;",
        ),
        ("numpy", r"pip install 'numpy<2'"),
        ("python", r"Python 3\.\d+ .*--system-site-packages"),
        (
            "version",
            r"\(_pyhailort version \(5\.1\.1\).*apt install --reinstall",
        ),
    ],
)
def test_load_binding_of_broken_installation_says_what_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str, expected: str
) -> None:
    version = "5.1.1"
    (tmp_path / f"libhailort.so.{version}").touch()
    (tmp_path / "libhailort.so").touch()
    monkeypatch.setattr(binding, "LIBRARIES", (str(tmp_path),))
    (tmp_path / "machine.json").write_text(f'{{"import": "{fault}"}}', encoding="utf-8")
    monkeypatch.setenv("STANDIN_MACHINE", str(tmp_path))
    monkeypatch.syspath_prepend(str(FOLDER))
    with pytest.raises(BindingMismatchError, match=expected):
        binding.load_binding()
    assert binding.library_versions() == [version]


@pytest.mark.usefixtures("no_binding")
def test_load_binding_with_missing_dependency_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hailo_platform.py").write_text(
        "import netifaces_is_not_here", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BindingMismatchError, match="netifaces_is_not_here"):
        binding.load_binding()


@pytest.mark.parametrize(
    ("version", "knows"),
    [
        ("", True),
        ("4.23.0", False),
        ("5.1.0", False),
        ("5.1.1", True),
        ("5.10.0", True),
    ],
)
def test_knows_numpy_2_by_version_and_python(
    monkeypatch: pytest.MonkeyPatch, version: str, knows: bool
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    assert binding.knows_numpy_2(version) == knows
    monkeypatch.setattr(sys, "version_info", (3, 13, 5))
    assert binding.knows_numpy_2(version), "made with a newer pybind11, or not at all"


def test_status_of_exception_classes_and_texts() -> None:
    class HailoRTTimeout(Exception):  # noqa: N818 - the binding's own name
        pass

    assert status_of(HailoRTTimeout("any words")) == "HAILO_TIMEOUT"
    text = "libhailort failed with error: 74 (HAILO_OUT_OF_PHYSICAL_DEVICES)"
    assert status_of(Exception(text)) == "HAILO_OUT_OF_PHYSICAL_DEVICES"
    assert (
        status_of(Exception("libhailort failed with error: 77")) == "HAILO_RPC_FAILED"
    )
    assert status_of(Exception("HAILO_OUT_OF_HOST_MEMORY(3)")) == ""
    assert status_of(ValueError("nothing of the kind")) == ""


def test_status_of_bare_number_needs_the_c_extension(machine: Any) -> None:
    from hailo_platform.pyhailort.pyhailort import HailoRTStatusException

    assert status_of(HailoRTStatusException("36")) == "HAILO_DRIVER_OPERATION_FAILED"
    assert status_of(HailoRTStatusException("91")) == "HAILO_HEF_FILE_CORRUPTED"
    assert status_of(HailoRTStatusException("1234")) == ""
    assert status_of(ValueError("36")) == ""
