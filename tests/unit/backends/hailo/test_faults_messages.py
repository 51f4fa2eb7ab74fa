"""What each failure of HailoRT is told as, and with which cure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.hef_files import encoder, written
from whisper_hailo.backends.hailo import faults
from whisper_hailo.backends.hailo.faults import Faults, status_of, wrong_chip
from whisper_hailo.backends.hailo.hef_file import HefFile, read_hef
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    HefError,
    NoDeviceError,
    OptionError,
    WhisperHailoError,
    WrongChipError,
)


@pytest.fixture
def hef(tmp_path: Path) -> HefFile:
    return read_hef(written(tmp_path, encoder()))


def failing(scan: Any = lambda: ["0"], version: str = "4.23.0") -> Faults:
    return Faults(
        SimpleNamespace(__version__=version, Device=SimpleNamespace(scan=scan))
    )


def told(
    status: str,
    hef: HefFile | None = None,
    *,
    running: bool = False,
    scan: Any = lambda: ["0"],
) -> WhisperHailoError:
    error = Exception(f"libhailort failed with error: 0 ({status})")
    return failing(scan).translated(error, "doing it", hef, running=running)


def test_status_of_subclasses_is_their_parents() -> None:
    class HailoRTStreamAborted(Exception):  # noqa: N818 - the binding's own name
        pass

    class Special(HailoRTStreamAborted):
        pass

    assert status_of(Special("error: 4 (HAILO_TIMEOUT)")) == "HAILO_STREAM_ABORT"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("error: 4 (HAILO_TIMEOUT)", "HAILO_TIMEOUT"),
        ("failed with 62(HAILO_X)", "HAILO_X"),
        ("error 77", "HAILO_RPC_FAILED"),
        ("error: 1000", ""),
        ("terror", ""),
    ],
)
def test_status_of_texts_finds_names_and_numbers(said: str, status: str) -> None:
    assert status_of(Exception(said)) == status


@pytest.mark.parametrize(
    "status", ["HAILO_OUT_OF_PHYSICAL_DEVICES", "HAILO_DEVICE_IN_USE"]
)
def test_no_device_or_busy_is_busy_if_a_chip_is_listed(status: str) -> None:
    def fail() -> None:
        raise OSError("no driver")

    assert type(told(status)) is DeviceBusyError
    assert type(told(status, scan=list)) is NoDeviceError
    assert type(told(status, scan=fail)) is NoDeviceError


def test_wrong_chip_needs_a_hef(hef: HefFile) -> None:
    status = "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE"
    found = told(status, hef)
    assert type(found) is WrongChipError
    assert "is compiled for hailo8l, this chip is a different one; " in str(found)
    assert "--arch CHIP, or compile --arch CHIP" in str(found)
    assert "this chip is a hailo10h; " in str(wrong_chip(hef, "hailo10h"))
    assert "fetch-hef --arch hailo10h, or compile --arch hailo10h" in str(
        wrong_chip(hef, "hailo10h")
    )
    assert type(told(status)) is DeviceError


@pytest.mark.parametrize(
    "status",
    ["HAILO_INVALID_HEF", "HAILO_HEF_FILE_CORRUPTED", "HAILO_HEF_NOT_SUPPORTED"],
)
def test_broken_hef_is_read_again_for_the_reason(hef: HefFile, status: str) -> None:
    found = told(status, hef)
    assert type(found) is HefError
    assert (
        f"refuses {hef.path} ({status}), a complete file for hailo8l by compiler 3"
        in str(found)
    )
    hef.path.write_bytes(hef.path.read_bytes()[:-1])
    assert "its header says" in str(told(status, hef))
    assert type(told(status)) is DeviceError


@pytest.mark.parametrize(
    ("status", "did", "always"),
    [
        ("HAILO_STREAM_ABORT", "gave up", True),
        ("HAILO_DEVICE_TEMPORARILY_UNAVAILABLE", "was not ready", True),
        ("HAILO_DEVICE_NOT_CONNECTED", "went away", True),
        ("HAILO_COMMUNICATION_CLOSED", "went away", False),
        ("HAILO_DRIVER_OPERATION_FAILED", "went away", False),
        ("HAILO_INTERRUPTED_BY_SIGNAL", "went away", False),
        ("HAILO_SHUTDOWN_EVENT_SIGNALED", "went away", False),
        ("HAILO_STREAM_NOT_ACTIVATED", "went away", False),
        ("HAILO_NETWORK_GROUP_NOT_ACTIVATED", "went away", False),
    ],
)
def test_translated_statuses_of_lost_chips(status: str, did: str, always: bool) -> None:
    """Some only while a network runs: before, they are failures like any other."""
    found = told(status, running=True)
    assert type(found) is DeviceLostError
    assert f"the Hailo chip {did} while doing it ({status}); check" in str(found)
    found = told(status)
    assert (type(found) is DeviceLostError) is always
    assert ("; try again, check its power" in str(found)) is always


@pytest.mark.parametrize(
    ("numpy", "version", "running", "has_run", "is_blamed"),
    [
        ("2.4.6", "4.23.0", True, False, True),
        ("10.0", "4.23.0", True, False, True),
        ("1.26.4", "4.23.0", True, False, False),
        ("2.4.6", "5.1.1", True, False, False),
        ("2.4.6", "4.23.0", False, False, False),
        ("2.4.6", "4.23.0", True, True, False),
    ],
)
def test_translated_blames_numpy_only_if_it_may_be(
    *,
    monkeypatch: pytest.MonkeyPatch,
    numpy: str,
    version: str,
    running: bool,
    has_run: bool,
    is_blamed: bool,
) -> None:
    monkeypatch.setattr(faults.np, "__version__", numpy)
    monkeypatch.setattr(Faults, "has_run", has_run)
    monkeypatch.setattr(
        "whisper_hailo.backends.hailo.binding.sys.version_info", (3, 12, 1)
    )
    error = Exception("error: 6 (HAILO_INVALID_OPERATION)")
    found = failing(version=version).translated(error, "it", None, running=running)
    assert (type(found) is BindingMismatchError) is is_blamed
    other = Exception("error: 5 (HAILO_INTERNAL_FAILURE)")
    assert type(
        failing(version=version).translated(other, "it", None, running=running)
    ) is (DeviceError)


@pytest.mark.parametrize(
    ("said", "told_as"),
    [
        ("error: 8 (HAILO_INTERNAL_FAILURE)", "(HAILO_INTERNAL_FAILURE)"),
        ("1234", "(status 1234)"),
        ("something\n odd", "(something odd)"),
    ],
)
def test_translated_unknown_failure_keeps_its_text(said: str, told_as: str) -> None:
    found = failing().translated(Exception(said), "doing it", None, running=False)
    assert str(found) == (
        f"HailoRT 4.23.0 failed while doing it {told_as}; "
        "see hailort.log in this folder, and whisper-hailo doctor"
    )


@pytest.mark.parametrize(
    "status",
    [
        "HAILO_INVALID_DRIVER_VERSION",
        "HAILO_UNSUPPORTED_FW_VERSION",
        "HAILO_UNSUPPORTED_CONTROL_PROTOCOL_VERSION",
        "HAILO_INVALID_SERVICE_VERSION",
    ],
)
def test_translated_version_statuses_are_mismatches(status: str) -> None:
    assert (
        f"does not fit the driver, firmware or service on this machine ({status})"
        in str(told(status))
    )


def test_translated_missing_service_and_unreadable_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "enable --now hailort.service" in str(told("HAILO_RPC_FAILED"))
    status = "HAILO_DRIVER_OPERATION_FAILED"
    monkeypatch.setattr(
        faults, "unreadable_nodes", lambda: ["/dev/hailo0", "/dev/hailo1"]
    )
    assert "/dev/hailo0, /dev/hailo1 cannot be opened by this user" in str(told(status))
    assert "cannot be opened by this user" not in str(told("HAILO_INTERNAL_FAILURE"))
    monkeypatch.setattr(faults, "unreadable_nodes", list)
    assert "failed while doing it" in str(told(status))


def test_unreadable_nodes_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever order the folder has them in."""
    paths = [Path("/dev/hailo1"), Path("/dev/hailo0")]
    monkeypatch.setattr(
        Path, "glob", lambda _, pattern: paths if "hailo" in pattern else []
    )
    monkeypatch.setattr("os.access", lambda *_: False)
    assert faults.unreadable_nodes() == ["/dev/hailo0", "/dev/hailo1"]


def test_during_leaves_our_own_errors() -> None:
    own = OptionError("x")
    with pytest.raises(OptionError) as caught, failing().during("doing it"):
        raise own
    assert caught.value is own
    with pytest.raises(DeviceLostError), failing().during("doing it", running=True):
        raise Exception("error: 62 (HAILO_COMMUNICATION_CLOSED)")  # noqa: TRY002 - as theirs
    with pytest.raises(DeviceError) as caught_before, failing().during("doing it"):
        raise Exception("error: 62 (HAILO_COMMUNICATION_CLOSED)")  # noqa: TRY002
    assert type(caught_before.value) is DeviceError
