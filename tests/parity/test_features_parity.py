"""Our log-mel beside the implementations that Whisper models were trained and are used with."""

import os
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, mel_filters, pad_or_trim
from whisper_hailo.checkpoint.hub import ASSETS
from whisper_hailo.core.types import FloatArray

JFK = ASSETS / "jfk.flac"
REFERENCE_TOLERANCE = 1e-4
FILTER_TOLERANCE = 1e-7
"""The published filterbanks are rounded to float32 and computed in it in places."""

MEL_BINS = pytest.mark.parametrize("n_mels", [80, 128])


@pytest.fixture(scope="module")
def windows() -> list[FloatArray]:
    """Speech in 30 s, speech alone, hiss, and speech at a whisper."""
    speech = load_audio(JFK)
    hiss = np.random.default_rng(3).standard_normal(80_000).astype(np.float32)
    return [pad_or_trim(speech, 480_000), speech, 0.1 * hiss, 1e-3 * speech]


def _extractor(n_mels: int) -> Any:
    transformers = pytest.importorskip(
        "transformers", reason="parity needs transformers"
    )
    return transformers.WhisperFeatureExtractor(feature_size=n_mels)


@MEL_BINS
def test_filters_of_transformers(n_mels: int) -> None:
    assert (
        np.abs(mel_filters(n_mels) - _extractor(n_mels).mel_filters.T).max()
        < FILTER_TOLERANCE
    )


@MEL_BINS
def test_log_mel_of_transformers_in_numpy(
    n_mels: int, windows: list[FloatArray]
) -> None:
    extractor = _extractor(n_mels)
    for audio in windows:
        (expected,) = extractor._np_extract_fbank_features(audio[None], "cpu")
        assert np.abs(log_mel(audio, n_mels) - expected).max() < REFERENCE_TOLERANCE


@MEL_BINS
def test_log_mel_of_transformers_in_torch(
    n_mels: int, windows: list[FloatArray]
) -> None:
    pytest.importorskip("torch", reason="parity needs torch")
    extractor = _extractor(n_mels)
    for audio in windows:
        (expected,) = extractor._torch_extract_fbank_features(audio[None])
        assert np.abs(log_mel(audio, n_mels) - expected).max() < REFERENCE_TOLERANCE


@MEL_BINS
def test_filters_of_openai_whisper(n_mels: int) -> None:
    """The file is found in an installed openai-whisper, or by OPENAI_WHISPER_MEL_FILTERS."""
    path = os.environ.get("OPENAI_WHISPER_MEL_FILTERS")
    spec = util.find_spec("whisper")
    if path is None and spec is not None and spec.origin is not None:
        path = str(Path(spec.origin).parent / "assets" / "mel_filters.npz")
    if path is None:
        pytest.skip(
            "openai-whisper is not installed and OPENAI_WHISPER_MEL_FILTERS is not set"
        )
    with np.load(path) as published:
        difference = np.abs(mel_filters(n_mels) - published[f"mel_{n_mels}"]).max()
    assert difference < FILTER_TOLERANCE
