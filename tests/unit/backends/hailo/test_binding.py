"""The installed binding: its version and place, and errors of its import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
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


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('"""x"""\n__version__ = "4.23.0"\nother = "1"\n', "4.23.0"),
        ("__version__ = '5.1.1'", "5.1.1"),
        ("from x import y\n", ""),
    ],
)
def test_installed_version_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, version: str
) -> None:
    path = tmp_path / "__init__.py"
    path.write_text(text, encoding="utf-8")
    for spec, expected in (
        (SimpleNamespace(origin=str(path)), version),
        (SimpleNamespace(origin=None), ""),  # a folder without a file of its own
        (None, ""),
    ):
        monkeypatch.setattr(binding, "find_spec", lambda _, spec=spec: spec)
        assert binding.installed_version() == expected


@pytest.mark.parametrize(
    ("version", "number"), [("4.23.0", 4), ("10", 10), ("unknown", None), ("", None)]
)
def test_major_of_version_is_its_first_number(version: str, number: int | None) -> None:
    assert binding.major(version) == number


@pytest.fixture
def reversed_glob(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order in which a disk names its files is its own."""
    glob = Path.glob
    monkeypatch.setattr(
        Path, "glob", lambda *a, **k: sorted(glob(*a, **k), reverse=True)
    )


@pytest.mark.usefixtures("reversed_glob")
def test_library_versions_are_whole_and_sorted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder, version in (
        ("a", "5.1.1"),
        ("b", "4.20.0"),
        ("b", "5.1.1"),
        ("b", "4"),
        ("a", ""),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"libhailort.so.{version}").touch()
    monkeypatch.setattr(binding, "LIBRARIES", (f"{tmp_path}/b", f"{tmp_path}/[a-z]"))
    assert binding.library_versions() == ["4.20.0", "5.1.1"]


@pytest.mark.usefixtures("reversed_glob")
def test_system_binding_is_the_first_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        binding, "SYSTEM_PACKAGES", (f"{tmp_path}/none", f"{tmp_path}/python*")
    )
    assert binding.system_binding() is None
    for name in (
        "python3.13/hailo_platform",
        "python3.11/hailo_platform",
        "python3.0/other",
    ):
        (tmp_path / name).mkdir(parents=True)
    assert binding.system_binding() == tmp_path / "python3.11" / "hailo_platform"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "libhailort.so.4.20.0: no such file",
            r"\b4\.20\.0, .*libhailort .*\bnone;.*apt install",
        ),
        (
            "A module compiled using NumPy 1.x cannot run",
            "'numpy<2'",
        ),
        (
            "core.multiarray failed to import",
            "'numpy<2'",
        ),
        ("_ARRAY_API not found", "'numpy<2'"),
        ("should include a _pyhailort library", r"Python \d.*--system-site-packages"),
        (
            "_pyhailort version (5) does not match",
            r"\(_pyhailort version.*apt install --reinstall",
        ),
        (
            "any other reason",
            r"\(any other reason\);.*apt install --reinstall",
        ),
    ],
)
def test_binding_mismatch_error_explains_import_failures(
    monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    monkeypatch.setattr(binding, "LIBRARIES", ())
    with pytest.raises(BindingMismatchError, match=expected):
        raise binding.binding_mismatch_error(ImportError(text))


def test_missing_binding_error_names_python_and_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", SimpleNamespace(major=3, minor=12))
    assert "Python 3.12 (" in str(
        binding.binding_mismatch_error(ImportError("_pyhailort"))
    )
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", ())
    with pytest.raises(NoBindingError, match="sudo apt install hailo-all"):
        raise binding.missing_binding_error()
