"""The float64 reference against Transformers.

Tolerance 1e-5 relative to max(1, largest reference value): Transformers computes in float32.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo_tools.validate.reference import Reference

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

TOLERANCE = 1e-5


@dataclass(frozen=True)
class Pair:
    """A model in both worlds."""

    torch_model: WhisperForConditionalGeneration
    checkpoint: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("validate")
    model = checkpoints.save_random(folder / "checkpoint", checkpoints.SMALL)
    return Pair(model, folder / "checkpoint")


def test_reference_features_match_transformers(pair: Pair) -> None:
    mel = np.random.default_rng(0).standard_normal((2, 80, 400)).astype(np.float32)
    computed = Reference(Checkpoint(pair.checkpoint)).encode(mel)
    expected = reference.encode(pair.torch_model, mel)
    assert reference.relative_difference(computed, expected) < TOLERANCE


@pytest.mark.parametrize("pad_to", [None, 300])
def test_reference_logits_match_transformers(pair: Pair, pad_to: int | None) -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((2, 200, 128)).astype(np.float32)
    tokens = rng.integers(0, 320, (2, 9))
    computed = Reference(Checkpoint(pair.checkpoint)).logits(
        tokens, features, pad_to or 0
    )
    expected = reference.logits(pair.torch_model, tokens, features, pad_to)
    assert reference.relative_difference(computed, expected) < TOLERANCE
