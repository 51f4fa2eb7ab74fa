"""A Whisper checkpoint directory: its config, and its arrays by name, one at a time.

In the format of Hugging Face or CTranslate2. Arrays stay in their files until asked for, and large
ones are read some rows at a time. Pickles (`pytorch_model.bin`) can run code and are never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.config import INDEX_FILE, MERGE, PICKLES, SINGLE_FILE, read_config
from whisper_hailo.checkpoint.ctranslate2 import (
    MODEL_FILE,
    CheckpointArray,
    is_ctranslate2,
    open_ctranslate2,
    read_settings,
)
from whisper_hailo.checkpoint.weights import DTYPES, AnyArray, Weight, stored_arrays
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.files import check_file_name
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

Shapes: TypeAlias = dict[str, tuple[int, ...]]

CONV_WIDTH = 3


def expected_shapes(dims: Dimensions, encoder_ffn: int, decoder_ffn: int) -> Shapes:
    """Return name (without `model.`) to shape of every array that the graphs need."""
    d = dims.d_model
    shapes: Shapes = {
        "encoder.conv1.weight": (d, dims.n_mels, CONV_WIDTH),
        "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, CONV_WIDTH),
        "encoder.conv2.bias": (d,),
        "encoder.embed_positions.weight": (dims.n_audio_ctx, d),
        "decoder.embed_tokens.weight": (dims.n_vocab, d),
        "decoder.embed_positions.weight": (dims.n_text_ctx, d),
    }
    for i in range(dims.n_encoder_layers):
        layer = f"encoder.layers.{i}"
        shapes |= _attention(f"{layer}.self_attn", d) | _mlp(layer, d, encoder_ffn)
    for i in range(dims.n_decoder_layers):
        layer = f"decoder.layers.{i}"
        shapes |= _attention(f"{layer}.self_attn", d) | _attention(f"{layer}.encoder_attn", d)
        shapes |= _mlp(layer, d, decoder_ffn)
    return shapes | _norm("encoder.layer_norm", d) | _norm("decoder.layer_norm", d)


def _attention(name: str, d: int) -> Shapes:
    """Return one attention block with the norm before it; keys have no bias."""
    shapes: Shapes = {f"{name}.{part}_proj.weight": (d, d) for part in ("q", "k", "v", "out")}
    shapes |= {f"{name}.{part}_proj.bias": (d,) for part in ("q", "v", "out")}
    return shapes | _norm(f"{name}_layer_norm", d)


def _mlp(layer: str, d: int, inner: int) -> Shapes:
    """Return the two products after attention with the norm before them."""
    return {
        f"{layer}.fc1.weight": (inner, d),
        f"{layer}.fc1.bias": (inner,),
        f"{layer}.fc2.weight": (d, inner),
        f"{layer}.fc2.bias": (d,),
    } | _norm(f"{layer}.final_layer_norm", d)


def _norm(name: str, d: int) -> Shapes:
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}


MAX_LISTED = 3
COMPARED_ROWS = 4096

STRIP_BYTES = 1 << 20
"""Larger arrays are read, hashed and written in strips of rows, which fit the cache."""


class Checkpoint:
    """A Whisper checkpoint, opened and checked; arrays are read when asked for.

    `directory` holds `config.json` and safetensors files, or CTranslate2's `model.bin`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._where: dict[str, CheckpointArray] = {}
        if is_ctranslate2(directory):
            opened = open_ctranslate2(directory)
            self.config, self._where = opened.config, opened.arrays
            self.files: tuple[Path, ...] = (directory / MODEL_FILE,)
        else:
            self.config = read_config(directory)
            self.files = _find_arrays(directory)
            for path in self.files:
                self._index(path)
        self._shapes: Shapes = {name: array.shape for name, array in self._where.items()}
        self._check()

    def _index(self, path: Path) -> None:
        """Add the arrays of one file; a leading `model.` is optional."""
        for stored, array in stored_arrays(path).items():
            if array.dtype not in DTYPES:
                raise ModelError(
                    f"{display_path(path.name)}: {stored} is {array.dtype}, expected one of "
                    f"{', '.join(DTYPES)}; quantised checkpoints cannot be converted, "
                    "use the original one"
                )
            self._where[stored.removeprefix("model.")] = array

    def _check(self) -> None:
        """Check that every array that the graphs need is there, in the config's shape."""
        expected = expected_shapes(
            self.config.dims, self.config.encoder_ffn, self.config.decoder_ffn
        )
        missing = [name for name in expected if name not in self._shapes]
        if missing:
            listed = ", ".join(missing[:MAX_LISTED])
            more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
            raise ModelError(
                f"{display_path(self.directory)}: missing array {listed}{more} of {len(expected)} "
                "that config.json asks for; fetch the checkpoint again, all its safetensors files"
            )
        if "proj_out.weight" in self._shapes:
            expected["proj_out.weight"] = expected["decoder.embed_tokens.weight"]
        for name, shape in expected.items():
            if self._shapes[name] != shape:
                raise ModelError(
                    f"{display_path(self.directory)}: array {name} has shape {self._shapes[name]}, "
                    f"expected {shape} by config.json; arrays and config are of different models"
                )
        key_bias = next((name for name in self._shapes if name.endswith("k_proj.bias")), None)
        if key_bias is not None:
            raise ModelError(
                f"{display_path(self.directory)}: array {key_bias} is not part of Whisper, whose "
                "keys have no bias; this is a checkpoint of another architecture"
            )
        surplus = [name for name in self._shapes if ".layers." in name and name not in expected]
        if surplus:
            raise ModelError(
                f"{display_path(self.directory)}: array {min(surplus)} has no place in the "
                f"{self.config.dims.n_encoder_layers} encoder and "
                f"{self.config.dims.n_decoder_layers} decoder layers of config.json; arrays and "
                f"config are of different models, or an adapter is not merged: {MERGE}"
            )

    def weight(self, name: str) -> Weight:
        """Return an array (named without `model.`) as a lazy float32 weight."""
        shape = self._shapes[name]
        return Weight(shape, "float32", lambda: self.read(name), lambda: self._strips(name))

    def _strips(self, name: str) -> Iterator[AnyArray]:
        """Yield an array in strips of rows."""
        stored = self._where[name]
        n_rows = stored.shape[0]
        row_bytes = 4 * int(np.prod(stored.shape[1:], dtype=np.int64))
        step = max(1, STRIP_BYTES // row_bytes)
        for start in range(0, n_rows, step):
            yield stored.rows(start, min(start + step, n_rows))

    def rows(self, name: str, start: int, stop: int) -> Weight:
        """Return some rows of an array as a lazy float32 weight; only they are ever read."""
        shape = (stop - start, *self._shapes[name][1:])
        return Weight(shape, "float32", lambda: self._where[name].rows(start, stop))

    def read(self, name: str) -> AnyArray:
        """Read one array as float32."""
        return self._where[name].read()

    def projection(self) -> Weight:
        """Return the vocabulary projection `(n_vocab, d_model)`: mostly the token embedding."""
        return self.weight(self.projection_name)

    @property
    def projection_name(self) -> str:
        return "decoder.embed_tokens.weight" if self.tied else "proj_out.weight"

    @cached_property
    def tied(self) -> bool:
        """Whether the vocabulary projection is the token embedding."""
        if "proj_out.weight" not in self._where:
            return True
        pairs = zip(
            self._rows("proj_out.weight"), self._rows("decoder.embed_tokens.weight"), strict=True
        )
        return all(np.array_equal(a, b) for a, b in pairs)

    def _rows(self, name: str) -> Iterator[AnyArray]:
        """Yield the rows of a matrix, some thousands at a time."""
        stored = self._where[name]
        for start in range(0, stored.shape[0], COMPARED_ROWS):
            yield stored.rows(start, min(start + COMPARED_ROWS, stored.shape[0]))

    def generation_config(self) -> dict[str, Any]:
        """Return `generation_config.json`, or CTranslate2's counterpart; may be empty."""
        if is_ctranslate2(self.directory):
            return read_settings(self.directory)[1]
        path = self.directory / "generation_config.json"
        return read_json_object(path) if path.is_file() else {}


def _find_arrays(directory: Path) -> tuple[Path, ...]:
    """Return the safetensors files of a checkpoint."""
    index = directory / INDEX_FILE
    if (directory / SINGLE_FILE).is_file():
        return (directory / SINGLE_FILE,)
    if index.is_file():
        try:
            shards = decode(dict[str, str], read_json_object(index).get("weight_map"), "weight_map")
        except MismatchError as error:
            raise ModelError(
                f"{display_path(index)}: {error}; fetch the checkpoint again"
            ) from error
        if not shards:
            raise ModelError(
                f"{display_path(index)} has an empty weight_map; fetch the checkpoint again"
            )
        names = sorted(set(shards.values()))
        strange = [n for n in names if Path(n).name != n or not n.endswith(".safetensors")]
        if strange:
            raise ModelError(
                f"{display_path(index)} names {strange[0]!r}, expected safetensors files of the "
                "same directory; fetch the checkpoint again"
            )
        for name in names:
            check_file_name(name)
        paths = tuple(directory / name for name in names)
        absent = [path.name for path in paths if not path.is_file()]
        if absent:
            raise ModelError(
                f"{display_path(directory)} lacks {', '.join(absent[:MAX_LISTED])} ({len(absent)} "
                f"of {len(paths)} files that {INDEX_FILE} names); fetch the checkpoint again"
            )
        return paths
    pickle = next((name for name in PICKLES if (directory / name).exists()), None)
    if pickle is not None:
        raise ModelError(
            f"{display_path(directory)} has its arrays in {pickle}, a pickle, which can run code "
            f"and is not opened; expected {SINGLE_FILE}: make it where you trust the file with "
            "Transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        )
    raise ModelError(
        f"{display_path(directory)} has no {SINGLE_FILE} and no {INDEX_FILE}; fetch the checkpoint "
        "again"
    )
