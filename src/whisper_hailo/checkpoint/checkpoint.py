"""A Whisper checkpoint directory: its config, and its arrays by name, one at a time.

In the format of Hugging Face or CTranslate2. Arrays stay in their files until asked for, and large
ones are read some rows at a time. Pickles (`pytorch_model.bin`) can run code and are never opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from whisper_hailo.checkpoint.config import INDEX_FILE, MERGE, PICKLES, SINGLE_FILE, read_config
from whisper_hailo.checkpoint.ctranslate2 import (
    MODEL_FILE,
    is_ctranslate2,
    open_ctranslate2,
    read_settings,
)
from whisper_hailo.checkpoint.weights import DTYPES, AnyArray, Weight, stored_arrays
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.paths import check_file_name
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

Shapes: TypeAlias = dict[str, tuple[int, ...]]


def expected_shapes(dims: Dimensions, encoder_ffn: int, decoder_ffn: int) -> Shapes:
    """Return name (without `model.`) to shape of every array that the graphs need."""
    d = dims.d_model
    shapes: Shapes = {
        "encoder.conv1.weight": (d, dims.n_mels, 3),
        "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, 3),
        "encoder.conv2.bias": (d,),
        "encoder.embed_positions.weight": (dims.n_audio_ctx, d),
        "decoder.embed_tokens.weight": (dims.n_vocab, d),
        "decoder.embed_positions.weight": (dims.n_text_ctx, d),
    }
    for i in range(dims.n_encoder_layers):
        layer = f"encoder.layers.{i}"
        shapes |= _attention_shapes(f"{layer}.self_attn", d) | _mlp_shapes(layer, d, encoder_ffn)
    for i in range(dims.n_decoder_layers):
        layer = f"decoder.layers.{i}"
        shapes |= _attention_shapes(f"{layer}.self_attn", d) | _attention_shapes(
            f"{layer}.encoder_attn", d
        )
        shapes |= _mlp_shapes(layer, d, decoder_ffn)
    return shapes | _norm_shapes("encoder.layer_norm", d) | _norm_shapes("decoder.layer_norm", d)


def _attention_shapes(name: str, d: int) -> Shapes:
    """Return one attention block with the norm before it; keys have no bias."""
    shapes: Shapes = {f"{name}.{part}_proj.weight": (d, d) for part in ("q", "k", "v", "out")}
    shapes |= {f"{name}.{part}_proj.bias": (d,) for part in ("q", "v", "out")}
    return shapes | _norm_shapes(f"{name}_layer_norm", d)


def _mlp_shapes(layer: str, d: int, inner: int) -> Shapes:
    """Return the two products after attention with the norm before them."""
    return {
        f"{layer}.fc1.weight": (inner, d),
        f"{layer}.fc1.bias": (inner,),
        f"{layer}.fc2.weight": (d, inner),
        f"{layer}.fc2.bias": (d,),
    } | _norm_shapes(f"{layer}.final_layer_norm", d)


def _norm_shapes(name: str, d: int) -> Shapes:
    return {f"{name}.weight": (d,), f"{name}.bias": (d,)}


MAX_LISTED = 3

STRIP_BYTES = 1 << 20
"""Larger arrays are read, hashed and written in strips of rows, which fit the cache."""

_EMBEDDING = "decoder.embed_tokens.weight"
_PROJECTION = "proj_out.weight"


class Checkpoint:
    """A Whisper checkpoint, opened and checked; arrays are read when asked for.

    `directory` holds `config.json` and safetensors files, or CTranslate2's `model.bin`. Names of
    arrays are those of Transformers without `model.`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if is_ctranslate2(directory):
            self.config, self._arrays = open_ctranslate2(directory)
            self.files: tuple[Path, ...] = (directory / MODEL_FILE,)
        else:
            self.config = read_config(directory)
            self.files = _find_arrays(directory)
            self._arrays = {
                name.removeprefix("model."): array
                for path in self.files
                for name, array in stored_arrays(path).items()
            }
        self._check()

    def _check(self) -> None:
        """Check that every array that the graphs need is there, in the config's shape."""
        arrays, config = self._arrays, self.config
        expected = expected_shapes(config.dims, config.encoder_ffn, config.decoder_ffn)
        missing = [name for name in expected if name not in arrays]
        known = expected | {_PROJECTION: expected[_EMBEDDING]}
        for name, array in arrays.items():
            shape = known.get(name, array.shape)
            if array.dtype not in DTYPES and array.scale is None:
                raise self._unfit(
                    f"array {name} is {array.dtype}, expected one of {', '.join(DTYPES)}; "
                    "quantised checkpoints cannot be converted, use the original one"
                )
            if array.shape != shape:
                raise self._unfit(
                    f"array {name} has shape {array.shape}, expected {shape} by config.json; "
                    "arrays and config are of different models"
                )
            if name.endswith("k_proj.bias"):
                raise self._unfit(
                    f"array {name} is not part of Whisper, whose keys have no bias; this is a "
                    "checkpoint of another architecture"
                )
        if missing:
            listed = ", ".join(missing[:MAX_LISTED])
            more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
            raise self._unfit(
                f"missing array {listed}{more} of {len(expected)} that config.json asks for; "
                "fetch the checkpoint again, all its safetensors files"
            )
        surplus = [name for name in arrays if ".layers." in name and name not in known]
        if surplus:
            raise self._unfit(
                f"array {min(surplus)} has no place in the {config.dims.n_encoder_layers} encoder "
                f"and {config.dims.n_decoder_layers} decoder layers of config.json; arrays and "
                f"config are of different models, or an adapter is not merged: {MERGE}"
            )

    def _unfit(self, why: str) -> ModelError:
        return ModelError(f"{display_path(self.directory)}: {why}")

    def weight(self, name: str) -> Weight:
        """Return an array as a lazy float32 weight."""
        array = self._arrays[name]
        return Weight(array.shape, "float32", array.read, lambda: self._strips(name))

    def _strips(self, name: str) -> Iterator[AnyArray]:
        """Yield an array in strips of rows."""
        array = self._arrays[name]
        n_rows = array.shape[0]
        step = max(1, STRIP_BYTES // (4 * math.prod(array.shape[1:])))
        for start in range(0, n_rows, step):
            yield array.rows(start, min(start + step, n_rows)).read()

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
        return _EMBEDDING if self.tied else _PROJECTION

    @cached_property
    def tied(self) -> bool:
        """Whether the vocabulary projection is the token embedding."""
        if _PROJECTION not in self._arrays:
            return True
        pairs = zip(self._strips(_PROJECTION), self._strips(_EMBEDDING), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)

    def generation_config(self) -> dict[str, Any]:
        """Return `generation_config.json`, or CTranslate2's counterpart; may be empty."""
        return read_configs(self.directory)[1]


def read_configs(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `config.json` and `generation_config.json`, or CTranslate2's counterparts."""
    if is_ctranslate2(directory):
        return read_settings(directory)
    path = directory / "generation_config.json"
    generation = read_json_object(path) if path.is_file() else {}
    return read_json_object(directory / "config.json"), generation


def _find_arrays(directory: Path) -> tuple[Path, ...]:
    """Return the safetensors files of a checkpoint."""
    index, place = directory / INDEX_FILE, display_path(directory)
    if (directory / SINGLE_FILE).is_file():
        return (directory / SINGLE_FILE,)
    if index.is_file():
        try:
            shards = decode(dict[str, str], read_json_object(index).get("weight_map"), "weight_map")
            names = sorted(set(shards.values()))
            strange = [n for n in names if Path(n).name != n or not n.endswith(".safetensors")]
            if strange or not names:
                raise MismatchError(f"weight_map names {(strange or ['nothing'])[0]!r}")
        except MismatchError as error:
            raise ModelError(
                f"{display_path(index)}: {error}, expected safetensors files of the same "
                "directory; fetch the checkpoint again"
            ) from error
        for name in names:
            check_file_name(name)
        absent = [name for name in names if not (directory / name).is_file()]
        if absent:
            raise ModelError(
                f"{place} lacks {', '.join(absent[:MAX_LISTED])} ({len(absent)} of {len(names)} "
                f"files that {INDEX_FILE} names); fetch the checkpoint again"
            )
        return tuple(directory / name for name in names)
    pickle = next((name for name in PICKLES if (directory / name).exists()), None)
    if pickle is not None:
        raise ModelError(
            f"{place} has its arrays in {pickle}, a pickle, which can run code and is not opened; "
            f"expected {SINGLE_FILE}: make it where you trust the file with Transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        )
    raise ModelError(
        f"{place} has no {SINGLE_FILE} and no {INDEX_FILE}; fetch the checkpoint again"
    )
