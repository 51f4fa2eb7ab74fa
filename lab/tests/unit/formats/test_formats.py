from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import TOY, TOY_FFN, random_arrays, write_checkpoint
from whisper_hailo.audio.log_mel import mel_filters
from whisper_hailo.checkpoint.checkpoint import Checkpoint, expected_shapes
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.paths import CACHE_VARIABLE
from whisper_hailo_lab.formats import prepare
from whisper_hailo_lab.formats.ctranslate2 import read_vocabulary
from whisper_hailo_lab.formats.ggml import (
    openai_name,
    read_ordinary_tokens,
    write_ggml,
)
from whisper_hailo_lab.formats.transformers import write_transformers

MICRO = ASSETS / "micro"


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer of three words, one with a byte beyond ASCII, and control tokens."""
    words = {"a": 0, "Ġb": 1, "Ã¼": 2, "<|endoftext|>": 3}
    added = [{"id": 3, "content": "<|endoftext|>"}, {"id": 4, "content": "<|sot|>"}]
    text = json.dumps({"model": {"type": "BPE", "vocab": words}, "added_tokens": added})
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")


class GgmlReader:
    """Reads a file as whisper.cpp does: field by field to its end."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        self.at = 0

    def take(self, kind: str) -> Any:
        values = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return values if len(values) > 1 else values[0]

    def array(self) -> tuple[str, Any]:
        n_dims, n_name, kind = self.take("3i")
        shape = np.atleast_1d(self.take(f"{n_dims}i"))[::-1]
        name = self.take(f"{n_name}s").decode()
        dtype = np.dtype("<f2" if kind else "<f4")
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        values = np.frombuffer(self.data, dtype, n_bytes // dtype.itemsize, self.at)
        self.at += n_bytes
        return name, values.reshape(shape)


def test_write_ggml_file_has_the_checkpoint(tmp_path: Path) -> None:
    arrays = random_arrays()
    checkpoint = write_checkpoint(tmp_path / "toy", arrays)
    write_tokenizer(checkpoint)
    write_ggml(checkpoint, tmp_path / "toy.bin")
    reader = GgmlReader(tmp_path / "toy.bin")
    assert reader.take("I") == 0x67676D6C
    assert reader.take("11i") == (200, 150, 64, 1, 1, 64, 64, 2, 2, 80, 1)
    assert reader.take("2i") == (80, 201)
    filters = np.array(reader.take(f"{80 * 201}f")).reshape(80, 201)
    np.testing.assert_allclose(filters, mel_filters(80), rtol=1e-6)
    words = [reader.take(f"{reader.take('i')}s") for _ in range(reader.take("i"))]
    assert words == [b"a", b" b", "ü".encode()]
    arrays_read = {}
    while reader.at < len(reader.data):
        name, values = reader.array()
        arrays_read[name] = values
    stored = {name.removeprefix("model."): array for name, array in arrays.items()}
    for name in expected_shapes(TOY, TOY_FFN, TOY_FFN):
        array_read = arrays_read.pop(openai_name(name))
        np.testing.assert_allclose(
            array_read.reshape(stored[name].shape), stored[name], atol=2e-3
        )
    assert arrays_read == {}


def test_write_ggml_halves_matrices_only(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "toy", random_arrays())
    write_tokenizer(checkpoint)
    write_ggml(checkpoint, tmp_path / "toy.bin")
    data = (tmp_path / "toy.bin").read_bytes()
    for name, kind, n_dims in (
        (b"encoder.conv1.bias", 0, 2),
        (b"encoder.positional_embedding", 0, 2),
        (b"decoder.token_embedding.weight", 1, 2),
        (b"encoder.conv1.weight", 1, 3),
    ):
        at = data.index(name) - 4 * n_dims - 12
        assert struct.unpack_from("<3i", data, at) == (n_dims, len(name), kind)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("encoder.conv1.weight", "encoder.conv1.weight"),
        ("decoder.embed_tokens.weight", "decoder.token_embedding.weight"),
        (
            "encoder.layers.3.self_attn.k_proj.weight",
            "encoder.blocks.3.attn.key.weight",
        ),
        (
            "decoder.layers.0.encoder_attn_layer_norm.bias",
            "decoder.blocks.0.cross_attn_ln.bias",
        ),
        ("decoder.layers.11.fc2.bias", "decoder.blocks.11.mlp.2.bias"),
        ("decoder.layer_norm.weight", "decoder.ln.weight"),
    ],
)
def test_openai_name_translates_names(name: str, expected: str) -> None:
    assert openai_name(name) == expected


def test_openai_names_are_unique() -> None:
    names = [openai_name(name) for name in expected_shapes(TOY, TOY_FFN, TOY_FFN)]
    assert len(set(names)) == len(names)


def test_read_vocabulary_has_all_ids() -> None:
    words = read_vocabulary(MICRO / "tokenizer.json", 51865)
    assert len(words) == 51865
    assert words[50257:50260] == ["<|endoftext|>", "<|startoftranscript|>", "<|en|>"]
    assert words[50364] == "<|0.00|>"
    assert words[-1] == "<|30.00|>"


def test_read_vocabulary_adds_missing_timestamps(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    words = read_vocabulary(tmp_path / "tokenizer.json", 7)
    assert words == [
        "a",
        "Ġb",
        "Ã¼",
        "<|endoftext|>",
        "<|sot|>",
        "<|0.00|>",
        "<|0.02|>",
    ]


def test_read_vocabulary_without_tokenizer_raises(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "toy", random_arrays())
    for read in (read_ordinary_tokens, lambda path: read_vocabulary(path, 10)):
        with pytest.raises(ModelError, match=r"tokenizer\.json"):
            read(checkpoint / "tokenizer.json")


def test_prepare_artefact_converts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_HAILO_CACHE", str(tmp_path / "cache"))
    checkpoint = write_checkpoint(tmp_path / "toy", random_arrays())
    write_tokenizer(checkpoint)
    first = prepare.prepare_artefact("whisper-cpp", str(checkpoint))
    written = Path(first.path).stat().st_mtime_ns
    assert Path(first.path).parent == tmp_path / "cache" / "rivals"
    again = prepare.prepare_artefact("whisper-cpp", str(checkpoint))
    assert again == first
    assert Path(again.path).stat().st_mtime_ns == written
    assert list(first.sha256) == [Path(first.path).name]
    assert [
        p.name for p in Path(first.path).parent.iterdir() if p.name.startswith(".")
    ] == []
    write_checkpoint(checkpoint, random_arrays(seed=1))
    assert prepare.prepare_artefact("whisper-cpp", str(checkpoint)).path != first.path


def test_prepare_artefact_accepts_the_program_s_format(tmp_path: Path) -> None:
    (tmp_path / "ggml-tiny.bin").write_bytes(b"ggml")
    path = str(tmp_path / "ggml-tiny.bin")
    assert prepare.prepare_artefact("whisper-cpp", path).path == path
    (tmp_path / "model.bin").write_bytes(b"ct2")
    assert prepare.prepare_artefact("faster-whisper", str(tmp_path)).path == str(
        tmp_path
    )
    assert prepare.prepare_artefact("moonshine", "tiny").path == "tiny"


def test_prepare_artefact_of_ours_keeps_the_name() -> None:
    assert prepare.prepare_artefact("ours", "micro").path == "micro"
    assert prepare.prepare_artefact("transformers", "micro").path == str(MICRO)
    assert list(prepare.prepare_artefact("ours", "micro").sha256) == [
        "model.safetensors"
    ]


def test_write_transformers_reads_back_as_the_checkpoint(tmp_path: Path) -> None:
    write_transformers(MICRO, tmp_path / "out")
    written = Checkpoint(tmp_path / "out")
    original = Checkpoint(MICRO)
    assert written.config == original.config
    for name in ("encoder.conv1.weight", "decoder.layers.0.fc1.bias"):
        np.testing.assert_array_equal(written.read(name), original.read(name))
    tokenizer = MICRO / "tokenizer.json"
    tokens = read_special_tokens(MICRO, tokenizer)
    assert read_special_tokens(tmp_path / "out", tokenizer) == tokens


def test_use_cache_of_another_engine_empties_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "elsewhere")
    ours = tmp_path / "models" / "tiny"
    rivals = tmp_path / "rivals" / "tiny"
    prepare.use_cache(tmp_path)
    assert os.environ[CACHE_VARIABLE] == str(tmp_path)
    ours.mkdir(parents=True)
    rivals.mkdir(parents=True)
    prepare.use_cache(tmp_path)
    assert ours.is_dir()
    monkeypatch.setattr(prepare, "engine_key", lambda: {"source": "another"})
    prepare.use_cache(tmp_path)
    assert not ours.exists()
    assert rivals.is_dir()
