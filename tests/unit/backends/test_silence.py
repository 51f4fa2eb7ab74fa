"""Silence keys: measured, kept in the model directory, and as good as the rows they stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.fakes.model_sizes import ATOL, features_of, ids_of
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.backends.silence import (
    CLIPS,
    N_KEYS,
    cluster_positions,
    load_silence_keys,
    measure_silence_keys,
    save_silence_keys,
    with_silence_keys,
)
from whisper_hailo.backends.state import cross_bias
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.protocols import Padding, SilenceKeys
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import SILENCE_FILE, FileRecord, ModelSpec
from whisper_hailo.core.types import FloatArray

NONE = Padding(None)


def keys_of(*shares: float, width: int = 64) -> SilenceKeys:
    return SilenceKeys(
        features_of(len(shares), width, seed=3), np.array(shares, np.float32)
    )


@pytest.mark.parametrize(
    ("n_rows", "expected"),
    [(0, []), (1, [0]), (2, [0, 1]), (4, [0, 0, 1, 2]), (8, [0, 0, 0, 0, 1, 1, 2, 2])],
)
def test_repeat_rows_gives_each_row_its_share(n_rows: int, expected: list[int]) -> None:
    keys = keys_of(0.5, 0.25, 0.25)
    repeated = keys.repeat_rows(n_rows)
    assert repeated.shape == (n_rows, 64)
    np.testing.assert_array_equal(repeated, keys.features[expected])


def test_repeat_rows_of_shares_below_one_ends_with_last_row() -> None:
    """Eight float32 shares seldom add up to 1."""
    keys = SilenceKeys(features_of(2, 4), np.array([0.5, 0.49], np.float32))
    repeated = keys.repeat_rows(1000)
    np.testing.assert_array_equal(repeated[[0, -1]], keys.features)


def test_log_shares_are_natural_logarithms() -> None:
    np.testing.assert_allclose(
        keys_of(0.5, 0.25, 0.25).log_shares, np.log([0.5, 0.25, 0.25])
    )


def test_cross_bias_gives_silence_its_share_and_zero_row_nothing() -> None:
    keys = keys_of(0.75, 0.25)
    paddings = (Padding(10, keys), Padding(4, keys), Padding(None, keys))
    bias = cross_bias(paddings, np.array([2, 4, 3]), 4)
    assert (bias.shape, bias.dtype) == ((3, 1, 1, 7), np.float32)
    inf = np.inf
    np.testing.assert_allclose(
        bias[0, 0, 0], [0, 0, -inf, -inf, np.log(6), np.log(2), -inf]
    )
    np.testing.assert_allclose(bias[1, 0, 0], [0, 0, 0, 0, -inf, -inf, -inf])
    np.testing.assert_allclose(bias[2, 0, 0], [0, 0, 0, -inf, -inf, -inf, -inf])
    alone = cross_bias(paddings[:1], np.array([2]), 4)
    np.testing.assert_array_equal(alone, bias[:1])


def test_silence_key_with_bias_ln_n_equals_n_rows() -> None:
    """In plain attention, and through columns of `cross_bias`."""
    keys = keys_of(0.5, 0.25, 0.25, width=8)
    audio = features_of(1, 5, 8)
    query = features_of(8, seed=9)
    values = np.random.default_rng(1).standard_normal((8, 8))

    def attend(rows: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        weights = np.exp(rows @ query + bias)
        attended: FloatArray = weights / weights.sum() @ (rows @ values)
        return attended

    padding = Padding(5 + 40, keys)
    repeated = attend(np.concatenate([audio[0], keys.repeat_rows(40)]))
    bias = cross_bias((padding,), np.array([5]), 5)[0, 0, 0]
    rows = np.concatenate(
        [with_silence_keys(audio, keys)[0], np.zeros((1, 8), np.float32)]
    )
    np.testing.assert_allclose(attend(rows, bias), repeated, atol=1e-5)
    without = attend(audio[0])
    assert np.abs(without - repeated).max() > 0.01


@pytest.mark.parametrize("n_added", [4, 40, 120])
def test_decoder_silence_keys_equal_repeated_rows(
    decoder: CachedDecoder, n_added: int
) -> None:
    keys = keys_of(0.5, 0.25, 0.25)
    features = features_of(1, 30, 64)
    rows = np.concatenate([features[0], keys.repeat_rows(n_added)])[np.newaxis]
    free = decoder.start(features, (Padding(30 + n_added, keys),))
    tokens = ids_of([11, 5, 7])
    got, _ = decoder.step(tokens, free, np.arange(3), alignment=True)
    expected, _ = decoder.step(
        tokens, decoder.start(rows, (NONE,)), np.arange(3), alignment=True
    )
    np.testing.assert_allclose(got.logits, expected.logits, atol=ATOL)
    assert got.alignment is not None
    assert expected.alignment is not None
    assert got.alignment.shape[-1] == 30, "of the audio alone"
    np.testing.assert_allclose(got.alignment, expected.alignment[..., :30], atol=ATOL)


def test_decoder_batch_with_silence_equals_single_rows(decoder: CachedDecoder) -> None:
    keys = keys_of(0.75, 0.25)
    features = features_of(2, 40, 64)
    lengths = np.array([40, 25])
    paddings = (Padding(150, keys), Padding(60, keys))
    tokens = ids_of([11, 5], [11, 6])
    batch, _ = decoder.step(
        tokens, decoder.start(features, paddings, lengths), np.arange(2)
    )
    for row in range(2):
        alone = decoder.start(features[row : row + 1, : lengths[row]], (paddings[row],))
        out, _ = decoder.step(tokens[row : row + 1], alone, np.arange(2))
        np.testing.assert_allclose(batch.logits[row], out.logits[0], atol=ATOL)


def test_with_silence_keys_appends_them_to_every_row() -> None:
    keys = keys_of(0.5, 0.5, width=4)
    features = features_of(3, 6, 4)
    longer = with_silence_keys(features, keys)
    assert longer.shape == (3, 8, 4)
    for row in longer:
        np.testing.assert_array_equal(row[6:], keys.features)
    assert with_silence_keys(features, None) is features


def test_cluster_positions_are_means_with_shares() -> None:
    """Two kinds of position, three quarters of one."""
    kinds = np.array([[10.0, 0.0], [0.0, 10.0]], np.float32)
    features = kinds[[0, 0, 0, 1] * 25] + 0.1 * features_of(100, 2)
    keys = cluster_positions(features, 2)
    assert keys.features.dtype == keys.shares.dtype == np.float32
    order = np.argsort(keys.shares)
    np.testing.assert_allclose(keys.shares[order], [0.25, 0.75])
    np.testing.assert_allclose(keys.features[order], kinds[::-1], atol=0.1)
    again = cluster_positions(features, 2)
    np.testing.assert_array_equal(again.features, keys.features)


@pytest.mark.parametrize(("n", "n_keys"), [(1, 1), (3, 3), (100, 8)])
def test_cluster_positions_are_at_most_the_positions(n: int, n_keys: int) -> None:
    keys = cluster_positions(features_of(n, 4), 8)
    assert keys.features.shape == (n_keys, 4)
    assert keys.shares.sum() == pytest.approx(1.0)
    assert (keys.shares > 0).all()


def test_cluster_positions_of_equal_ones_is_one() -> None:
    keys = cluster_positions(np.ones((50, 4), np.float32), 8)
    np.testing.assert_allclose(keys.features, np.ones((1, 4)))
    assert keys.shares.tolist() == [1.0]


def test_measure_silence_keys_uses_the_bundled_clips(
    encoder: OnnxEncoder, spec: ModelSpec
) -> None:
    assert sorted(path.name for path in CLIPS.glob("*.flac")) == [
        "english.flac",
        "german.flac",
    ]
    keys = measure_silence_keys(encoder)
    assert keys.features.shape == (keys.shares.size, spec.dims.d_model)
    assert 1 <= keys.shares.size <= N_KEYS
    assert keys.shares.sum() == pytest.approx(1.0)


def test_measure_silence_keys_takes_positions_behind_speech(
    encoder: OnnxEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clips of a quarter of the context and of all of it, of which half is taken."""
    dims = encoder.spec.dims
    n_samples = round(dims.max_window_s * 16_000)
    found: list[FloatArray] = []

    def cluster(features: FloatArray, n_keys: int) -> SilenceKeys:
        found.append(features)
        return cluster_positions(features, n_keys)

    monkeypatch.setattr("whisper_hailo.backends.silence.cluster_positions", cluster)
    clips = [0.1 * features_of(n) for n in (n_samples // 4, n_samples)]
    monkeypatch.setattr("whisper_hailo.backends.silence.bundled_clips", lambda: clips)
    measure_silence_keys(encoder)
    behind_s = min(1.0, dims.max_window_s / 4)
    seconds = [dims.max_window_s * part - behind_s for part in (0.75, 0.5)]
    assert len(found[0]) == pytest.approx(50 * sum(seconds), abs=2)


def saved(directory: Path, spec: ModelSpec, arrays: dict[str, FloatArray]) -> ModelSpec:
    path = directory / SILENCE_FILE
    save_file(arrays, path)
    return recorded(path, spec)


def recorded(path: Path, spec: ModelSpec) -> ModelSpec:
    """The description with the keys' file as it is."""
    record = FileRecord(path.stat().st_size, sha256(path))
    return replace(spec, files={**spec.files, SILENCE_FILE: record})


def test_load_silence_keys_needs_no_encoder(tmp_path: Path, spec: ModelSpec) -> None:
    keys = keys_of(0.75, 0.25)
    save_silence_keys(keys, tmp_path / SILENCE_FILE)
    own = recorded(tmp_path / SILENCE_FILE, spec)
    loaded = load_silence_keys(tmp_path, own)
    np.testing.assert_array_equal(loaded.features, keys.features)
    np.testing.assert_array_equal(loaded.shares, keys.shares)


@pytest.mark.parametrize(
    ("arrays", "data"),
    [
        ({"features": np.zeros((2, 32), np.float32), "shares": np.ones(2, np.float32)},
         r"\(2, 32\), .*\(2, 64\)"),
        ({"features": np.zeros((3, 64), np.float32), "shares": np.ones(2, np.float32)},
         r"\(3, 64\), .*\(2, 64\)"),
        ({"features": np.zeros((2, 64), np.float32)}, r"silence\.safetensors .*'shares'"),
    ],
)  # fmt: skip
def test_load_silence_keys_of_other_models_is_refused(
    tmp_path: Path, spec: ModelSpec, arrays: dict[str, FloatArray], data: str
) -> None:
    own = saved(tmp_path, spec, arrays)
    with pytest.raises(ModelError, match=data):
        load_silence_keys(tmp_path, own)


def test_load_silence_keys_of_damaged_file_is_refused(
    tmp_path: Path, spec: ModelSpec
) -> None:
    keys = keys_of(0.75, 0.25)
    own = saved(tmp_path, spec, {"features": keys.features, "shares": keys.shares})
    path = tmp_path / SILENCE_FILE
    whole = path.read_bytes()
    for damaged in (b"\xff" * 9 + whole[9:], whole[:-5]):
        path.write_bytes(damaged)
        with pytest.raises(
            ModelError, match=r"silence\.safetensors .*(SHA-256|bytes, model\.json)"
        ):
            load_silence_keys(tmp_path, own)
        with pytest.raises(ModelError, match=r"silence\.safetensors .*\(Error"):
            load_silence_keys(tmp_path, recorded(path, spec))
    path.unlink()
    with pytest.raises(ModelError, match=r" silence\.safetensors;"):
        load_silence_keys(tmp_path, own)


def test_converted_model_has_its_encoders_silence_keys(
    model_directory: Path, spec: ModelSpec, decoder: CachedDecoder, encoder: OnnxEncoder
) -> None:
    assert SILENCE_FILE in spec.files
    measured = measure_silence_keys(encoder)
    np.testing.assert_allclose(
        decoder.silence_keys.features, measured.features, atol=1e-4
    )
    np.testing.assert_allclose(decoder.silence_keys.shares, measured.shares, atol=1e-2)
    assert decoder.silence_keys is decoder.silence_keys
