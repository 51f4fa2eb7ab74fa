"""Checkpoints: one of their files broken, converted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from tests.checkpoints import SETTINGS, model_bytes, random_arrays, variables_of
from tests.fuzz.mutate import mutated_bytes, mutated_json
from tests.fuzz.target import Input
from tests.fuzz.targets.toy import toy_checkpoint
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.model_cache import describe
from whisper_hailo.convert.options import ConvertOptions

JSON = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "model.safetensors.index.json",
)
OLD = ("vocab.json", "merges.txt", "added_tokens.json")
SHARD = "model-00001-of-00002.safetensors"
CTRANSLATE2 = "model.bin"
CONFIG_OF_IT = "ctranslate2__config.json"
LENGTH_BYTES = 8


class Fuzzed:
    """A file of the toy checkpoint, of the older form of its tokenizer, or of CTranslate2's."""

    def prepare(self, base: Path) -> None:
        """The checkpoint, its weights as CTranslate2 has them, its tokenizer in older files."""
        folder = toy_checkpoint(base)
        _ctranslate2(base)
        old = base / "toy" / "old"
        if not old.is_dir():
            old.mkdir()
            raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            added = {token["content"]: token["id"] for token in raw["added_tokens"]}
            (old / "vocab.json").write_text(
                json.dumps(raw["model"]["vocab"]), encoding="utf-8"
            )
            (old / "merges.txt").write_text("#version: 0.2\n! !\n", encoding="utf-8")
            (old / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")

    def make(self, rng: Random, base: Path) -> Input:
        """Mostly JSON, whose values are what a reader believes."""
        name = rng.choice((*JSON, *JSON, *OLD, SHARD, SHARD, CTRANSLATE2, CONFIG_OF_IT))
        if name == CTRANSLATE2:
            return name, _near_a_name(rng, _ctranslate2(base))
        if name == CONFIG_OF_IT:
            return name, mutated_json(rng, SETTINGS)
        folder = base / "toy" / ("old" if name in OLD else "checkpoint")
        data = (folder / name).read_bytes()
        if name == SHARD:
            return name, _safetensors(rng, data)
        if name.endswith(".json") and rng.random() < 0.8:
            return name, mutated_json(rng, json.loads(data))
        return name, mutated_bytes(rng, data)

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Convert it, in a form that follows from the input; describe it, without its arrays."""
        checkpoint = folder / "checkpoint"
        shutil.copytree(toy_checkpoint(base), checkpoint)
        if name in OLD:
            (checkpoint / "tokenizer.json").unlink()
            for old in OLD:
                shutil.copy(base / "toy" / "old" / old, checkpoint)
        if name in (CTRANSLATE2, CONFIG_OF_IT):
            for weights in checkpoint.glob("*.safetensors*"):
                weights.unlink()
            (checkpoint / CTRANSLATE2).write_bytes(_ctranslate2(base))
            (checkpoint / "config.json").write_text(
                json.dumps(SETTINGS), encoding="utf-8"
            )
        (checkpoint / name.rpartition("__")[2]).write_bytes(content)
        kinds = ("none", "int8", "int4")
        options = ConvertOptions(
            kinds[len(content) % 3], encoder_quantize=kinds[len(content) % 2]
        )
        if len(content) % 7 == 0 and not (checkpoint / CTRANSLATE2).exists():
            for weights in checkpoint.glob("*.safetensors*"):
                weights.unlink()
            describe(checkpoint)
        else:
            convert_checkpoint(checkpoint, folder / "out", options)


def _ctranslate2(base: Path) -> bytes:
    """The toy's weights in 8 bits as CTranslate2 stores them."""
    path = base / "toy" / CTRANSLATE2
    if not path.is_file():
        opened = Checkpoint(toy_checkpoint(base))
        arrays = {name: opened.read(name) for name in random_arrays()}
        path.write_bytes(model_bytes(variables_of(arrays, dtype="int8")))
    return path.read_bytes()


def _near_a_name(rng: Random, data: bytes) -> bytes:
    """Mostly a variable's name, shape and length; else bytes anywhere, also of the weights."""
    start = max(0, data.rfind(b"/", 0, rng.randrange(len(data))) - 16)
    if rng.random() < 0.3:
        return mutated_bytes(rng, data)
    return (
        data[:start] + mutated_bytes(rng, data[start : start + 64]) + data[start + 64 :]
    )


def _safetensors(rng: Random, data: bytes) -> bytes:
    """Mostly the header, whose length is then right; else bytes anywhere, also of the weights."""
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    if rng.random() < 0.3:
        return mutated_bytes(rng, data)
    header = data[LENGTH_BYTES : LENGTH_BYTES + length]
    header = mutated_json(rng, json.loads(header))
    return (
        len(header).to_bytes(LENGTH_BYTES, "little")
        + header
        + data[LENGTH_BYTES + length :]
    )
