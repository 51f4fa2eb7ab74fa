"""CTranslate2 Whisper directories as checkpoints: their arrays and settings under our names.

faster-whisper and others publish models in this format: `model.bin`, `config.json`, and mostly
`tokenizer.json`. Nothing is copied: an array is a range of `model.bin`. The format joins queries,
keys and values into one product, whose keys have a bias of zero.

`model.bin` holds a version, the names and revision of a specification, variables, and aliases of
variables. A string is its length with the null byte at its end (16 bits) and its bytes. A variable
is its name, axes (8 bits), sizes (32), number format (8), length in bytes (32), and bytes.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from whisper_hailo.checkpoint.config import (
    ENGLISH_N_VOCAB,
    INDEX_FILE,
    SINGLE_FILE,
    Config,
)
from whisper_hailo.checkpoint.weights import DTYPES, STORED_DTYPES, StoredArray
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.spec import Dimensions
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object

MODEL_FILE: Final = "model.bin"
CONFIG_FILE: Final = "config.json"

BINARY_VERSION: Final = 6
"""Version of the file since 2022."""

SPEC_NAME: Final = "WhisperSpec"
SPEC_REVISION: Final = 3
"""Revision of Whisper models since CTranslate2 3.6 (2023)."""

TYPES: Final = ("F32", "I8", "I16", "I32", "F16", "BF16")
"""Number formats, in the order of CTranslate2's numbers for them."""

SCALE_SUFFIX: Final = "_scale"

_MOST_VARIABLES: Final = 1 << 14
"""Eight times those of large-v3 with scales."""

_MOST_AXES: Final = 3
"""Those of a convolution's kernels."""

_LAYER: Final = re.compile(
    r"(encoder|decoder)/layer_(\d{1,3})/(.+)/(weight|bias|gamma|beta)"
)
_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "self_attention/linear_0": (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
    ),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
}
"""CTranslate2's name of a layer's part, and the names of the modules that it joins."""

_ENDINGS: Final = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
}
_OUTSIDE_LAYERS: Final = {
    "encoder/conv1/weight": "encoder.conv1.weight",
    "encoder/conv1/bias": "encoder.conv1.bias",
    "encoder/conv2/weight": "encoder.conv2.weight",
    "encoder/conv2/bias": "encoder.conv2.bias",
    "encoder/position_encodings/encodings": "encoder.embed_positions.weight",
    "encoder/layer_norm/gamma": "encoder.layer_norm.weight",
    "encoder/layer_norm/beta": "encoder.layer_norm.bias",
    "decoder/embeddings/weight": "decoder.embed_tokens.weight",
    "decoder/projection/weight": "proj_out.weight",
    "decoder/position_encodings/encodings": "decoder.embed_positions.weight",
    "decoder/layer_norm/gamma": "decoder.layer_norm.weight",
    "decoder/layer_norm/beta": "decoder.layer_norm.bias",
}
_ATTRIBUTES: Final = {
    "decoder/activation": 3,  # GELU
    "decoder/pre_norm": 1,
    "decoder/scale_embeddings": 0,
}
"""What every Whisper has."""


def is_ctranslate2(directory: Path) -> bool:
    """Return whether a directory has its arrays in CTranslate2's format."""
    # Where there are safetensors files, too, they are the original.
    if os.path.isfile(directory / SINGLE_FILE) or os.path.isfile(
        directory / INDEX_FILE
    ):
        return False
    return os.path.isfile(directory / MODEL_FILE)


def open_ctranslate2(directory: Path) -> tuple[Config, dict[str, StoredArray]]:
    """Return sizes and arrays of a directory, by Hugging Face's names without `model.`.

    Raises:
        ModelError: not a Whisper model, truncated, or an unsupported variant.
    """
    path = directory / MODEL_FILE
    try:
        with path.open("rb") as file:
            variables = _Reader(file, path).read_variables()
        for name, expected in _ATTRIBUTES.items():
            value = _read_attribute(variables, name, expected)
            if value != expected:
                raise _FormatError(
                    f"has {name} = {value}, expected {expected}; this is a model of another "
                    "architecture"
                )
        arrays = dict(_rename_arrays(variables))
        embedding = arrays.get("decoder.embed_tokens.weight")
        projection = arrays.get("proj_out.weight")
        # An alias of it: they are tied.
        if projection is not None and projection == embedding:
            del arrays["proj_out.weight"]
        return _derive_config(variables, arrays), arrays
    except OSError as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error.strerror or error})"
        ) from error
    except _FormatError as error:
        raise ModelError(f"{display_path(path)} {error}") from error


class _FormatError(Exception):
    """The file has unexpected content; the message says which, and what to do."""


class _Reader:
    """Reads the fields of a `model.bin` in order."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file = file
        self._path = path
        self._size = path.stat().st_size

    def read_variables(self) -> dict[str, StoredArray]:
        """Return the variables by name, with their scales, and under their aliases, too."""
        self._expect_value(self._number("I"), BINARY_VERSION)
        self._expect_value(self._text(), SPEC_NAME)
        self._expect_value(self._number("I"), SPEC_REVISION)
        stored: dict[str, StoredArray] = {}
        for _ in range(self._count("variables")):
            array = self._variable()
            if array.name in stored:
                raise _FormatError(
                    f"has two variables {array.name}; fetch the file again"
                )
            stored[array.name] = array
        names = {name: name for name in stored if not name.endswith(SCALE_SUFFIX)}
        for _ in range(self._count("aliases")):
            alias = self._text()
            names[alias] = self._text()
        return {
            alias: _with_scale(stored[name], stored)
            for alias, name in names.items()
            if name in stored
        }

    def _expect_value(self, value: int | str, expected: int | str) -> None:
        if value != expected:
            raise _FormatError(
                f"has {str(value)[:60]!r} in its header, expected {expected!r}; give a Whisper "
                "model of CTranslate2 3.6 or newer, or the checkpoint that it was made from"
            )

    def _count(self, name: str) -> int:
        count = self._number("I")
        if count > _MOST_VARIABLES:
            raise _FormatError(
                f"names {count} {name}, expected {_MOST_VARIABLES} at most; fetch the file again"
            )
        return count

    def _variable(self) -> StoredArray:
        name = self._text()
        n_axes = self._number("B")
        shape = tuple(self._number("I") for _ in range(n_axes))
        type_id = self._number("B")
        n_bytes = self._number("I")
        is_known = type_id < len(TYPES)
        dtype = TYPES[type_id] if is_known else TYPES[0]
        expected = math.prod(shape) * STORED_DTYPES[dtype].itemsize
        if n_axes > _MOST_AXES or not is_known or n_bytes != expected or n_bytes == 0:
            raise _FormatError(
                f"has {n_axes} axes, number format {type_id} and {n_bytes} bytes in {name}, "
                f"expected up to {_MOST_AXES}, 0 to {len(TYPES) - 1}, and the bytes of its shape; "
                "fetch the file again"
            )
        offset = self._file.tell()
        self._expect_bytes(n_bytes)
        self._file.seek(n_bytes, 1)
        return StoredArray(self._path, name, dtype, shape, offset)

    def _text(self) -> str:
        raw = self._take(self._number("H"))
        if not raw.endswith(b"\0") or not raw.isascii():
            raise _FormatError("has a broken name; fetch the file again")
        return raw[:-1].decode("ascii")

    def _number(self, kind: str) -> int:
        """Read a whole number, whose size is that of a `struct` format."""
        layout = struct.Struct(f"<{kind}")
        (value,) = layout.unpack(self._take(layout.size))
        return int(value)

    def _take(self, n_bytes: int) -> bytes:
        self._expect_bytes(n_bytes)
        return self._file.read(n_bytes)

    def _expect_bytes(self, n_bytes: int) -> None:
        n_remaining = self._size - self._file.tell()
        n_missing = n_bytes - n_remaining
        if n_missing > 0:
            raise _FormatError(
                f"is incomplete: it ends {n_missing} bytes too early; fetch the file again"
            )


def _with_scale(array: StoredArray, stored: dict[str, StoredArray]) -> StoredArray:
    """Return a variable with its scales, one for each row, if it has whole numbers."""
    if array.dtype in DTYPES or not array.shape:
        return array
    scale = stored.get(array.name + SCALE_SUFFIX)
    if scale is None or scale.dtype not in DTYPES or scale.shape != array.shape[:1]:
        scales = "none" if scale is None else f"{scale.dtype} {scale.shape}"
        raise _FormatError(
            f"has scales {scales} for array {array.name} of {array.dtype} {array.shape}, expected "
            f"floats {array.shape[:1]}; give a model of float32, float16, bfloat16 or int8"
        )
    return replace(array, scale=scale)


def _rename_arrays(
    variables: dict[str, StoredArray],
) -> Iterator[tuple[str, StoredArray]]:
    """Yield the arrays by Hugging Face's names."""
    for name, array in variables.items():
        if not array.shape:
            continue  # an attribute
        if name in _OUTSIDE_LAYERS:
            yield _OUTSIDE_LAYERS[name], array
        else:
            yield from _split_array(name, array)


def _split_array(name: str, array: StoredArray) -> Iterator[tuple[str, StoredArray]]:
    """Yield the arrays that are joined in one array of a layer, by Hugging Face's names."""
    match = _LAYER.fullmatch(name)
    modules = _MODULES.get(match[3], ()) if match else ()
    if not match or not modules:
        raise _FormatError(
            f"has an array {name}, which does not belong in a Whisper model; this is a model of "
            "another architecture, or one quantised in another way"
        )
    part, layer, _, kind = match.groups()
    n_rows, rest = divmod(array.shape[0], len(modules))
    if rest:
        raise _FormatError(
            f"has an array {name} of {array.shape[0]} rows, expected a multiple of "
            f"{len(modules)}; fetch the file again"
        )
    for index, module in enumerate(modules):
        rows = array.rows(index * n_rows, (index + 1) * n_rows)
        if module.endswith("k_proj") and kind == "bias":
            # Whisper's keys have none; here it is zeros, which are left out.
            if len(rows.shape) != 1 or rows.read().any():
                raise _FormatError(
                    f"has keys of {name} with a bias, expected none; this is a model of another "
                    "architecture"
                )
        else:
            yield f"{part}.layers.{int(layer)}.{module}.{_ENDINGS[kind]}", rows


def _derive_config(
    variables: dict[str, StoredArray], arrays: dict[str, StoredArray]
) -> Config:
    """Derive the sizes from shapes."""

    def size(name: str, axis: int) -> int:
        shape = arrays[name].shape if name in arrays else ()
        if len(shape) <= axis:
            raise _FormatError(
                f"has array {name} of shape {shape}, expected {axis + 1} axes or more; fetch the "
                "file again"
            )
        return shape[axis]

    def n_layers(part: str) -> int:
        return len(
            {key.split(".")[2] for key in arrays if key.startswith(f"{part}.layers.")}
        )

    try:
        dims = Dimensions(
            n_mels=size("encoder.conv1.weight", 1),
            n_audio_ctx=size("encoder.embed_positions.weight", 0),
            d_model=size("encoder.conv1.weight", 0),
            n_encoder_layers=n_layers("encoder"),
            n_encoder_heads=_read_attribute(variables, "encoder/num_heads"),
            n_decoder_layers=n_layers("decoder"),
            n_decoder_heads=_read_attribute(variables, "decoder/num_heads"),
            n_text_ctx=size("decoder.embed_positions.weight", 0),
            n_vocab=size("decoder.embed_tokens.weight", 0),
        )
        encoder_ffn = size("encoder.layers.0.fc1.weight", 0)
        decoder_ffn = size("decoder.layers.0.fc1.weight", 0)
        return Config(dims, encoder_ffn, decoder_ffn)
    except ModelError as error:
        raise _FormatError(f"is not a Whisper model: {error}") from error


def _read_attribute(
    variables: dict[str, StoredArray], name: str, default: int | None = None
) -> int:
    """Return a whole number that is stored as a variable without axes."""
    array = variables.get(name)
    if array is None and default is not None:
        return default
    if array is None or array.shape:
        raise _FormatError(f"has no number {name}; fetch the file again")
    return int(array.read())


@dataclass(frozen=True, slots=True)
class _Stored:
    """The used entries of CTranslate2's `config.json`."""

    suppress_ids: tuple[int, ...] | None = None
    suppress_ids_begin: tuple[int, ...] | None = None
    lang_ids: tuple[int, ...] | None = None
    alignment_heads: tuple[list[int], ...] | None = None


def read_settings(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the token entries of `config.json` and `generation_config.json`.

    CTranslate2's own `config.json` has them under other names, some of them only in its tokenizer.
    """
    path = directory / CONFIG_FILE
    if not path.is_file():
        raise ModelError(
            f"{display_path(directory)} has {MODEL_FILE} and no {CONFIG_FILE}; fetch the whole "
            "directory"
        )
    try:
        stored = decode(_Stored, read_json_object(path))
    except MismatchError as error:
        raise ModelError(
            f"{display_path(path)}: {error}; fetch the file again"
        ) from error
    config, _ = open_ctranslate2(directory)
    n_vocab = config.dims.n_vocab
    is_multilingual = n_vocab > ENGLISH_N_VOCAB
    # A list of languages says so, too, but not of OpenAI's English models, which have one as well.
    if n_vocab < ENGLISH_N_VOCAB and stored.lang_ids:
        is_multilingual = True
    lists = {
        "suppress_tokens": stored.suppress_ids,
        "begin_suppress_tokens": stored.suppress_ids_begin,
        "alignment_heads": stored.alignment_heads,
    }
    generation = {key: [*value] for key, value in lists.items() if value is not None}
    return {"vocab_size": n_vocab}, {**generation, "is_multilingual": is_multilingual}
