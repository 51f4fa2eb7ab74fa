"""Converted graphs against Transformers (eager, float32) on checkpoints it saved itself.

Tolerances are relative to max(1, largest reference value): features 1e-3, logits 1e-4.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
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

FEATURES = 1e-3
LOGITS = 1e-4
INT8_LOGITS = 0.05
INT4_LOGITS = 0.4
INT8_FEATURES = 0.05
N_STEPS = 40
PADS = (None, 700, 1500)


@dataclass(frozen=True)
class Pair:
    """A model in both worlds."""

    torch_model: WhisperForConditionalGeneration
    directory: Path
    spec: ModelSpec


MakePair = Callable[..., Pair]


@pytest.fixture
def make_pair(tmp_path: Path) -> MakePair:
    def make(
        config: dict[str, object],
        options: ConvertOptions | None = None,
        **save: object,
    ) -> Pair:
        model = checkpoints.save_random(tmp_path / "checkpoint", config, **save)
        out = tmp_path / "model"
        spec = convert_checkpoint(
            tmp_path / "checkpoint", out, options or ConvertOptions("none")
        )
        return Pair(model, out, spec)

    return make


def _mel(spec: ModelSpec, n_frames: int, batch: int = 1) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, spec.dims.n_mels, n_frames)).astype(np.float32)


def _greedy(
    pair: Pair, features: NDArray[np.float32], pad_to: int | None
) -> tuple[list[int], NDArray[np.float32]]:
    """The graph's own greedy tokens after a prompt, and the logits that chose each."""
    tokens = [1, 2, 3]
    rows = []
    with CachedDecoder(pair.directory, pair.spec, threads=2) as decoder:
        state = decoder.start(features, (Padding(pad_to),))
        new = tokens
        for _ in range(N_STEPS):
            out, state = decoder.step(np.array([new]), state, np.array([len(new) - 1]))
            rows.append(out.logits[0, 0].copy())
            new = [int(out.logits[0, 0].argmax())]
            tokens = tokens + new
    return tokens[:-1], np.stack(rows)


def _check_greedy(pair: Pair, features: NDArray[np.float32], tolerance: float) -> None:
    """40 greedy steps for each pad target, real zero rows on Transformers' side."""
    for pad_to in PADS:
        tokens, got = _greedy(pair, features, pad_to)
        expected = reference.logits(
            pair.torch_model, np.array([tokens]), features, pad_to
        )
        difference = reference.relative_difference(got, expected[0, 2:])
        assert difference < tolerance, f"pad target {pad_to}: {difference}"


@pytest.mark.parametrize("n_frames", [2, 250, 1000, 3000])
def test_encoder_of_any_length(make_pair: MakePair, n_frames: int) -> None:
    pair = make_pair(checkpoints.SMALL)
    mel = _mel(pair.spec, n_frames, batch=2)
    with OnnxEncoder(pair.directory, pair.spec, threads=2) as encoder:
        got = encoder.encode(mel)
    expected = reference.encode(pair.torch_model, mel)
    assert reference.relative_difference(got, expected) < FEATURES
    if n_frames == 3000:
        with torch.no_grad():
            own = pair.torch_model.model.encoder(
                torch.from_numpy(mel)
            ).last_hidden_state
        assert reference.relative_difference(got, own.numpy()) < FEATURES


@pytest.mark.parametrize(
    ("config", "n_frames"),
    [
        (checkpoints.SMALL, 1000),
        (checkpoints.TINY, 1000),
        (checkpoints.ENGLISH, 500),
        (checkpoints.TURBO, 500),
    ],
    ids=["small", "tiny", "english", "turbo"],
)
def test_end_to_end(
    make_pair: MakePair, config: dict[str, object], n_frames: int
) -> None:
    """Encoder and 40 greedy steps; each side uses its own features."""
    pair = make_pair(config)
    mel = _mel(pair.spec, n_frames)
    with OnnxEncoder(pair.directory, pair.spec, threads=2) as encoder:
        features = encoder.encode(mel)
    expected = reference.encode(pair.torch_model, mel)
    assert reference.relative_difference(features, expected) < FEATURES
    _check_greedy(pair, expected, LOGITS)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_checkpoints(make_pair: MakePair, dtype: str) -> None:
    pair = make_pair(checkpoints.SMALL, dtype=getattr(torch, dtype))
    _check_greedy(
        pair, reference.encode(pair.torch_model, _mel(pair.spec, 500)), LOGITS
    )


def test_sharded_checkpoint(make_pair: MakePair) -> None:
    pair = make_pair(checkpoints.SMALL, max_shard_size="1MB")
    assert len(pair.spec.source.sha256) > 4
    _check_greedy(
        pair, reference.encode(pair.torch_model, _mel(pair.spec, 500)), LOGITS
    )


def test_untied_projection(make_pair: MakePair) -> None:
    pair = make_pair({**checkpoints.SMALL, "tie_word_embeddings": False})
    weights = (
        pair.torch_model.proj_out.weight,
        pair.torch_model.model.decoder.embed_tokens.weight,
    )
    assert not torch.equal(*weights)
    _check_greedy(
        pair, reference.encode(pair.torch_model, _mel(pair.spec, 500)), LOGITS
    )


def test_prefill_batches_and_left_padding(make_pair: MakePair) -> None:
    """One batch of two true lengths, two prompt lengths and two pad targets."""
    pair = make_pair(checkpoints.SMALL)
    features = reference.encode(pair.torch_model, _mel(pair.spec, 800, batch=2))
    prompts = ([1, 2, 3, 4, 5], [6, 7])
    lengths = np.array([400, 123])
    pads = (1500, 700)
    continuation = [[10, 11, 12], [20, 21, 22]]
    with CachedDecoder(pair.directory, pair.spec, threads=2) as decoder:
        state = decoder.start(features, tuple(Padding(pad) for pad in pads), lengths)
        tokens = np.array([prompts[0], [0, 0, 0, *prompts[1]]])
        first = np.array([0, 3])
        prefill, state = decoder.step(tokens, state, np.array([4]), first=first)
        logits = [prefill.logits.copy()]
        for column in np.array(continuation).T:
            later, state = decoder.step(column[:, None], state, np.array([0]))
            logits.append(later.logits.copy())
    for row in range(2):
        expected = reference.logits(
            pair.torch_model,
            np.array([prompts[row] + continuation[row]]),
            features[row : row + 1, : lengths[row]],
            pads[row],
        )[0, len(prompts[row]) - 1 :]
        got = np.concatenate([one[row] for one in logits])
        assert reference.relative_difference(got, expected) < LOGITS


@pytest.mark.parametrize(
    ("quantize", "tolerance"), [("int8", INT8_LOGITS), ("int4", INT4_LOGITS)]
)
def test_quantised_decoder(
    make_pair: MakePair, quantize: str, tolerance: float
) -> None:
    pair = make_pair(checkpoints.TINY, ConvertOptions(quantize=quantize))
    features = reference.encode(pair.torch_model, _mel(pair.spec, 500))
    _check_greedy(pair, features, tolerance)


@pytest.mark.parametrize("half", [False, True])
def test_quantised_encoder(make_pair: MakePair, half: bool) -> None:
    pair = make_pair(
        checkpoints.SMALL, ConvertOptions("none", encoder_quantize="int8", half=half)
    )
    mel = _mel(pair.spec, 1000)
    with OnnxEncoder(pair.directory, pair.spec, threads=2) as encoder:
        got = encoder.encode(mel)
    expected = reference.encode(pair.torch_model, mel)
    assert reference.relative_difference(got, expected) < INT8_FEATURES
