"""Writes the Hailo forms of a checkpoint into a model directory, and says what they are."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import Weight
from whisper_hailo.convert.graphs.builder import OPSET, Graph
from whisper_hailo.convert.graphs.onnx_file import HashedFile, write_graph
from whisper_hailo.convert.hailo import decoder, encoder
from whisper_hailo.convert.hailo.pieces import FixedSizes
from whisper_hailo.core.spec import Dimensions, FileRecord, HailoForm

FOLDER = "hailo"

Job: TypeAlias = Callable[[], dict[str, FileRecord]]
"""Writes files of a model directory; path in it to size and hash of each."""


def hailo_forms(
    checkpoint: Checkpoint, directory: Path, variant: str, sizes: FixedSizes
) -> tuple[tuple[HailoForm, ...], list[Job]]:
    """Return what both graphs below `hailo/` are, and what writes them and the host's arrays.

    `variant` names the model in file names, such as `tiny`. The jobs write their files in any
    order; the largest is first.
    """
    encoder_is = encoder_form(checkpoint.config.dims, sizes)
    decoder_is = decoder_form(checkpoint.config.dims, sizes, variant)
    arrays = {
        decoder_is.assets["token_embedding"]: checkpoint.weight(decoder.EMBEDDING),
        decoder_is.assets["position_rows"]: checkpoint.rows(decoder.POSITIONS, 0, sizes.length),
    }
    (directory / FOLDER).mkdir()

    def write(graph: Graph, form: HailoForm) -> dict[str, FileRecord]:
        records = write_graph(graph, directory / form.file)
        return {f"{FOLDER}/{name}": record for name, record in records.items()}

    return (encoder_is, decoder_is), [
        lambda: write(decoder.hailo_decoder_graph(checkpoint, sizes), decoder_is),
        lambda: {name: _write_array(rows, directory / name) for name, rows in arrays.items()},
        lambda: write(encoder.hailo_encoder_graph(checkpoint, sizes), encoder_is),
    ]


def _write_array(array: Weight, path: Path) -> FileRecord:
    """Write an array as `.npy`, some rows at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = BytesIO()
    layout = {"descr": "<f4", "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(header, layout)
    with HashedFile(path) as file:
        file.write(header.getvalue())
        for rows in array.pieces():
            file.write(rows.astype("<f4").tobytes())
    return file.record()


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
    folder = f"decoder_assets/{variant}/decoder_tokenization"
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
        assets={
            "token_embedding": f"{folder}/token_embedding_weight_{variant}.npy",
            "position_rows": f"{folder}/onnx_add_input_{variant}.npy",
        },
    )
