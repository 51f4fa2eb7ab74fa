"""Arrays for a decoder's host: taken ones and refused ones."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from whisper_hailo.backends.hailo.hef_parts import load_assets
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.types import FloatArray

SIZES = (20, 6, 4)
"""Tokens, width and positions of the decoder."""

EMBEDDING = "token_embedding_weight_x"
POSITIONS = "onnx_add_input_x"


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
