"""The float64 reference and the graphs are written apart; they have to agree all the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.checkpoints import random_arrays, write_checkpoint
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_tools.difference import difference
from whisper_hailo_tools.validate.reference import Reference, stage_names

RNG = np.random.default_rng(0)
MEL = RNG.standard_normal((2, 80, 120)).astype(np.float32)
TOKENS = RNG.integers(0, 200, (2, 7))


def test_reference_features_equal_the_encoders(
    toy_checkpoint: Path, toy_model: Path
) -> None:
    expected = Reference(Checkpoint(toy_checkpoint)).encode(MEL)
    with OnnxEncoder(toy_model, ModelSpec.load(toy_model)) as encoder:
        feature_difference = difference(encoder.encode(MEL), expected)
    assert expected.dtype == np.float64
    assert 0 < feature_difference.relative < 1e-5


@pytest.mark.parametrize("pad_to", [0, 30, 150])
def test_reference_logits_equal_the_cached_decoders(
    toy_checkpoint: Path, toy_model: Path, pad_to: int
) -> None:
    """Zero rows that are really there against the one column that stands for them."""
    features = RNG.standard_normal((2, 60, 64)).astype(np.float32)
    expected = Reference(Checkpoint(toy_checkpoint)).logits(TOKENS, features, pad_to)
    with CachedDecoder(toy_model, ModelSpec.load(toy_model)) as decoder:
        state = decoder.start(features, (Padding(pad_to or None),) * 2)
        computed = decoder.step(TOKENS, state, np.arange(7))[0].logits
    assert difference(computed, expected).relative < 1e-5


def test_reference_logits_depend_on_padding(toy_checkpoint: Path) -> None:
    reference = Reference(Checkpoint(toy_checkpoint))
    features = RNG.standard_normal((1, 60, 64))
    bare, padded = (reference.logits(TOKENS[:1], features, pad) for pad in (0, 150))
    assert difference(bare, padded).relative > 1e-3


def test_reference_stages_have_the_graphs_names(toy_checkpoint: Path) -> None:
    reference = Reference(Checkpoint(toy_checkpoint))
    dims = reference.checkpoint.config.dims
    encoder = [name for name, _ in reference.encoder_stages(MEL)]
    decoder = [
        name for name, _ in reference.decoder_stages(TOKENS, np.zeros((2, 4, 64)))
    ]
    assert encoder == stage_names("encoder", dims.n_encoder_layers)
    assert decoder == stage_names("decoder", dims.n_decoder_layers)


def test_reference_uses_an_untied_projection(
    toy_checkpoint: Path, tmp_path: Path
) -> None:
    arrays = random_arrays()
    arrays["proj_out.weight"] = 2 * arrays["decoder.embed_tokens.weight"]
    untied = Reference(Checkpoint(write_checkpoint(tmp_path / "untied", arrays)))
    features = RNG.standard_normal((1, 4, 64))
    tied = Reference(Checkpoint(toy_checkpoint)).logits(TOKENS[:1], features)
    np.testing.assert_allclose(
        untied.logits(TOKENS[:1], features), 2 * tied, rtol=1e-12
    )
