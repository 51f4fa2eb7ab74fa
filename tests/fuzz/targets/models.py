"""Model directories: one file broken, with its hash or without, and a second of noise heard."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from random import Random

import numpy as np

from tests.fuzz.mutate import mutated_bytes, mutated_json
from tests.fuzz.target import Input
from tests.fuzz.targets.toy import toy_model
from whisper_hailo.convert.inspect import describe_model
from whisper_hailo.core.spec import SPEC_FILE
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber

HONEST = "honest-"
"""Begins the name of a file whose hash is made to fit: by a stranger, not by a fault."""


class Fuzzed:
    """A file of the toy's model directory."""

    def __init__(self) -> None:
        self._noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)

    def prepare(self, base: Path) -> None:
        """The model directory."""
        toy_model(base)

    def make(self, rng: Random, base: Path) -> Input:
        """Half of them the description, the others any file."""
        model = toy_model(base)
        files = sorted(
            json.loads((model / SPEC_FILE).read_text(encoding="utf-8"))["files"]
        )
        name = SPEC_FILE if rng.random() < 0.6 else rng.choice(files)
        data = (model / name).read_bytes()
        if name.endswith(".json") and rng.random() < 0.8:
            content = mutated_json(rng, json.loads(data))
        else:
            content = mutated_bytes(rng, data)
        honest = name != SPEC_FILE and rng.random() < 0.7
        return (HONEST if honest else "") + name.replace("/", "__"), content

    def run(self, folder: Path, base: Path, name: str, content: bytes) -> None:
        """Describe the directory and transcribe with it."""
        model = folder / "model"
        shutil.copytree(toy_model(base), model)
        file = name.removeprefix(HONEST).replace("__", "/")
        (model / file).write_bytes(content)
        if name.startswith(HONEST):
            spec = json.loads((model / SPEC_FILE).read_text(encoding="utf-8"))
            digest = hashlib.sha256(content).hexdigest()
            spec["files"][file] = {"bytes": len(content), "sha256": digest}
            (model / SPEC_FILE).write_text(json.dumps(spec), encoding="utf-8")
        describe_model(model)
        words = bool(len(content) % 2)
        with Transcriber.from_model(str(model), window_s=2, threads=1) as transcriber:
            transcriber.transcribe(self._noise, DecodingOptions(word_timestamps=words))
