"""Writes the Hailo forms of a checkpoint into a model directory: which sizes, which files."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.weights import Weight
from whisper_hailo.convert.graphs.builder import OPSET, Graph
from whisper_hailo.convert.graphs.onnx_file import HashedFile, write_graph
from whisper_hailo.convert.hailo import graphs
from whisper_hailo.convert.hailo.graphs import N_CHUNKS, FixedSizes
from whisper_hailo.convert.options import HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.spec import Dimensions, FileRecord, HailoForm

FOLDER = "hailo"

Job: TypeAlias = Callable[[], dict[str, FileRecord]]
"""Writes files of a model directory; path in it to size and hash of each."""


_KNOWN: Final = ((384, None, 10, 32), (512, "hailo10h", 10, 64), (1 << 30, None, 5, 24))
"""Widest model, chip (`None` is any), window in seconds and length that the vendor compiled: for
tiny, for base on a Hailo-10H, and for base, whose compilation fails at 10 s on Hailo-8. Narrower
models get them, too. A larger size is not published; it gets the shortest window known, as the
likeliest to fit."""


def fixed_sizes(options: HailoOptions, dims: Dimensions) -> FixedSizes:
    """Check what the user chose and fill in the rest."""
    if dims.max_window_s < 1 or dims.n_vocab < N_CHUNKS:
        raise OptionError(
            f"--hailo: a model with {dims.n_audio_ctx} encoder positions and {dims.n_vocab} tokens "
            f"has no Hailo form, expected a window of 1 s or more and {N_CHUNKS} tokens or more"
        )
    known_s, known_length = next(
        (window_s, length)
        for widest, arch, window_s, length in _KNOWN
        if dims.d_model <= widest and arch in (None, options.arch)
    )
    longest = int(dims.max_window_s)
    window_s = min(known_s, longest) if options.window_s is None else options.window_s
    if not 1 <= window_s <= longest or window_s != int(window_s):
        raise OptionError(
            f"--window is {window_s:g}, expected a whole number of seconds from 1 to {longest} "
            f"({dims.n_audio_ctx} encoder positions); the known windows are 10 for tiny, 5 for base"
        )
    length = options.decoder_length
    length = min(known_length, dims.n_text_ctx) if length is None else length
    if not 1 <= length <= dims.n_text_ctx:
        raise OptionError(
            f"--decoder-length is {length}, expected 1 to {dims.n_text_ctx}, this model's text "
            "context; the known lengths are 32 for tiny, 24 for base, 64 on Hailo-10H"
        )
    return FixedSizes(int(window_s), length)


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
        decoder_is.assets["token_embedding"]: checkpoint.weight(graphs.EMBEDDING),
        decoder_is.assets["position_rows"]: checkpoint.rows(graphs.POSITIONS, 0, sizes.length),
    }
    (directory / FOLDER).mkdir()

    def write(graph: Graph, form: HailoForm) -> dict[str, FileRecord]:
        records = write_graph(graph, directory / form.file)
        return {f"{FOLDER}/{name}": record for name, record in records.items()}

    return (encoder_is, decoder_is), [
        lambda: write(graphs.hailo_decoder_graph(checkpoint, sizes), decoder_is),
        lambda: {name: _write_array(rows, directory / name) for name, rows in arrays.items()},
        lambda: write(graphs.hailo_encoder_graph(checkpoint, sizes), encoder_is),
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
        inputs={graphs.ENCODER_INPUT: (1, dims.n_mels, 1, sizes.n_frames)},
        outputs={graphs.ENCODER_OUTPUT: (1, sizes.n_positions, dims.d_model)},
        start_nodes=(graphs.ENCODER_INPUT,),
        end_nodes=(graphs.ENCODER_END_NODE,),
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
        opset=graphs.DECODER_OPSET,
        inputs={graphs.TOKENS: (1, sizes.length), graphs.FEATURES: features},
        outputs={graphs.LOGITS: (1, sizes.length, dims.n_vocab)},
        start_nodes=(graphs.FEATURES, graphs.START_NODE),
        end_nodes=graphs.END_NODES,
        chip_inputs=((1, *features), (1, sizes.length, 1, dims.d_model)),
        assets={
            "token_embedding": f"{folder}/token_embedding_weight_{variant}.npy",
            "position_rows": f"{folder}/onnx_add_input_{variant}.npy",
        },
    )
