"""A quantised decoder's keys and values of the audio, which are held in 8 bits."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.checkpoints import TOY, TOY_FFN, config_of, random_arrays, write_checkpoint
from tests.fakes.model_sizes import values_of_codes
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.state import CrossKV
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.protocols import Padding
from whisper_hailo.core.spec import SIGNLESS_ZERO, Dimensions, ModelSpec
from whisper_hailo.core.types import FloatArray

NONE = Padding(None)
FULL = Padding(150)
ATOL = 0.06
"""One sum in another order moves an activation that is then rounded to the next step of 8 bits,
which moves logits, which are of order one, by some hundredths (0.036 was seen)."""

WEIGHTS_ATOL = 0.01
"""The same for weights of attention, the largest of which is 0.3."""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedDecoder]:
    root = tmp_path_factory.mktemp("form")
    options = ConvertOptions(quantize="int8")
    spec = convert_checkpoint(
        write_checkpoint(root / "checkpoint"), root / "model", options
    )
    assert spec.has_int8_audio
    with CachedDecoder(root / "model", spec, threads=1) as opened:
        yield opened


def _features(*shape: int) -> FloatArray:
    array: FloatArray = (
        np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    )
    return array


def _ids(*rows: list[int]) -> NDArray[np.int64]:
    return np.array(rows, np.int64)


def _values(cross: CrossKV) -> list[FloatArray]:
    """Values of the codes with their scales."""
    names = [name for name in cross.arrays if "scale" not in name]
    return [
        values_of_codes(cross.arrays[name], cross.arrays[_scale(name)])
        for name in names
    ]


def _scale(name: str) -> str:
    part, _, layer = name.rpartition("_")
    return f"{part}_scale_{layer}"


def test_int8_cross_kv_is_close_and_a_quarter_of_the_size(
    decoder: CachedDecoder, model_directory: Path, spec: ModelSpec
) -> None:
    features = _features(1, 30, 64)
    cross = decoder.start(features, (FULL,)).cross
    with CachedDecoder(model_directory, spec, threads=1) as plain:
        exact = plain.start(features, (FULL,)).cross
    assert {array.dtype for array in exact.arrays.values()} == {np.dtype(np.float32)}
    assert {cross.arrays[name].dtype for name in exact.arrays} == {np.dtype(np.uint8)}
    assert cross.arrays.keys() - exact.arrays.keys() == set(map(_scale, exact.arrays))
    for padded, expected in zip(_values(cross), exact.arrays.values(), strict=True):
        value = np.delete(padded, np.s_[30:-1], axis=2)  # keys that fill up the block
        step = np.abs(expected).max(axis=2).mean() / 127
        # Codes, and their product.
        assert np.sqrt(np.square(value - expected).mean()) < step
    for name in exact.arrays:
        assert cross.arrays[_scale(name)].shape == (1, 1, 2, 32)


def test_decoder_prefill_equals_single_steps(decoder: CachedDecoder) -> None:
    tokens = _ids([11, 5, 7, 9, 3, 120])
    state = decoder.start(_features(1, 30, 64), (FULL,))
    whole, _ = decoder.step(tokens, state, np.arange(6), alignment=True)
    for i in range(6):
        out, state = decoder.step(
            tokens[:, i : i + 1], state, np.array([0]), alignment=True
        )
        np.testing.assert_allclose(out.logits[:, 0], whole.logits[:, i], atol=ATOL)
        assert out.alignment is not None
        assert whole.alignment is not None
        np.testing.assert_allclose(
            out.alignment[:, :, 0], whole.alignment[:, :, i], atol=WEIGHTS_ATOL
        )


def test_decoder_batch_equals_its_rows(decoder: CachedDecoder) -> None:
    """Prompts of other lengths, other paddings and loudness, many tokens at once and single ones;
    rows that follow each other, and rows that change places."""
    features = _features(3, 40, 64) * np.array([1, 9, 0.1], np.float32)[:, None, None]
    paddings = (NONE, FULL, Padding(60))
    prompts = [[11, 5, 6], [12, 8], [11, 7, 9]]
    tokens = _ids(prompts[0], [0, *prompts[1]], prompts[2])
    first = np.array([0, 1, 0])
    batch, state = decoder.step(
        tokens,
        decoder.start(features, paddings),
        np.array([2]),
        first=first,
        alignment=True,
    )
    # The next pass writes to the same array.
    batch = replace(batch, logits=batch.logits.copy())
    later, state = decoder.step(_ids([1], [2], [3]), state, np.array([0]))
    later = replace(later, logits=later.logits.copy())
    more, _ = decoder.step(_ids([4], [4], [4]), state, np.array([0]))
    reordered, _ = decoder.step(
        _ids([4], [4]), decoder.select(state, np.array([2, 0])), np.array([0])
    )
    tail, _ = decoder.step(
        _ids([4], [4]), decoder.select(state, np.array([1, 2])), np.array([0])
    )
    for row, prompt in enumerate(prompts):
        alone = decoder.start(features[row : row + 1], (paddings[row],))
        n = len(prompt)
        out, alone = decoder.step(
            _ids(prompt), alone, np.array([n - 1]), alignment=True
        )
        assert batch.alignment is not None
        assert out.alignment is not None
        np.testing.assert_allclose(batch.logits[row], out.logits[0], atol=ATOL)
        np.testing.assert_allclose(
            batch.alignment[row][:, 3 - n :], out.alignment[0], atol=WEIGHTS_ATOL
        )
        out, alone = decoder.step(_ids([row + 1]), alone, np.array([0]))
        np.testing.assert_allclose(later.logits[row], out.logits[0], atol=ATOL)
        out, _ = decoder.step(_ids([4, 5]), alone, np.arange(2))
        np.testing.assert_allclose(more.logits[row], out.logits[0, :1], atol=ATOL)
        if row != 1:
            np.testing.assert_allclose(
                reordered.logits[1 - row // 2, 0], out.logits[0, 0], atol=ATOL
            )
        if row:
            np.testing.assert_allclose(
                tail.logits[row - 1, 0], out.logits[0, 0], atol=ATOL
            )


def test_decoder_free_padding_equals_zero_rows(decoder: CachedDecoder) -> None:
    """In 8 bits a key that weighs as much as 40 leaves few codes to the others."""
    features = _features(1, 30, 64)
    zeros = np.zeros((1, 40, 64), np.float32)
    real = decoder.start(np.concatenate([features, zeros], axis=1), (NONE,))
    free = decoder.start(features, (Padding(70),))
    got, _ = decoder.step(_ids([11, 5, 7]), free, np.arange(3))
    expected, _ = decoder.step(_ids([11, 5, 7]), real, np.arange(3))
    np.testing.assert_allclose(got.logits, expected.logits, atol=0.1)


def test_int8_cross_kv_of_silence_is_finite(decoder: CachedDecoder) -> None:
    state = decoder.start(np.zeros((1, 5, 64), np.float32), (NONE,))
    out, _ = decoder.step(_ids([11]), state, np.array([0]))
    assert np.isfinite(out.logits).all()
    assert all(np.isfinite(made).all() for made in state.cross.arrays.values())
    arrays = state.cross.arrays
    keys = [arrays[f"cross_key_{layer}"] for layer in range(2)]  # which have no bias
    assert all((array == SIGNLESS_ZERO).all() for array in keys)


def test_cross_kv_rows_contiguous_are_a_view(decoder: CachedDecoder) -> None:
    cross = decoder.start(_features(4, 30, 64), (FULL,) * 4).cross
    kept = cross.rows(np.array([1, 2]))
    for a, b in zip(kept.arrays.values(), cross.arrays.values(), strict=True):
        assert np.shares_memory(a, b)
    moved = cross.rows(np.array([2, 1]))
    for a, b in zip(moved.arrays.values(), cross.arrays.values(), strict=True):
        assert not np.shares_memory(a, b)
        np.testing.assert_array_equal(a, b[[2, 1]])


def test_decoder_beams_share_the_keys_of_a_window(decoder: CachedDecoder) -> None:
    """Beams of two windows, in order and mixed, one of them gone, and as many tokens as rows."""
    state = decoder.start(_features(2, 30, 64), (NONE, FULL))
    _, state = decoder.step(_ids([11, 5], [11, 6]), state, np.array([1]))
    for rows in ([0, 0, 0, 1, 1, 1], [0, 1, 0, 1], [1, 1], [0, 0, 1]):
        n = len(rows)
        beams = decoder.select(state, np.array(rows))
        is_even = len(set(rows)) * max(map(rows.count, rows)) == n and rows == sorted(
            rows
        )
        n_windows = len(set(rows)) if is_even else n
        assert beams.cross.n_windows == n_windows
        got, beams = decoder.step(
            _ids(*([7 + i] for i in range(n))), beams, np.array([0])
        )
        got = replace(got, logits=got.logits.copy())
        more, _ = decoder.step(
            _ids(*([3] for _ in rows)), beams, np.array([0]), alignment=True
        )
        for i, row in enumerate(rows):
            alone = decoder.select(state, np.array([row]))
            out, alone = decoder.step(_ids([7 + i]), alone, np.array([0]))
            np.testing.assert_allclose(got.logits[i], out.logits[0], atol=ATOL)
            out, _ = decoder.step(_ids([3]), alone, np.array([0]), alignment=True)
            np.testing.assert_allclose(more.logits[i], out.logits[0], atol=ATOL)
            assert more.alignment is not None
            assert out.alignment is not None
            np.testing.assert_allclose(
                more.alignment[i], out.alignment[0], atol=WEIGHTS_ATOL
            )


def test_decoder_accepts_heads_of_any_width(tmp_path: Path) -> None:
    """In the cache they are a multiple of 8 wide, as the runtime's "grouped" attention needs."""
    sizes = {name: getattr(TOY, name) for name in TOY.__dataclass_fields__}
    odd = Dimensions(**sizes | {"n_decoder_heads": 16, "n_encoder_heads": 16})
    assert odd.head_size == 4
    arrays = random_arrays(odd)
    config = config_of(odd, TOY_FFN)
    checkpoint = write_checkpoint(tmp_path / "checkpoint", arrays, config=config)
    found = {}
    for quantize in ("none", "int8"):
        out = tmp_path / quantize
        spec = convert_checkpoint(checkpoint, out, ConvertOptions(quantize, "none"))
        with CachedDecoder(out, spec, threads=1) as decoder:
            state = decoder.start(_features(2, 30, 64), (FULL, FULL))
            output, _ = decoder.step(_ids([11, 5], [11, 6]), state, np.array([1]))
            found[quantize] = output.logits.copy()
    np.testing.assert_allclose(found["int8"], found["none"], atol=0.2)


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_encoder_half_is_for_quantized_models(tmp_path: Path, quantize: str) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    options = ConvertOptions("none", quantize, half=True)
    spec = convert_checkpoint(checkpoint, tmp_path / "model", options)
    with (
        OnnxEncoder(tmp_path / "model", spec, 1) as encoder,
        CachedDecoder(tmp_path / "model", spec, 1) as decoder,
    ):
        assert (encoder.name, decoder.name) == (f"onnx-{quantize}-half", "cached-fp32")
        state = decoder.start(
            encoder.encode(np.zeros((1, 80, 60), np.float32)), (FULL,)
        )
        out, _ = decoder.step(_ids([11, 5]), state, np.array([1]))
    assert np.isfinite(out.logits).all()
