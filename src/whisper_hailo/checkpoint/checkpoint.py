"""A Whisper checkpoint: its config, and its arrays by name, one at a time.

It is a directory in the format of Hugging Face or CTranslate2, or a file of OpenAI's program or of
whisper.cpp. Arrays stay in their files until they are asked for, and large ones are read some rows
at a time. Pickles can run code and are never executed: what plain tensors need of them is
interpreted (`torch_file`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.config import (
    INDEX_FILE,
    MERGE,
    PICKLES,
    SINGLE_FILE,
    TORCH_FILE,
    TORCH_INDEX_FILE,
    read_config,
)
from whisper_hailo.checkpoint.ctranslate2 import (
    MODEL_FILE,
    is_ctranslate2,
    open_ctranslate2,
    read_settings,
)
from whisper_hailo.checkpoint.single_file import (
    is_single_file,
    open_single_file,
    read_file_settings,
)
from whisper_hailo.checkpoint.torch_file import read_tensors
from whisper_hailo.checkpoint.weights import (
    DTYPES,
    AnyArray,
    StoredArray,
    Weight,
    stored_arrays,
)
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.paths import check_file_name
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

Shapes: TypeAlias = dict[str, tuple[int, ...]]


def expected_shapes(dims: Dimensions, encoder_ffn: int, decoder_ffn: int) -> Shapes:
    """Return name (without `model.`) to shape of every array that the graphs need."""
    d = dims.d_model
    audio_layers = [f"encoder.layers.{i}" for i in range(dims.n_encoder_layers)]
    text_layers = [f"decoder.layers.{i}" for i in range(dims.n_decoder_layers)]
    shapes: Shapes = {
        "encoder.conv1.weight": (d, dims.n_mels, 3),
        "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, 3),
        "encoder.conv2.bias": (d,),
        "encoder.embed_positions.weight": (dims.n_audio_ctx, d),
        "decoder.embed_tokens.weight": (dims.n_vocab, d),
        "decoder.embed_positions.weight": (dims.n_text_ctx, d),
    }
    for layer in audio_layers:
        shapes |= _attention_shapes(f"{layer}.self_attn", d)
        shapes |= _mlp_shapes(layer, d, encoder_ffn)
    for layer in text_layers:
        shapes |= _attention_shapes(f"{layer}.self_attn", d)
        shapes |= _attention_shapes(f"{layer}.encoder_attn", d)
        shapes |= _mlp_shapes(layer, d, decoder_ffn)
    shapes |= _norm_shapes("encoder.layer_norm", d)
    shapes |= _norm_shapes("decoder.layer_norm", d)
    return shapes


def _attention_shapes(name: str, d: int) -> Shapes:
    """Return one attention block with the norm before it; keys have no bias."""
    shapes: Shapes = {
        f"{name}.{part}_proj.weight": (d, d) for part in ("q", "k", "v", "out")
    }
    shapes |= {f"{name}.{part}_proj.bias": (d,) for part in ("q", "v", "out")}
    return shapes | _norm_shapes(f"{name}_layer_norm", d)


def _mlp_shapes(layer: str, d: int, inner: int) -> Shapes:
    """Return the two products after attention with the norm before them."""
    shapes: Shapes = {
        f"{layer}.fc1.weight": (inner, d),
        f"{layer}.fc1.bias": (inner,),
        f"{layer}.fc2.weight": (d, inner),
        f"{layer}.fc2.bias": (d,),
    }
    return shapes | _norm_shapes(f"{layer}.final_layer_norm", d)


def _norm_shapes(name: str, d: int) -> Shapes:
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}


MAX_LISTED = 3
"""Names in a message."""

STRIP_BYTES = 1 << 20
"""Larger arrays are read, hashed and written in strips of rows, which fit the cache."""

_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "proj_out.weight"


class Checkpoint:
    """A Whisper checkpoint, opened and checked; arrays are read when asked for.

    `directory` holds `config.json` and safetensors files, or CTranslate2's `model.bin`; it may also
    be a single file. Names of arrays are those of Transformers without `model.`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if is_single_file(directory):
            self.config, self._arrays = open_single_file(directory)
            self.files: tuple[Path, ...] = (directory,)
        elif is_ctranslate2(directory):
            self.config, self._arrays = open_ctranslate2(directory)
            self.files = (directory / MODEL_FILE,)
        else:
            self.config = read_config(directory)
            self.files = _find_arrays(directory)
            self._arrays = {
                name.removeprefix("model."): array
                for path in self.files
                for name, array in _read_arrays(path).items()
            }
        self._check()

    def _check(self) -> None:
        """Check that every array that the graphs need is there, in the config's shape."""
        config = self.config
        needed = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
        shapes = needed | {_PROJECTION: needed[_EMBEDDING]}  # it may be stored, too
        for name, array in self._arrays.items():
            self._check_array(name, array, shapes.get(name, array.shape))
        missing = [name for name in needed if name not in self._arrays]
        if missing:
            names = ", ".join(missing[:MAX_LISTED])
            if len(missing) > MAX_LISTED:
                names += f" and {len(missing) - MAX_LISTED} more"
            raise self._error(
                f"missing array {names} of {len(needed)} that config.json asks for; "
                "fetch the checkpoint again, all its files"
            )
        # A config of fewer layers would convert, to a model that talks nonsense.
        surplus = [
            name for name in self._arrays if ".layers." in name and name not in shapes
        ]
        if surplus:
            raise self._error(
                f"array {min(surplus)} does not belong in the {config.dims.n_encoder_layers} "
                f"encoder and {config.dims.n_decoder_layers} decoder layers of config.json; "
                f"arrays and config are of different models, or an adapter is not merged: {MERGE}"
            )

    def _check_array(
        self, name: str, array: StoredArray, shape: tuple[int, ...]
    ) -> None:
        if array.dtype not in DTYPES and array.scale is None:
            raise self._error(
                f"array {name} is {array.dtype}, expected one of {', '.join(DTYPES)}; "
                "quantised checkpoints cannot be converted, use the original one"
            )
        if array.shape != shape:
            raise self._error(
                f"array {name} has shape {array.shape}, expected {shape} by config.json; "
                "arrays and config are of different models"
            )
        if name.endswith("k_proj.bias"):  # the graphs would ignore it
            raise self._error(
                f"array {name} is not part of Whisper, whose keys have no bias; this is a "
                "checkpoint of another architecture"
            )

    def _error(self, problem: str) -> ModelError:
        return ModelError(f"{display_path(self.directory)}: {problem}")

    def weight(self, name: str) -> Weight:
        """Return an array as a lazy float32 weight."""
        array = self._arrays[name]
        return Weight(array.shape, "float32", array.read, lambda: self._strips(name))

    def _strips(self, name: str) -> Iterator[AnyArray]:
        """Yield an array in strips of rows."""
        array = self._arrays[name]
        n_rows = array.shape[0]
        row_bytes = 4 * math.prod(array.shape[1:])
        strip_rows = max(1, STRIP_BYTES // row_bytes)
        for start in range(0, n_rows, strip_rows):
            strip = array.rows(start, min(start + strip_rows, n_rows))
            yield strip.read()

    def rows(self, name: str, start: int, stop: int) -> Weight:
        """Return some rows of an array as a lazy float32 weight; only they are ever read."""
        array = self._arrays[name].rows(start, stop)
        return Weight(array.shape, "float32", array.read)

    def read(self, name: str) -> AnyArray:
        """Read one array as float32."""
        return self._arrays[name].read()

    def projection(self) -> Weight:
        """Return the vocabulary projection `(n_vocab, d_model)`: mostly the token embedding."""
        return self.weight(self.projection_name)

    @property
    def projection_name(self) -> str:
        """Name of the vocabulary projection's array."""
        return _EMBEDDING if self.tied else _PROJECTION

    @cached_property
    def tied(self) -> bool:
        """Whether the vocabulary projection is the token embedding."""
        if _PROJECTION not in self._arrays:
            return True
        # Some checkpoints store the same array under both names.
        strips = zip(self._strips(_PROJECTION), self._strips(_EMBEDDING), strict=True)
        return all(
            np.array_equal(projection, embedding) for projection, embedding in strips
        )

    def generation_config(self) -> dict[str, Any]:
        """Return `generation_config.json`, or CTranslate2's counterpart; may be empty."""
        _, generation = read_configs(self.directory)
        return generation


def read_configs(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `config.json` and `generation_config.json`, or CTranslate2's counterparts."""
    if is_single_file(directory):
        return read_file_settings(directory)
    if is_ctranslate2(directory):
        return read_settings(directory)
    path = directory / "generation_config.json"
    generation = read_json_object(path) if path.is_file() else {}
    return read_json_object(directory / "config.json"), generation


_SAFETENSORS: Final = ".safetensors"
_TORCH: Final = ".bin"
"""Suffixes of files with arrays."""


def _read_arrays(path: Path) -> dict[str, StoredArray]:
    """Return the arrays of one file of a checkpoint by name."""
    return read_tensors(path) if path.suffix == _TORCH else stored_arrays(path)


def _find_arrays(directory: Path) -> tuple[Path, ...]:
    """Return the files that hold the arrays of a checkpoint, safetensors if there are any.

    Raises:
        ModelError: there are none, some are missing, or they are of another format.
    """
    for single, index, suffix in (
        (SINGLE_FILE, INDEX_FILE, _SAFETENSORS),
        (TORCH_FILE, TORCH_INDEX_FILE, _TORCH),
    ):
        if (directory / single).is_file():
            return (directory / single,)
        if (directory / index).is_file():
            return _find_shards(directory, directory / index, suffix)
    directory_name = display_path(directory)
    for pickle in PICKLES:
        if (directory / pickle).exists():
            raise ModelError(
                f"{directory_name} has its arrays in {pickle}, expected {SINGLE_FILE} or "
                f"{TORCH_FILE}; give the checkpoint that Transformers saved"
            )
    raise ModelError(
        f"{directory_name} has no {SINGLE_FILE} and no {INDEX_FILE}; fetch the checkpoint again"
    )


def _find_shards(directory: Path, index: Path, suffix: str) -> tuple[Path, ...]:
    """Return the files that an index names; they have the suffix."""
    try:
        shards = decode(
            dict[str, str], read_json_object(index).get("weight_map"), "weight_map"
        )
        names = sorted(set(shards.values()))
        if not names:
            raise MismatchError("weight_map names 'nothing'")
        for name in names:
            if Path(name).name != name or not name.endswith(suffix):
                raise MismatchError(f"weight_map names {name!r}")
    except MismatchError as error:
        raise ModelError(
            f"{display_path(index)}: {error}, expected {suffix} files of the same directory; "
            "fetch the checkpoint again"
        ) from error
    for name in names:
        check_file_name(name)
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise ModelError(
            f"{display_path(directory)} lacks {', '.join(missing[:MAX_LISTED])} ({len(missing)} of "
            f"{len(names)} files that {index.name} names); fetch the checkpoint again"
        )
    return tuple(directory / name for name in names)
