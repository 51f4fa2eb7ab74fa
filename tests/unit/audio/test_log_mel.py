import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whisper_hailo.audio.log_mel import log_mel, mel_filters, pad_or_trim
from whisper_hailo.core.errors import ShapeError
from whisper_hailo.core.types import FloatArray

FORMULA_TOLERANCE = 1e-5

N_FFT = 400
HOP_LENGTH = 160
"""25 ms and 10 ms, as Whisper was trained."""


def formula(audio: NDArray[np.floating], n_mels: int) -> NDArray[np.float64]:
    """The definition, in double throughout, with the Fourier sum written out."""
    padded = np.pad(audio.astype(np.float64), N_FFT // 2, mode="reflect")
    starts = HOP_LENGTH * np.arange(len(audio) // HOP_LENGTH)
    frames = padded[starts[:, None] + np.arange(N_FFT)]
    window = np.sin(np.pi * np.arange(N_FFT) / N_FFT) ** 2
    angles = 2 * np.pi * np.outer(np.arange(N_FFT), np.arange(N_FFT // 2 + 1)) / N_FFT
    power = np.abs((frames * window) @ np.exp(-1j * angles)) ** 2
    log = np.log10(np.maximum(mel_filters(n_mels) @ power.T, 1e-10))
    return (np.maximum(log, log.max() - 8.0) + 4.0) / 4.0


def signal(kind: str, n_samples: int = 24_000) -> FloatArray:
    rng = np.random.default_rng(7)
    t = np.arange(n_samples) / 16_000
    noise = rng.standard_normal(n_samples)
    signals = {
        "noise": 0.1 * noise,
        "silence": np.zeros(n_samples),
        "tone": np.sin(2 * np.pi * 3333.3 * t),
        "tone then hiss": np.where(t < 0.7, np.sin(2 * np.pi * 700 * t), 1e-4 * noise),
        "offset": 1.0 + 1e-4 * noise,
        "impulse": np.where(np.arange(n_samples) == n_samples // 2, 1.0, 0.0),
        "beyond one": 1e4 * noise,
    }
    return signals[kind].astype(np.float32)


KINDS = [
    "noise",
    "silence",
    "tone",
    "tone then hiss",
    "offset",
    "impulse",
    "beyond one",
]


@pytest.mark.parametrize(
    ("kind", "n_mels"), [*((kind, 80) for kind in KINDS), ("noise", 128)]
)
def test_log_mel_matches_formula_in_double(kind: str, n_mels: int) -> None:
    audio = signal(kind)
    difference = np.abs(log_mel(audio, n_mels) - formula(audio, n_mels)).max()
    assert difference < FORMULA_TOLERANCE


@settings(max_examples=25, deadline=None)
@given(n_samples=st.integers(201, 2_000), seed=st.integers(0, 1_000))
def test_log_mel_random_length_matches_formula(n_samples: int, seed: int) -> None:
    audio = np.random.default_rng(seed).standard_normal(n_samples).astype(np.float32)
    mel = log_mel(audio)
    assert mel.shape == (80, n_samples // 160)
    assert np.abs(mel - formula(audio, 80)).max() < FORMULA_TOLERANCE


@pytest.mark.parametrize("n_samples", [201, 320, 359, 360, 399, 400, 401])
def test_log_mel_end_of_short_audio_is_reflected(n_samples: int) -> None:
    audio = signal("noise", n_samples)
    assert np.abs(log_mel(audio) - formula(audio, 80)).max() < FORMULA_TOLERANCE


@pytest.mark.parametrize("n_frames", [1, 127, 128, 129, 300])
def test_log_mel_is_independent_of_frame_blocks(n_frames: int) -> None:
    audio = signal("noise", n_frames * 160 + 100)
    assert np.abs(log_mel(audio) - formula(audio, 80)).max() < FORMULA_TOLERANCE


def test_log_mel_returns_contiguous_float32() -> None:
    audio = signal("noise")
    for given_audio in (audio.astype(np.float64), np.repeat(audio, 2)[::2]):
        mel = log_mel(given_audio)
        assert mel.dtype == np.float32
        assert mel.flags.c_contiguous
        np.testing.assert_array_equal(mel, log_mel(audio))


def test_log_mel_keeps_its_input() -> None:
    audio = signal("noise")
    before = audio.copy()
    log_mel(audio)
    np.testing.assert_array_equal(audio, before)


def test_log_mel_of_silence_is_the_floor() -> None:
    np.testing.assert_allclose(log_mel(signal("silence")), (-10 + 4) / 4, atol=1e-6)


def test_log_mel_range_is_eight_decades() -> None:
    mel = log_mel(signal("tone then hiss"))
    assert mel.max() - mel.min() == pytest.approx(8 / 4, abs=1e-6)


@pytest.mark.parametrize("n_samples", [0, 1, 159])
def test_log_mel_shorter_than_hop_is_empty(n_samples: int) -> None:
    assert log_mel(np.ones(n_samples, dtype=np.float32)).shape == (80, 0)


@pytest.mark.parametrize("n_samples", [160, 200])
def test_log_mel_too_short_to_reflect_is_zero_padded(n_samples: int) -> None:
    audio = signal("noise", n_samples)
    expected = formula(np.pad(audio, (0, 400 - n_samples)), 80)[:, :1]
    mel = log_mel(audio)
    assert mel.shape == (80, 1)
    assert np.abs(mel - expected).max() < FORMULA_TOLERANCE


@pytest.mark.parametrize(
    ("audio", "datum"),
    [
        (np.zeros((2, 400), dtype=np.float32), r"\(2, 400\)"),
        (np.zeros(400, dtype=np.int16), "int16"),
    ],
)
def test_log_mel_other_shape_or_dtype_is_refused(audio: FloatArray, datum: str) -> None:
    with pytest.raises(ShapeError, match=datum):
        log_mel(audio)


# (row, first bin, last bin, largest weight) of the filterbanks that OpenAI publishes as float32.
PUBLISHED = {
    80: [
        (0, 1, 1, 0.024862595),
        (40, 42, 44, 0.014735566),
        (79, 186, 199, 0.0031647119),
    ],
    128: [
        (1, 1, 1, 0.030392565),
        (64, 42, 43, 0.018091518),
        (127, 191, 199, 0.0050416016),
    ],
}


@pytest.mark.parametrize(("n_mels", "total"), [(80, 1.9990242), (128, 3.1909857)])
def test_mel_filters_match_published_filters(n_mels: int, total: float) -> None:
    filters = mel_filters(n_mels)
    assert filters.shape == (n_mels, 201)
    assert filters.sum() == pytest.approx(total, rel=1e-6)
    for row, first, last, largest in PUBLISHED[n_mels]:
        assert np.flatnonzero(filters[row])[[0, -1]].tolist() == [first, last]
        assert filters[row].max() == pytest.approx(largest, rel=1e-6)


def test_mel_filters_are_cached_and_read_only() -> None:
    assert mel_filters(80) is mel_filters(80)
    with pytest.raises(ValueError, match="read-only"):
        mel_filters(80)[0, 0] = 1.0


def test_mel_filters_zero_count_is_refused() -> None:
    with pytest.raises(ShapeError, match="0"):
        mel_filters(0)
    assert mel_filters(1).shape == (1, 201)


def test_pad_or_trim_shares_memory_unless_padded() -> None:
    audio = np.arange(1, 5, dtype=np.float32)
    assert pad_or_trim(audio, 6).dtype == np.float32
    assert [np.shares_memory(pad_or_trim(audio, n), audio) for n in (2, 4, 6)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("n_samples", [0, 3, 4, 5, 6, 7, 20])
def test_pad_or_trim_returns_requested_length(n_samples: int) -> None:
    audio = np.arange(1, 6, dtype=np.float32)
    expected = [*range(1, 6), *[0] * 15][:n_samples]
    assert pad_or_trim(audio, n_samples).tolist() == expected
