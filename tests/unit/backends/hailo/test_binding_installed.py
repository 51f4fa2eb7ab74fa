"""The installed binding's version and place, and errors of its import."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from whisper_hailo.backends.hailo import binding
from whisper_hailo.core.errors import BindingMismatchError, NoBindingError


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
