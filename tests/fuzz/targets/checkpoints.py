"""Checkpoints: one of their files broken, converted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from tests.fuzz.mutate import mutated_bytes, mutated_json
from tests.fuzz.target import Input
from tests.fuzz.targets.toy import toy_checkpoint
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.find_model import describe
from whisper_hailo.convert.options import ConvertOptions

JSON = ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors.index.json")
OLD = ("vocab.json", "merges.txt", "added_tokens.json")
SHARD = "model-00001-of-00002.safetensors"
LENGTH_BYTES = 8


class Fuzzed:
    """A file of the toy checkpoint, or of the older form of its tokenizer."""

    def prepare(self, base: Path) -> None:
        """The checkpoint, and its tokenizer in the older files."""
        folder = toy_checkpoint(base)
        old = base / "toy" / "old"
        if not old.is_dir():
            old.mkdir()
            raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            added = {token["content"]: token["id"] for token in raw["added_tokens"]}
            (old / "vocab.json").write_text(json.dumps(raw["model"]["vocab"]), encoding="utf-8")
            (old / "merges.txt").write_text("#version: 0.2\n! !\n", encoding="utf-8")
            (old / "added_tokens.json").write_text(json.dumps(added), encoding="utf-8")

    def make(self, rng: Random, base: Path) -> Input:
        """Mostly JSON, whose values are what a reader believes."""
        name = rng.choice((*JSON, *JSON, *OLD, SHARD, SHARD))
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
        (checkpoint / name).write_bytes(content)
        kinds = ("none", "int8", "int4")
        options = ConvertOptions(kinds[len(content) % 3], encoder_quantize=kinds[len(content) % 2])
        if len(content) % 7 == 0:
            for weights in checkpoint.glob("*.safetensors*"):
                weights.unlink()
            describe(checkpoint)
        else:
            convert_checkpoint(checkpoint, folder / "out", options)


def _safetensors(rng: Random, data: bytes) -> bytes:
    """Mostly the header, whose length is then right; else bytes anywhere, also of the weights."""
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    if rng.random() < 0.3:
        return mutated_bytes(rng, data)
    header = data[LENGTH_BYTES : LENGTH_BYTES + length]
    header = mutated_json(rng, json.loads(header))
    return len(header).to_bytes(LENGTH_BYTES, "little") + header + data[LENGTH_BYTES + length :]
