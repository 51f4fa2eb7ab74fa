"""HEF encoder and decoder on the stand-in, and arrays for a decoder's host."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.standin.make_hef import decoder_network, encoder_network, hef
from tests.unit.backends.hailo.conftest import Hefs, mel_of
from whisper_hailo.backends.fixed import OnnxFixedRunner
from whisper_hailo.backends.hailo.hef_parts import HefEncoder, HefRunner, load_assets
from whisper_hailo.backends.onnx import OnnxEncoder
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
    ShapeError,
    WrongChipError,
)
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray

SIZES = (20, 6, 4)
"""Tokens, width and positions of the decoder."""
EMBEDDING = "token_embedding_weight_x"
POSITIONS = "onnx_add_input_x"


def test_hef_encoder_equals_its_graph(
    machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    mel = mel_of(3)
    with (
        HefEncoder(hefs.encoder, spec) as chip,
        OnnxEncoder(hailo_directory, spec) as cpu,
    ):
        features = chip.encode(mel)
        assert np.abs(features - cpu.encode(mel)).max() < 1e-5
        assert (chip.name, chip.n_frames, chip.temperature_c) == (
            "hef-hailo8l",
            200,
            48.5,
        )
        kept = features.copy()
        chip.encode(mel_of(1))
        np.testing.assert_array_equal(
            features, kept, "a later run writes to buffers of its own"
        )
    assert machine.counts["configure"] == 1


@pytest.mark.parametrize("contract", ["8/8L", "10H", "10H, both in one file"])
def test_hef_runner_of_either_contract_equals_its_graph(
    *,
    machine: Any,
    contract: str,
    hefs: Hefs,
    hefs_10h: Hefs,
    hailo_directory: Path,
    spec: ModelSpec,
    tmp_path: Path,
) -> None:
    path = hefs.decoder if contract == "8/8L" else hefs_10h.decoder
    if contract != "8/8L":
        machine.set(chip="hailo10h", version="5.1.1")
    if contract.endswith("file"):
        networks = [
            decoder_network(hailo_directory, "chip"),
            encoder_network(hailo_directory),
        ]
        path = tmp_path / "both.hef"
        path.write_bytes(hef("hailo10h", networks))
        with HefEncoder(path, spec) as encoder:
            assert encoder.encode(mel_of()).shape == (1, 100, 64)
    form = next(form for form in spec.hailo if form.part == "decoder")
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 200, (2, 16))
    features = rng.standard_normal((2, 100, 64)).astype(np.float32)
    with HefRunner(path, spec, hailo_directory) as runner:
        logits = runner.run(tokens, features)
        assert (runner.length, runner.n_positions) == (16, 100)
    with OnnxFixedRunner(hailo_directory / form.file, spec) as cpu:
        assert np.abs(logits - cpu.run(tokens, features)).max() < 1e-5
    assert logits.shape == (2, 16, 200)


def test_hef_encoder_and_runner_share_one_device(
    machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    with (
        HefEncoder(hefs.encoder, spec) as encoder,
        HefEncoder(hefs.encoder, spec),
        HefRunner(hefs.decoder, spec, hailo_directory),
    ):
        encoder.encode(mel_of())
        assert machine.counts["open"] == 1
        assert machine.counts["configure"] == 2, "two streams, one configured encoder"


def test_hef_encoder_serves_many_threads(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    mels = [mel_of(1) + i for i in range(12)]
    with HefEncoder(hefs.encoder, spec) as encoder:
        expected = [encoder.encode(mel) for mel in mels]
        results: dict[int, Any] = {}

        def work(i: int) -> None:
            results[i] = encoder.encode(mels[i])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(mels))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    for i, features in enumerate(expected):
        np.testing.assert_array_equal(results[i], features)
    assert machine.counts["configure"] == 1


def test_hef_encoder_priorities_are_separate_networks(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    live = ChipOptions(share=True, priority=ChipPriority.LIVE)
    batch = ChipOptions(share=True, priority=ChipPriority.BATCH)
    machine.set(service=True)
    with (
        HefEncoder(hefs.encoder, spec, live) as first,
        HefEncoder(hefs.encoder, spec, batch),
    ):
        networks = first.lease.chip.networks.values()
        assert sorted(network.configured.priority for network in networks) == [12, 24]
        params = first.lease.chip.vdevice.params
        assert (params.group_id, params.multi_process_service) == ("SHARED", True)


def test_hef_encoder_shares_a_10h_without_the_service(
    machine: Any, hefs_10h: Hefs, spec: ModelSpec
) -> None:
    machine.set(chip="hailo10h", version="5.1.1")
    with HefEncoder(hefs_10h.encoder, spec, ChipOptions(share=True)) as encoder:
        params = encoder.lease.chip.vdevice.params
        assert (params.group_id, params.multi_process_service) == ("SHARED", False)


def test_hef_encoder_shares_an_unknown_8l(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    machine.set(service=True, faults={"identify": {"*": "refused"}})
    with HefEncoder(hefs.encoder, spec, ChipOptions(share=True)) as encoder:
        assert encoder.lease.chip.vdevice.params.multi_process_service
        assert encoder.temperature_c is None


@pytest.mark.parametrize(
    ("facts", "kind", "expected"),
    [
        ({"devices": 0}, NoDeviceError, "lspci .*--encoder-backend onnx"),
        (
            {"faults": {"open": {"0": "busy"}}},
            DeviceBusyError,
            "lsof /dev/hailo.*--share",
        ),
        (
            {"faults": {"open": {"0": "none"}}},
            NoDeviceError,
            "lspci .*--encoder-backend onnx",
        ),
        (
            {"chip": "hailo10h", "version": "5.1.1"},
            WrongChipError,
            r"hailo8l, .*\bhailo10h;.*--arch hailo10h",
        ),
        (
            {"faults": {"configure": {"0": "wrong"}}},
            WrongChipError,
            "hailo8l, .*--arch CHIP",
        ),
        (
            {"version": "4.20.0", "faults": {"configure": {"0": "wrong"}}},
            HefError,
            r"4\.20\.0 .*encoder_hailo8l\.hef \(HAILO_INVALID_HEF\)",
        ),
        ({"faults": {"load": {"0": "broken"}}}, HefError, "HAILO_HEF_FILE_CORRUPTED"),
        (
            {"faults": {"open": {"0": "HAILO_INVALID_DRIVER_VERSION"}}},
            DeviceError,
            "HAILO_INVALID_DRIVER_VERSION",
        ),
        (
            {"faults": {"open": {"0": "HAILO_DRIVER_OPERATION_FAILED"}}},
            DeviceError,
            r"opening the chip \(HAILO_DRIVER_OPERATION_FAILED\).*hailort\.log",
        ),
        (
            {"faults": {"scan": {"0": "HAILO_DRIVER_OPERATION_FAILED"}}},
            DeviceError,
            r"looking for the chip \(HAILO_DRIVER_OPERATION_FAILED\)",
        ),
        (
            {"faults": {"open": {"0": "HAILO_DEVICE_NOT_CONNECTED"}}},
            DeviceLostError,
            r"opening the chip \(HAILO_DEVICE_NOT_CONNECTED\).*dmesg",
        ),
        (
            {"faults": {"open": {"0": "HAILO_DEVICE_TEMPORARILY_UNAVAILABLE"}}},
            DeviceLostError,
            r"opening the chip \(HAILO_DEVICE_TEMPORARILY_UNAVAILABLE\).*dmesg",
        ),
        (
            {"faults": {"configure": {"0": "HAILO_TIMEOUT"}}},
            DeviceTimeoutError,
            r"loading .*encoder_hailo8l\.hef",
        ),
    ],
)
def test_hef_encoder_open_failure_has_class_and_advice(
    *,
    machine: Any,
    hefs: Hefs,
    spec: ModelSpec,
    facts: dict[str, Any],
    kind: type[Exception],
    expected: str,
) -> None:
    machine.set(**facts)
    with pytest.raises(kind, match=expected), HefEncoder(hefs.encoder, spec):
        pass
    machine.set()
    with HefEncoder(hefs.encoder, spec) as encoder:
        assert encoder.encode(mel_of()).shape == (1, 100, 64)


def test_hef_encoder_shared_8l_needs_the_service(
    machine: Any, hefs: Hefs, spec: ModelSpec
) -> None:
    encoder = HefEncoder(hefs.encoder, spec, ChipOptions(share=True))
    with (
        pytest.raises(
            DeviceError, match=r"systemctl enable --now hailort\.service.*--share"
        ),
        encoder,
    ):
        pass


def test_hef_encoder_of_broken_file_leaves_the_chip_alone(
    machine: Any, hefs: Hefs, spec: ModelSpec, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.hef"
    cut.write_bytes(hefs.encoder.read_bytes()[:-1])
    with pytest.raises(HefError, match=rf"cut\.hef .*\b{hefs.encoder.stat().st_size};"):
        HefEncoder(cut, spec)
    changed = bytearray(hefs.encoder.read_bytes())
    changed[-1] ^= 1
    cut.write_bytes(changed)
    machine.set(faults={"load": {"0": "broken"}})
    with (
        pytest.raises(HefError, match=r"cut\.hef .*CRC-32"),
        HefEncoder(cut, spec),
    ):
        pass
    assert machine.counts["run"] == 0


def test_hef_encoder_and_runner_refuse_the_other_half(
    machine: Any, hefs: Hefs, hailo_directory: Path, spec: ModelSpec
) -> None:
    with pytest.raises(HefError, match=r"decoder_hailo8l\.hef .*Whisper encoder"):
        HefEncoder(hefs.decoder, spec)
    with pytest.raises(HefError, match=r"encoder_hailo8l\.hef .*Whisper decoder"):
        HefRunner(hefs.encoder, spec, hailo_directory)
    encoder = HefEncoder(hefs.encoder, spec)
    with pytest.raises(DeviceError, match=r"open\(\)"):
        encoder.encode(mel_of())
    with pytest.raises(ShapeError, match=r"\b100 .*\b200 .*--window 2\b"):
        encoder.encode(mel_of()[:, :, :100])


def test_hef_runner_with_assets_of_another_model_fails(
    machine: Any, hefs: Hefs, spec: ModelSpec, tmp_path: Path
) -> None:
    folder = tmp_path / "decoder_tokenization"
    folder.mkdir()
    runner = HefRunner(hefs.decoder, spec, tmp_path)
    with (
        pytest.raises(ModelError, match=r"weight_\*\.npy;.*--decoder-assets"),
        runner,
    ):
        pass
    np.save(folder / "token_embedding_weight_x.npy", np.zeros((200, 32), np.float32))
    with (
        pytest.raises(
            ModelError,
            match=r"weight_x\.npy .*\(200, 32\), .*\(200, 64\)",
        ),
        runner,
    ):
        pass
    (folder / "token_embedding_weight_x.npy").write_bytes(b"\x93NUMPY broken")
    with pytest.raises(ModelError, match=r"token_embedding_weight_x\.npy .*\("), runner:
        pass
    np.save(folder / "token_embedding_weight_x.npy", np.zeros((200, 64), np.float32))
    np.save(folder / "onnx_add_input_x_seq_16.npy", np.zeros((16, 64), np.float32))
    np.save(folder / "onnx_add_input_x_seq_32.npy", np.zeros((32, 64), np.float32))
    with runner:
        features = np.zeros((1, 100, 64), np.float32)
        assert runner.run(np.zeros((1, 16), np.int64), features).shape == (1, 16, 200)


def test_chip_release_failure_is_only_a_warning(
    machine: Any, hefs: Hefs, spec: ModelSpec, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(faults={"release": {"0": "HAILO_COMMUNICATION_CLOSED"}})
    with HefEncoder(hefs.encoder, spec) as encoder:
        assert encoder.encode(mel_of()).shape == (1, 100, 64)
    assert "(HAILO_COMMUNICATION_CLOSED)" in caplog.text


def test_hef_encoder_with_old_binding_asks_for_upgrade(
    machine: Any, hefs: Hefs, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hailo_platform

    monkeypatch.delattr(hailo_platform.VDevice, "create_infer_model")
    with (
        pytest.raises(
            BindingMismatchError,
            match=r"4\.23\.0 .*create_infer_model;.*\b4\.20 .*full-upgrade",
        ),
        HefEncoder(hefs.encoder, spec),
    ):
        pass


def numbers(*shape: int) -> FloatArray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def embedded(
    assets: tuple[FloatArray, FloatArray | None], ids: NDArray[np.int64]
) -> FloatArray:
    table, positions = assets
    return table[ids] if positions is None else table[ids] + positions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with a fitting embedding, and no positions."""
    np.save(tmp_path / f"{EMBEDDING}.npy", numbers(20, 6))
    return tmp_path


@pytest.mark.parametrize(
    ("suffixes", "taken"),
    [
        (["_seq_4", "_seq_8", ""], "_seq_4"),
        (["_seq_8", "_seq_14", ""], ""),
        (["_seq_8"], "_seq_8"),
        ([""], ""),
    ],
)
def test_load_assets_prefers_rows_of_the_decoders_length(
    folder: Path, suffixes: list[str], taken: str
) -> None:
    for number, suffix in enumerate(suffixes):
        np.save(
            folder / f"{POSITIONS}{suffix}.npy", np.full((9, 6), number, np.float32)
        )
    (folder / f"{POSITIONS}_seq_4_folder.npy").mkdir()
    assets = load_assets(folder, SIZES, positions=True)
    assert assets[1] is not None
    assert assets[1].tolist() == [[suffixes.index(taken)] * 6] * 4


@pytest.mark.parametrize(
    ("suffixes", "data"),
    [
        ([], r"\bnone, .*onnx_add_input_\*\.npy .*\b4 "),
        (
            ["_seq_8", "_seq_5"],
            rf"{POSITIONS}_seq_5\.npy, {POSITIONS}_seq_8\.npy, .*\b4 ",
        ),
        (
            ["", "b"],
            rf"{POSITIONS}\.npy, {POSITIONS}b\.npy, .*\b4 ",
        ),
    ],
)
def test_load_assets_of_ambiguous_files_names_them(
    folder: Path, suffixes: list[str], data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in suffixes:
        np.save(folder / f"{POSITIONS}{suffix}.npy", numbers(9, 6))
    glob = Path.glob  # whose order is the disk's
    monkeypatch.setattr(
        Path, "glob", lambda *a, **k: sorted(glob(*a, **k), reverse=True)
    )
    with pytest.raises(ModelError, match=data):
        load_assets(folder, SIZES, positions=True)


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((20, 6), True), ((1, 20, 6), True), ((19, 6), False), ((21, 6), False),
        ((20, 5), False), ((20, 7), False), ((20,), False), ((120,), False), ((), False),
    ],
)  # fmt: skip
def test_load_assets_of_wrong_embedding_rows_is_refused(
    folder: Path, shape: tuple[int, ...], fits: bool
) -> None:
    np.save(folder / f"{EMBEDDING}.npy", numbers(*shape))
    if fits:
        assets = load_assets(folder, SIZES, positions=False)
        assert (
            embedded(assets, np.array([19, 0])).tolist()
            == numbers(20, 6)[[19, 0]].tolist()
        )
    else:
        with pytest.raises(ModelError, match=r"float32 \(20, 6\);"):
            load_assets(folder, SIZES, positions=False)


@pytest.mark.parametrize(("n_rows", "fits"), [(3, False), (4, True), (5, True)])
def test_load_assets_cuts_position_rows_to_the_length(
    folder: Path, n_rows: int, fits: bool
) -> None:
    np.save(folder / f"{POSITIONS}.npy", numbers(n_rows, 6))
    if fits:
        assets = load_assets(folder, SIZES, positions=True)
        expected = numbers(20, 6)[[5, 5, 0, 1]] + numbers(4, 6)
        assert embedded(assets, np.array([5, 5, 0, 1])).tolist() == expected.tolist()
    else:
        with pytest.raises(ModelError, match=r"\(3, 6\), .*\(4, 6\);"):
            load_assets(folder, SIZES, positions=True)


def test_load_assets_accepts_floats_only(folder: Path) -> None:
    """Floats of any width; rows that are looked up are float32, the others stay in the file."""
    np.save(folder / f"{EMBEDDING}.npy", numbers(20, 6).astype(np.float16))
    assets = load_assets(folder, SIZES, positions=False)
    assert isinstance(assets[0], np.memmap)
    np.save(folder / f"{EMBEDDING}.npy", numbers(20, 6).astype(np.int32))
    with pytest.raises(ModelError, match=r"int32 \(20, 6\), "):
        load_assets(folder, SIZES, positions=False)


class Evil:
    """An object that makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.mark,)


def test_load_assets_refuses_pickles(folder: Path) -> None:
    path = folder / f"{EMBEDDING}.npy"
    mark = folder / "mark"
    path.write_bytes(pickle.dumps(Evil(mark)))
    with pytest.raises(ModelError, match=r"token_embedding_weight_x\.npy .*pickle"):
        load_assets(folder, SIZES, positions=False)
    assert not mark.exists()
