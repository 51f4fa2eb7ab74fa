"""A Hugging Face Whisper checkpoint directory: its config, and its arrays by name, one at a time.

Arrays stay in their safetensors files until asked for, and large ones are read some rows at a
time. Pickles (`pytorch_model.bin`) can run code and are never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whisper_hailo.convert.graphs.weights import AnyArray, Weight
from whisper_hailo.convert.layout import Shapes, expected_shapes
from whisper_hailo.convert.stored import DTYPES, StoredArray, stored_arrays
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import read_json_object
from whisper_hailo.core.spec import Dimensions

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
MAX_LISTED = 3
COMPARED_ROWS = 4096

STRIP_BYTES = 1 << 20
"""Arrays larger than that are read, hashed and written in strips of rows, which fit the cache."""


@dataclass(frozen=True, slots=True)
class Config:
    """What of `config.json` shapes the graphs.

    Attributes:
        dims: sizes of both halves.
        encoder_ffn: inner width of the encoder's MLPs.
        decoder_ffn: inner width of the decoder's MLPs.
    """

    dims: Dimensions
    encoder_ffn: int
    decoder_ffn: int


class Checkpoint:
    """A Whisper checkpoint, opened and checked; arrays are read when asked for.

    Args:
        directory: holds `config.json` and one or several safetensors files.

    Raises:
        ModelError: no checkpoint, another architecture, arrays missing or misshapen.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = read_config(directory)
        self.files = _find_arrays(directory)
        self._where: dict[str, StoredArray] = {}
        self._shapes: Shapes = {}
        for path in self.files:
            self._index(path)
        self._check()

    def _index(self, path: Path) -> None:
        """Note the names, shapes and dtypes of one file; a leading `model.` is optional."""
        for stored, array in stored_arrays(path).items():
            if array.dtype not in DTYPES:
                raise ModelError(
                    f"{path.name}: {stored} is {array.dtype}, expected one of "
                    f"{', '.join(DTYPES)}; quantised checkpoints cannot be converted, "
                    "use the original one"
                )
            name = stored.removeprefix("model.")
            self._where[name] = array
            self._shapes[name] = array.shape

    def _check(self) -> None:
        """Every array that the graphs need is there and has the config's shape."""
        expected = expected_shapes(
            self.config.dims, self.config.encoder_ffn, self.config.decoder_ffn
        )
        missing = [name for name in expected if name not in self._shapes]
        if missing:
            listed = ", ".join(missing[:MAX_LISTED])
            more = f" and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
            raise ModelError(
                f"{self.directory}: missing array {listed}{more} of {len(expected)} that "
                "config.json asks for; fetch the checkpoint again, all its safetensors files"
            )
        if "proj_out.weight" in self._shapes:
            expected["proj_out.weight"] = expected["decoder.embed_tokens.weight"]
        for name, shape in expected.items():
            if self._shapes[name] != shape:
                raise ModelError(
                    f"{self.directory}: array {name} has shape {self._shapes[name]}, expected "
                    f"{shape} by config.json; arrays and config are of different models"
                )
        key_bias = next((name for name in self._shapes if name.endswith("k_proj.bias")), None)
        if key_bias is not None:
            raise ModelError(
                f"{self.directory}: array {key_bias} is not part of Whisper, whose keys have no "
                "bias; this is a checkpoint of another architecture"
            )

    def weight(self, name: str) -> Weight:
        """A promise of an array as float32; `name` is without the `model.` prefix."""
        shape = self._shapes[name]
        return Weight(shape, "float32", lambda: self.read(name), lambda: self._strips(name))

    def _strips(self, name: str) -> Iterator[AnyArray]:
        """An array from its first row to its last, some at a time."""
        stored = self._where[name]
        n_rows = stored.shape[0] if stored.shape else 0
        row_bytes = 4 * int(np.prod(stored.shape[1:], dtype=np.int64))
        step = max(1, STRIP_BYTES // max(1, row_bytes))
        if n_rows <= step:
            yield stored.read()
            return
        for start in range(0, n_rows, step):
            yield stored.rows(start, min(start + step, n_rows))

    def rows(self, name: str, start: int, stop: int) -> Weight:
        """A promise of some rows of an array as float32; only they are ever read."""
        shape = (stop - start, *self._shapes[name][1:])
        return Weight(shape, "float32", lambda: self._where[name].rows(start, stop))

    def read(self, name: str) -> AnyArray:
        """Read one array as float32.

        Raises:
            ModelError: the file has become unreadable.
        """
        return self._where[name].read()

    def projection(self) -> Weight:
        """Vocabulary projection `(n_vocab, d_model)`: the token embedding, unless untied."""
        return self.weight(self.projection_name)

    @property
    def projection_name(self) -> str:
        """Name of the array that projects to the vocabulary."""
        return "decoder.embed_tokens.weight" if self.tied else "proj_out.weight"

    @cached_property
    def tied(self) -> bool:
        """Whether the vocabulary projection is the token embedding itself."""
        if "proj_out.weight" not in self._where:
            return True
        pairs = zip(
            self._rows("proj_out.weight"), self._rows("decoder.embed_tokens.weight"), strict=True
        )
        return all(np.array_equal(a, b) for a, b in pairs)

    def _rows(self, name: str) -> Iterator[AnyArray]:
        """The rows of a matrix, some thousands at a time."""
        stored = self._where[name]
        for start in range(0, stored.shape[0], COMPARED_ROWS):
            yield stored.rows(start, min(start + COMPARED_ROWS, stored.shape[0]))

    def generation_config(self) -> dict[str, Any]:
        """`generation_config.json`, or an empty dict."""
        path = self.directory / "generation_config.json"
        return read_json_object(path) if path.is_file() else {}


def read_config(directory: Path) -> Config:
    """Read and check `config.json`.

    Raises:
        ModelError: no checkpoint, another architecture, or a variant that is not supported.
    """
    if not directory.is_dir():
        raise ModelError(
            f"{directory} is no directory; give a Hugging Face checkpoint directory or a hub id"
        )
    path = directory / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{directory} is no checkpoint: it has no config.json; "
            "give a directory saved by Transformers' save_pretrained"
        )
    raw = read_json_object(path)
    if raw.get("model_type") != "whisper":
        raise ModelError(
            f"{path} is of model type {raw.get('model_type')!r}, expected 'whisper'; "
            "only Whisper checkpoints can be converted"
        )
    activation = raw.get("activation_function", "gelu")
    if activation != "gelu":
        raise ModelError(
            f"{path} asks for activation function {activation!r}, only 'gelu' is supported"
        )
    if raw.get("scale_embedding"):
        raise ModelError(f"{path} asks for scale_embedding, which is not supported")
    return _dimensions(raw, path)


def _dimensions(raw: dict[str, Any], path: Path) -> Config:
    def size(key: str) -> int:
        value = raw.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{path} has {key} = {value!r}, expected a positive whole number")
        return value

    dims = Dimensions(
        n_mels=size("num_mel_bins"),
        n_audio_ctx=size("max_source_positions"),
        d_model=size("d_model"),
        n_encoder_layers=size("encoder_layers"),
        n_encoder_heads=size("encoder_attention_heads"),
        n_decoder_layers=size("decoder_layers"),
        n_decoder_heads=size("decoder_attention_heads"),
        n_text_ctx=size("max_target_positions"),
        n_vocab=size("vocab_size"),
    )
    return Config(dims, size("encoder_ffn_dim"), size("decoder_ffn_dim"))


def _find_arrays(directory: Path) -> tuple[Path, ...]:
    """The safetensors files of a checkpoint."""
    index = directory / INDEX_FILE
    if (directory / SINGLE_FILE).is_file():
        return (directory / SINGLE_FILE,)
    if index.is_file():
        shards = read_json_object(index).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelError(f"{index} has no weight_map; fetch the checkpoint again")
        names = sorted(set(map(str, shards.values())))
        strange = [n for n in names if Path(n).name != n or not n.endswith(".safetensors")]
        if strange:
            raise ModelError(
                f"{index} names {strange[0]!r}, expected safetensors files of the same directory; "
                "fetch the checkpoint again"
            )
        paths = tuple(directory / name for name in names)
        absent = [path.name for path in paths if not path.is_file()]
        if absent:
            raise ModelError(
                f"{directory} lacks {', '.join(absent[:MAX_LISTED])} ({len(absent)} of "
                f"{len(paths)} files that {INDEX_FILE} names); fetch the checkpoint again"
            )
        return paths
    pickle = next((name for name in PICKLES if (directory / name).exists()), None)
    if pickle is not None:
        raise ModelError(
            f"{directory} has its arrays in {pickle}, a pickle, which can run code and is not "
            f"opened; expected {SINGLE_FILE}: make it where you trust the file with Transformers: "
            "WhisperForConditionalGeneration.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        )
    raise ModelError(
        f"{directory} has no {SINGLE_FILE} and no {INDEX_FILE}; fetch the checkpoint again"
    )
