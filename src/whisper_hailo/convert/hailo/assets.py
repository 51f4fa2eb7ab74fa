"""The two arrays that the host of a Hailo decoder needs: token embedding and position rows.

Names and layout are those of the vendor's speech recognition example, which loads them as they are.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np

from whisper_hailo.checkpoint.checkpoint import COMPARED_ROWS, Checkpoint
from whisper_hailo.convert.graphs.onnx_file import HashedFile
from whisper_hailo.convert.hailo.decoder import EMBEDDING, POSITIONS
from whisper_hailo.core.spec import FileRecord


def asset_paths(variant: str) -> dict[str, str]:
    """Role of an asset to its path in the model directory."""
    folder = f"decoder_assets/{variant}/decoder_tokenization"
    return {
        "token_embedding": f"{folder}/token_embedding_weight_{variant}.npy",
        "position_rows": f"{folder}/onnx_add_input_{variant}.npy",
    }


def write_assets(
    checkpoint: Checkpoint, directory: Path, variant: str, length: int
) -> dict[str, FileRecord]:
    """Write both arrays: `(n_vocab, d_model)` and `(length, d_model)`, float32.

    Args:
        checkpoint: where the arrays come from.
        directory: the model directory.
        variant: name of the model in file names, such as `tiny`.
        length: text positions of the decoder.

    Returns:
        path in the model directory to size and hash.
    """
    paths = asset_paths(variant)
    n_vocab = checkpoint.config.dims.n_vocab
    wanted = {
        paths["token_embedding"]: (EMBEDDING, n_vocab),
        paths["position_rows"]: (POSITIONS, length),
    }
    records = {}
    for path, (name, n_rows) in wanted.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        records[path] = _write_rows(checkpoint, directory / path, name, n_rows)
    return records


def _write_rows(checkpoint: Checkpoint, path: Path, name: str, n_rows: int) -> FileRecord:
    """Write the first rows of an array as `.npy`, some thousands at a time."""
    d_model = checkpoint.config.dims.d_model
    header = BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, d_model)}
    np.lib.format.write_array_header_1_0(header, layout)
    with HashedFile(path) as file:
        file.write(header.getvalue())
        for start in range(0, n_rows, COMPARED_ROWS):
            rows = checkpoint.rows(name, start, min(start + COMPARED_ROWS, n_rows)).load()
            file.write(rows.astype("<f4").tobytes())
    return file.record()
