"""Why the binding cannot be used, and status numbers of exceptions of any version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.standin import FOLDER
from whisper_hailo.backends.hailo import binding
from whisper_hailo.backends.hailo.bounded import bounded
from whisper_hailo.backends.hailo.faults import status_of
from whisper_hailo.core.errors import BindingMismatchError, DeviceTimeoutError, NoBindingError


@pytest.fixture
def no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [key for key in sys.modules if key.split(".")[0] == "hailo_platform"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", ())


@pytest.mark.usefixtures("no_binding")
def test_not_installed_and_installed_but_invisible(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(NoBindingError, match=r"is not installed for .*sudo apt install hailo-all"):
        binding.load_binding()
    (tmp_path / "python3" / "hailo_platform").mkdir(parents=True)
    monkeypatch.setattr(binding, "SYSTEM_PACKAGES", (f"{tmp_path}/python*",))
    with pytest.raises(NoBindingError, match=r"invisible to this .*--system-site-packages"):
        binding.load_binding()


@pytest.mark.usefixtures("no_binding")
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("library", r"of version 4.20.0, the library libhailort on this machine is 5.1.1; install"),
        ("numpy", r"pip install 'numpy<2'"),
        ("python", r"is not made for Python 3\.\d+ .*--system-site-packages"),
        ("version", r"cannot be imported \(_pyhailort version \(5.1.1\) does not match"),
    ],
)
def test_broken_installations(
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
def test_a_package_that_lacks_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hailo_platform.py").write_text("import netifaces_is_not_here", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BindingMismatchError, match="netifaces_is_not_here"):
        binding.load_binding()


def test_generative_part_is_not_everywhere(machine: Any) -> None:
    with pytest.raises(BindingMismatchError, match=r"4.23.0 has no Speech2Text .*5.1.1 or newer"):
        binding.load_genai()


def test_statuses_of_exceptions() -> None:
    class HailoRTTimeout(Exception):  # noqa: N818 - the binding's own name
        pass

    assert status_of(HailoRTTimeout("any words")) == "HAILO_TIMEOUT"
    text = "libhailort failed with error: 74 (HAILO_OUT_OF_PHYSICAL_DEVICES)"
    assert status_of(Exception(text)) == "HAILO_OUT_OF_PHYSICAL_DEVICES"
    assert status_of(Exception("libhailort failed with error: 77")) == "HAILO_RPC_FAILED"
    assert status_of(Exception("HAILO_OUT_OF_HOST_MEMORY(3)")) == ""
    assert status_of(ValueError("nothing of the kind")) == ""


def test_bounded_calls() -> None:
    import threading

    assert bounded(lambda: 3, 5, "adding") == 3
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 5, "dividing")
    gate, undone = threading.Event(), threading.Event()

    def late() -> int:
        gate.wait(10)
        return 7

    with pytest.raises(DeviceTimeoutError, match=r"waiting did not end within 0.05 s"):
        bounded(late, 0.05, "waiting", lambda result: undone.set() if result == 7 else None)
    gate.set()
    assert undone.wait(5), "what came too late is given back"
