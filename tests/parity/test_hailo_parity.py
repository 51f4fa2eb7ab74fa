"""Hailo forms against Transformers and against the cached decoder, at tiny's and base's true sizes.

Tolerances are relative to max(1, largest reference value): 1e-4 for features and for logits. The
whole of small, its English form and large-v3-turbo take minutes and 12 GB; run them by

    WHISPER_HAILO_FULL_SIZES=1 python -m pytest tests/parity/test_hailo_parity.py -k full -rP
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec

torch = pytest.importorskip("torch", reason="parity with Transformers needs torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, not ours
    pytest.importorskip(
        "transformers", reason="parity with Transformers needs transformers"
    )
    from tests.parity import checkpoints, reference

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

pytestmark = pytest.mark.filterwarnings("default")

TOLERANCE = 1e-4

CONFIGS = {
    "tiny": (checkpoints.TINY, HailoOptions()),
    "base": (checkpoints.BASE, HailoOptions()),
    "english": (checkpoints.ENGLISH, HailoOptions(window_s=3, decoder_length=17)),
    "turbo": (checkpoints.TURBO, HailoOptions(window_s=30, decoder_length=9)),
    "small-of-two-layers": (
        checkpoints.SMALL_MODEL | {"encoder_layers": 2, "decoder_layers": 2},
        HailoOptions(),
    ),
}

FULL = {
    "full-small": (checkpoints.SMALL_MODEL, HailoOptions()),
    "full-small.en": (checkpoints.SMALL_MODEL | {"vocab_size": 51864}, HailoOptions()),
    "full-large-v3-turbo": (checkpoints.LARGE_V3_TURBO, HailoOptions()),
}

NOT_ASKED_FOR = pytest.mark.skipif(
    "WHISPER_HAILO_FULL_SIZES" not in os.environ,
    reason="minutes and 12 GB; WHISPER_HAILO_FULL_SIZES=1 asks for it",
)


@dataclass(frozen=True)
class Pair:
    """A model in both worlds."""

    torch_model: WhisperForConditionalGeneration
    directory: Path
    spec: ModelSpec

    def session(self, part: int) -> onnxruntime.InferenceSession:
        path = self.directory / self.spec.hailo[part].file
        return onnxruntime.InferenceSession(
            str(path), providers=["CPUExecutionProvider"]
        )


@pytest.fixture(
    scope="module",
    params=[*CONFIGS, *(pytest.param(name, marks=NOT_ASKED_FOR) for name in FULL)],
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    config, options = (CONFIGS | FULL)[request.param]
    directory = tmp_path_factory.mktemp(request.param)
    model = checkpoints.save_random(directory / "checkpoint", config)
    out = directory / "model"
    spec = convert_checkpoint(
        directory / "checkpoint", out, ConvertOptions("none", hailo=options)
    )
    return Pair(model, out, spec)


def test_encoder(pair: Pair) -> None:
    (shape,) = pair.spec.hailo[0].inputs.values()
    mel = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (got,) = pair.session(0).run(None, {"x.1": mel})
    expected = reference.encode(pair.torch_model, mel[:, :, 0])
    assert got.shape == expected.shape
    difference = reference.relative_difference(got, expected)
    sys.stdout.write(f"features: {difference:.1e}\n")
    assert difference < TOLERANCE


def _cached(
    pair: Pair, tokens: NDArray[np.int64], features: NDArray[np.float32]
) -> list[NDArray[np.float32]]:
    """Logits of each position, one step at a time."""
    rows = []
    with CachedDecoder(pair.directory, pair.spec, threads=2) as decoder:
        state = decoder.start(features, (Padding(None),))
        for position in range(tokens.shape[1]):
            out, state = decoder.step(
                tokens[:, position : position + 1], state, np.array([0])
            )
            rows.append(out.logits[:, 0].copy())
    return rows


def test_decoder(pair: Pair) -> None:
    """Against the cached decoder and against Transformers, at every position."""
    shapes = pair.spec.hailo[1].inputs
    rng = np.random.default_rng(1)
    mel = rng.standard_normal(
        (1, pair.spec.dims.n_mels, 2 * shapes["encoder_hidden_states"][1])
    )
    features = reference.encode(pair.torch_model, mel.astype(np.float32))
    tokens = rng.integers(0, pair.spec.dims.n_vocab, shapes["decoder_input_ids"])
    feed = {"decoder_input_ids": tokens, "encoder_hidden_states": features}
    (got,) = pair.session(1).run(None, feed)
    cached = [
        reference.relative_difference(got[:, position], row)
        for position, row in enumerate(_cached(pair, tokens, features))
    ]
    expected = reference.logits(pair.torch_model, tokens, features, None)
    difference = reference.relative_difference(got, expected)
    sys.stdout.write(
        f"logits: {max(cached):.1e} from cached, {difference:.1e} from Transformers\n"
    )
    assert max(cached) < TOLERANCE, f"position {int(np.argmax(cached))}"
    assert difference < TOLERANCE
