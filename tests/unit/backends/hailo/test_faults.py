"""Failures of HailoRT: status numbers, classes of error, data in messages, advice."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.commands import missing_data
from tests.fakes.hef_files import encoder, written
from tests.standin.hef_file import Wish, hef_bytes
from whisper_hailo.backends.hailo import chip as chip_module
from whisper_hailo.backends.hailo import faults
from whisper_hailo.backends.hailo.binding import one_line
from whisper_hailo.backends.hailo.faults import Faults, status_of, wrong_chip
from whisper_hailo.backends.hailo.hef_file import HefFile, read_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, load_assets
from whisper_hailo.backends.options import ChipOptions, ChipPriority
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceBusyError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    HefError,
    ModelError,
    NoDeviceError,
    OptionError,
    WhisperHailoError,
    WrongChipError,
)
from whisper_hailo.core.spec import ModelSpec

from .conftest import Hefs, mel_of


@pytest.fixture
def hef(tmp_path: Path) -> HefFile:
    return read_hef(written(tmp_path, encoder()))


def failing(scan: Any = lambda: ["0"], version: str = "4.23.0") -> Faults:
    return Faults(
        SimpleNamespace(__version__=version, Device=SimpleNamespace(scan=scan))
    )


def translated(
    status: str,
    hef: HefFile | None = None,
    *,
    running: bool = False,
    scan: Any = lambda: ["0"],
    version: str = "4.23.0",
) -> WhisperHailoError:
    error = Exception(f"libhailort failed with error: 0 ({status})")
    return failing(scan, version).translated(error, "doing it", hef, running=running)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (4, "TIMEOUT"), (6, "INVALID_OPERATION"), (26, "INVALID_HEF"),
        (36, "DRIVER_OPERATION_FAILED"), (62, "COMMUNICATION_CLOSED"), (63, "STREAM_ABORT"),
        (64, "DRIVER_NOT_INSTALLED"), (73, "DEVICE_IN_USE"), (74, "OUT_OF_PHYSICAL_DEVICES"),
        (76, "INVALID_DRIVER_VERSION"), (77, "RPC_FAILED"), (78, "INVALID_SERVICE_VERSION"),
        (79, "NOT_SUPPORTED"), (91, "HEF_FILE_CORRUPTED"), (92, "HEF_NOT_SUPPORTED"),
        (93, "HEF_NOT_COMPATIBLE_WITH_DEVICE"), (96, "DEVICE_NOT_CONNECTED"),
        (97, "DEVICE_TEMPORARILY_UNAVAILABLE"), (1, None), (75, None), (98, None),
    ],
)  # fmt: skip
def test_status_of_numbers_follows_hailort(number: int, name: str | None) -> None:
    """`hailort.h` of 4.23 and 5.1; 91 and 93 since 4.21, 96 and 97 of 5."""
    status = status_of(Exception(f"libhailort failed with error: {number}"))
    assert status == (f"HAILO_{name}" if name else "")


@pytest.mark.parametrize(
    ("status", "running", "kind"),
    [
        ("HAILO_DEVICE_NOT_CONNECTED", False, DeviceLostError),
        ("HAILO_DEVICE_TEMPORARILY_UNAVAILABLE", True, DeviceLostError),
        ("HAILO_STREAM_ABORT", False, DeviceLostError),
        ("HAILO_COMMUNICATION_CLOSED", True, DeviceLostError),
        ("HAILO_COMMUNICATION_CLOSED", False, DeviceError),
        ("HAILO_TIMEOUT", True, DeviceTimeoutError),
        ("HAILO_INVALID_DRIVER_VERSION", False, BindingMismatchError),
        ("HAILO_INTERNAL_FAILURE", True, DeviceError),
    ],
)
def test_translated_status_has_its_error_class(
    status: str, running: bool, kind: type[Exception]
) -> None:
    assert type(translated(status, running=running)) is kind


def test_translated_failure_of_run_does_not_advise_retry() -> None:
    """A run that lost the chip is tried again by the program itself."""
    assert "try again" in str(translated("HAILO_DEVICE_NOT_CONNECTED"))
    running = str(translated("HAILO_DEVICE_NOT_CONNECTED", running=True))
    assert "try again" not in running
    assert (
        "went away while doing it (HAILO_DEVICE_NOT_CONNECTED); check its power"
        in running
    )
    assert "gave up while" in str(translated("HAILO_STREAM_ABORT"))


def test_one_line_cuts_text_at_200_characters() -> None:
    assert one_line(Exception("a\n  b")) == "a b"
    assert one_line(Exception("x" * 300)) == "x" * 200
    assert one_line(ValueError("")) == "ValueError"


def test_chip_priority_normal_is_hailorts_default() -> None:
    assert ChipOptions().priority is ChipPriority.NORMAL
    assert [ChipPriority.BATCH, ChipPriority.NORMAL, ChipPriority.LIVE] == [12, 16, 24]


def test_load_assets_accepts_leading_axes_and_spare_rows(tmp_path: Path) -> None:
    folder = tmp_path / "x" / "decoder_tokenization"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((200, 64)).astype(np.float32)
    positions = rng.standard_normal((1, 32, 64)).astype(np.float32)
    np.save(folder / "token_embedding_weight_x.npy", table)
    np.save(folder / "onnx_add_input_x.npy", positions)
    assets = load_assets(tmp_path, (200, 64, 16), positions=True)
    ids = np.arange(16)
    expected = table[ids] + positions[0, :16]
    assert np.allclose(assets[0][ids] + assets[1], expected, atol=1e-6)


def test_load_assets_of_two_models_is_refused(tmp_path: Path) -> None:
    for name in ("base", "tiny"):
        folder = tmp_path / name / "decoder_tokenization"
        folder.mkdir(parents=True)
        np.save(
            folder / f"token_embedding_weight_{name}.npy",
            np.zeros((200, 64), np.float32),
        )
    folders = "base/decoder_tokenization, tiny/decoder_tokenization;"
    with pytest.raises(ModelError, match=folders):
        load_assets(tmp_path, (200, 64, 16), positions=False)
    assert load_assets(tmp_path / "tiny", (200, 64, 16), positions=False)[1] is None


def test_unreadable_nodes_need_read_and_write_access(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        faults, "device_nodes", lambda: [Path("/dev/null"), Path("/dev/zero")]
    )
    assert faults.unreadable_nodes() == []
    for missing in (os.R_OK, os.W_OK):
        may = {
            "/dev/null": os.R_OK | os.W_OK,
            "/dev/zero": (os.R_OK | os.W_OK) & ~missing,
        }
        monkeypatch.setattr(
            os, "access", lambda path, how, may=may: not how & ~may[str(path)]
        )
        assert faults.unreadable_nodes() == ["/dev/zero"]


@pytest.mark.parametrize("missing", ["inputs", "outputs", "name"])
def test_read_hef_of_network_without_stream_is_refused(
    tmp_path: Path, missing: str
) -> None:
    net = encoder()
    setattr(net, missing, type(getattr(net, missing))())
    path = tmp_path / "x.hef"
    path.write_bytes(hef_bytes(Wish([net])))
    with pytest.raises(HefError, match="network"):
        read_hef(path)


@pytest.mark.parametrize("status", ["HAILO_TIMEOUT", "HAILO_STREAM_ABORT"])
def test_encoder_open_after_a_loss_opens_the_chip_again(
    machine: Any, hefs: Hefs, spec: ModelSpec, status: str
) -> None:
    with HefEncoder(hefs.encoder, spec) as first:
        chip = first.lease.chip
        machine.plan = lambda place, count: status if place == "configure" else None
        live = HefEncoder(hefs.encoder, spec, ChipOptions(priority=ChipPriority.LIVE))
        with pytest.raises(DeviceError):
            live.open()
        machine.plan = None
        assert chip_module.HELD_CHIPS[False].chip is not chip
        assert first.encode(mel_of()).shape == (1, 100, 64)


def test_status_of_subclasses_is_their_parents() -> None:
    class HailoRTStreamAborted(Exception):  # noqa: N818 - the binding's own name
        pass

    class Special(HailoRTStreamAborted):
        pass

    assert status_of(Special("error: 4 (HAILO_TIMEOUT)")) == "HAILO_STREAM_ABORT"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("error: 4 (HAILO_TIMEOUT)", "HAILO_TIMEOUT"),
        ("failed with 62(HAILO_X)", "HAILO_X"),
        ("error 77", "HAILO_RPC_FAILED"),
        ("error: 1000", ""),
        ("terror", ""),
    ],
)
def test_status_of_texts_finds_names_and_numbers(text: str, status: str) -> None:
    assert status_of(Exception(text)) == status


@pytest.mark.parametrize(
    "status", ["HAILO_OUT_OF_PHYSICAL_DEVICES", "HAILO_DEVICE_IN_USE"]
)
def test_translated_of_listed_chip_is_busy(status: str) -> None:
    def fail() -> None:
        raise OSError("no driver")

    assert type(translated(status)) is DeviceBusyError
    assert type(translated(status, scan=list)) is NoDeviceError
    assert type(translated(status, scan=fail)) is NoDeviceError


def test_wrong_chip_needs_a_hef(hef: HefFile) -> None:
    status = "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE"
    found = translated(status, hef)
    assert type(found) is WrongChipError
    assert missing_data(str(found), f"{hef.path} hailo8l '--arch CHIP'") == []
    advice = "'fetch-hef --arch hailo10h' 'compile --arch hailo10h'"
    assert missing_data(str(wrong_chip(hef, "hailo10h")), advice) == []
    assert type(translated(status)) is DeviceError


@pytest.mark.parametrize(
    "status",
    ["HAILO_INVALID_HEF", "HAILO_HEF_FILE_CORRUPTED", "HAILO_HEF_NOT_SUPPORTED"],
)
def test_translated_of_refused_hef_reads_it_again(hef: HefFile, status: str) -> None:
    found = translated(status, hef)
    assert type(found) is HefError
    assert missing_data(str(found), f"{hef.path} {status} hailo8l 3.33.0") == []
    hef.path.write_bytes(hef.path.read_bytes()[:-1])
    size = hef.path.stat().st_size
    assert missing_data(str(translated(status, hef)), f"{size} {size + 1}") == []
    assert type(translated(status)) is DeviceError


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
def test_translated_status_of_lost_chip_is_device_lost(
    status: str, did: str, always: bool
) -> None:
    """Some only while a network runs: before, they are failures like any other."""
    found = translated(status, running=True)
    assert type(found) is DeviceLostError
    assert f"{did} while doing it ({status});" in str(found)
    found = translated(status)
    assert (type(found) is DeviceLostError) is always
    assert ("try again" in str(found)) is always


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
    ("text", "reason"),
    [
        ("error: 8 (HAILO_INTERNAL_FAILURE)", "(HAILO_INTERNAL_FAILURE)"),
        ("1234", "(status 1234)"),
        ("something\n odd", "(something odd)"),
    ],
)
def test_translated_unknown_failure_keeps_its_text(text: str, reason: str) -> None:
    found = failing().translated(Exception(text), "doing it", None, running=False)
    assert reason in str(found)
    assert missing_data(str(found), "4.23.0 hailort.log 'whisper-hailo doctor'") == []


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
    found = translated(status)
    assert type(found) is BindingMismatchError
    assert status in str(found)


def test_translated_missing_service_and_unreadable_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "enable --now hailort.service" in str(translated("HAILO_RPC_FAILED"))
    status = "HAILO_DRIVER_OPERATION_FAILED"
    monkeypatch.setattr(
        faults, "unreadable_nodes", lambda: ["/dev/hailo0", "/dev/hailo1"]
    )
    assert "/dev/hailo0, /dev/hailo1" in str(translated(status))
    assert "/dev/hailo0" not in str(translated("HAILO_INTERNAL_FAILURE"))
    monkeypatch.setattr(faults, "unreadable_nodes", list)
    assert "/dev/hailo0" not in str(translated(status))


def test_unreadable_nodes_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their order in the folder is arbitrary."""
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
