"""Failures of HailoRT: status numbers, classes of error, advice."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.hef_files import encoder
from tests.standin.hef_file import Wish, hef_bytes
from whisper_hailo.backends.hailo import chip as chip_module
from whisper_hailo.backends.hailo import faults
from whisper_hailo.backends.hailo.binding import one_line
from whisper_hailo.backends.hailo.faults import Faults, status_of
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, load_assets
from whisper_hailo.backends.options import ChipOptions, ChipPriority
from whisper_hailo.core.errors import (
    BindingMismatchError,
    DeviceError,
    DeviceLostError,
    DeviceTimeoutError,
    HefError,
    ModelError,
)
from whisper_hailo.core.spec import ModelSpec

from .conftest import Hefs, mel_of


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


def translated(
    status: str, *, running: bool = False, version: str = "4.23.0"
) -> Exception:
    binding = SimpleNamespace(
        __version__=version, Device=SimpleNamespace(scan=lambda: ["0"])
    )
    error = Exception(f"libhailort failed with error: 0 ({status})")
    return Faults(binding).translated(error, "running x.hef", None, running=running)


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
        "went away while running x.hef (HAILO_DEVICE_NOT_CONNECTED); check its power"
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
