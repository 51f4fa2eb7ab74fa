"""Files of PyTorch, which are read without running their code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.torch_file import write_pickle, write_pt
from whisper_hailo.checkpoint.torch_file import read_torch_file
from whisper_hailo.core.errors import ModelError

ARRAYS = {
    "a.weight": np.arange(6, dtype="<f4").reshape(2, 3),
    "a.bias": np.array([0.5, -1], "<f2"),
}


def test_torch_file_has_its_numbers_and_tensors(tmp_path: Path) -> None:
    write_pt(tmp_path / "m.pt", ARRAYS, {"n_mels": 80})
    saved = read_torch_file(tmp_path / "m.pt")
    assert saved["dims"] == {"n_mels": 80}
    for name, array in ARRAYS.items():
        stored = saved["model_state_dict"][name]
        np.testing.assert_array_equal(stored.read(), array.astype(np.float32))
    weight = saved["model_state_dict"]["a.weight"]
    np.testing.assert_array_equal(weight.rows(1, 2).read(), [[3, 4, 5]])


class Evil:
    """Runs a command where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_torch_file_calling_a_function_is_refused(
    tmp_path: Path, protocol: int
) -> None:
    write_pickle(tmp_path / "m.pt", pickle.dumps(Evil(tmp_path / "made"), protocol))
    with pytest.raises(ModelError, match="state_dict"):
        read_torch_file(tmp_path / "m.pt")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02}(u",
        b"\x80\x02u.",
        b"\x80\x02X\xff\xff\xff\x7f.",
        b"\x80\x02h\x05.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02ccollections\nOrderedDict\n(K\x01tR.",
    ],
)
def test_torch_file_broken_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    write_pickle(tmp_path / "m.pt", content)
    with pytest.raises(ModelError, match=r"m\.pt "):
        read_torch_file(tmp_path / "m.pt")


def test_torch_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    write_pt(tmp_path / "m.pt", ARRAYS, {})
    content = (tmp_path / "m.pt").read_bytes()
    for length in range(0, len(content), 7):
        (tmp_path / "cut.pt").write_bytes(content[:length])
        with pytest.raises(ModelError):
            read_torch_file(tmp_path / "cut.pt")


def test_torch_file_transposed_tensor_is_refused(tmp_path: Path) -> None:
    write_pt(tmp_path / "m.pt", ARRAYS, {}, transposed=True)
    with pytest.raises(ModelError, match="transposed"):
        read_torch_file(tmp_path / "m.pt")


def test_torch_file_tensor_beyond_storage_is_refused(tmp_path: Path) -> None:
    wide = np.lib.stride_tricks.as_strided(ARRAYS["a.weight"], (1 << 20, 3), (12, 4))

    class Short(np.ndarray[Any, Any]):
        def tobytes(self, *_: Any) -> bytes:
            return b"\0" * 24

    write_pt(tmp_path / "m.pt", {"a": wide.view(Short)}, {})
    with pytest.raises(ModelError, match=r"m\.pt"):
        read_torch_file(tmp_path / "m.pt")
