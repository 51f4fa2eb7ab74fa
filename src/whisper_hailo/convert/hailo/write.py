"""Writes the Hailo forms of a checkpoint into a model directory, and says what they are."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import COMPARED_ROWS, Checkpoint
from whisper_hailo.convert.graphs.builder import OPSET, Graph
from whisper_hailo.convert.graphs.onnx_file import HashedFile, write_graph
from whisper_hailo.convert.hailo import decoder, encoder
from whisper_hailo.convert.hailo.decoder import EMBEDDING, POSITIONS
from whisper_hailo.convert.hailo.pieces import FixedSizes
from whisper_hailo.core.spec import Dimensions, FileRecord, HailoForm


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

    `variant` names the model in file names, such as `tiny`.

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


FOLDER = "hailo"

Job: TypeAlias = Callable[[], dict[str, FileRecord]]
"""Writes files of a model directory; path in it to size and hash of each."""


def hailo_forms(
    checkpoint: Checkpoint, directory: Path, variant: str, sizes: FixedSizes
) -> tuple[tuple[HailoForm, ...], list[Job]]:
    """Return what writes both graphs below `hailo/`, and the host's arrays.

    `variant` names the model in file names, such as `tiny`.

    Returns:
        the two forms, and jobs that write their files in any order, the largest first.
    """
    encoder_is, decoder_is = (
        encoder_form(checkpoint.config.dims, sizes),
        decoder_form(checkpoint.config.dims, sizes, variant),
    )
    (directory / FOLDER).mkdir()
    jobs: list[Job] = [
        lambda: _write(decoder.hailo_decoder_graph(checkpoint, sizes), directory, decoder_is),
        lambda: write_assets(checkpoint, directory, variant, sizes.length),
        lambda: _write(encoder.hailo_encoder_graph(checkpoint, sizes), directory, encoder_is),
    ]
    return (encoder_is, decoder_is), jobs


def encoder_form(dims: Dimensions, sizes: FixedSizes) -> HailoForm:
    """Return what the Hailo-form encoder of these sizes is."""
    return HailoForm(
        part="encoder",
        file=f"{FOLDER}/encoder-{sizes.window_s}s.onnx",
        window_s=sizes.window_s,
        length=None,
        opset=OPSET,
        inputs={encoder.INPUT: (1, dims.n_mels, 1, sizes.n_frames)},
        outputs={encoder.OUTPUT: (1, sizes.n_positions, dims.d_model)},
        start_nodes=(encoder.INPUT,),
        end_nodes=(encoder.END_NODE,),
        chip_inputs=((1, 1, sizes.n_frames, dims.n_mels),),
    )


def decoder_form(dims: Dimensions, sizes: FixedSizes, variant: str) -> HailoForm:
    """Return what the Hailo-form decoder of these sizes is."""
    features = (1, sizes.n_positions, dims.d_model)
    return HailoForm(
        part="decoder",
        file=f"{FOLDER}/decoder-{sizes.window_s}s-{sizes.length}.onnx",
        window_s=sizes.window_s,
        length=sizes.length,
        opset=decoder.OPSET,
        inputs={decoder.TOKENS: (1, sizes.length), decoder.FEATURES: features},
        outputs={decoder.LOGITS: (1, sizes.length, dims.n_vocab)},
        start_nodes=(decoder.FEATURES, decoder.START_NODE),
        end_nodes=decoder.END_NODES,
        chip_inputs=((1, *features), (1, sizes.length, 1, dims.d_model)),
        assets=asset_paths(variant),
    )


def _write(graph: Graph, directory: Path, form: HailoForm) -> dict[str, FileRecord]:
    """Write one graph; its records come back with their folder."""
    records = write_graph(graph, directory / form.file)
    return {f"{FOLDER}/{name}": record for name, record in records.items()}
