"""The process of one log-mel implementation: seconds in, its time and its difference out.

    python -m whisper_hailo_lab.compare.mel_worker NAME

Scripts in environments of rivals call `serve_mel`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whisper_hailo.audio.log_mel import HOP_LENGTH, N_FFT, log_mel, mel_filters
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.harness.worker import claim_stdout

OURS: Final = "ours"
N_MELS: Final = 80

LogMel: TypeAlias = Callable[[FloatArray], NDArray[Any]]


def mel_by_definition(audio: FloatArray) -> NDArray[np.float64]:
    """Return `(n_mels, n_frames)` by the formula in float64, frame by frame."""
    padded = np.pad(audio.astype(np.float64), N_FFT // 2, mode="reflect")
    phase = 2.0 * np.pi * np.arange(N_FFT) / N_FFT
    window = 0.5 - 0.5 * np.cos(phase)
    spectra = []
    for frame in range(audio.size // HOP_LENGTH):
        start = frame * HOP_LENGTH
        spectra.append(np.fft.rfft(padded[start : start + N_FFT] * window))
    power = np.abs(np.array(spectra)) ** 2
    filtered = mel_filters(N_MELS) @ power.T
    mel = np.log10(np.maximum(filtered, 1e-10))
    bounded = np.maximum(mel, mel.max() - 8.0)
    result: NDArray[np.float64] = (bounded + 4.0) / 4.0
    return result


def make_signal(seconds: float) -> FloatArray:
    """Return swelling noise and a gliding tone, the same on every machine."""
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    noise = np.random.default_rng(7).standard_normal(time_s.size)
    glide_hz = 200 + 150 * time_s
    glide = np.sin(2 * np.pi * glide_hz * time_s)
    loudness = 0.05 * (1 + np.sin(3 * time_s))
    swelling = loudness * noise
    audio: FloatArray = (swelling + 0.3 * glide).astype(np.float32)
    return audio


def _faster_whisper() -> LogMel:
    from faster_whisper.feature_extractor import FeatureExtractor

    extractor = FeatureExtractor()
    return lambda audio: np.asarray(extractor(audio, padding=0))


def _onnx_asr() -> LogMel:
    from importlib import resources

    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    graph = resources.files("onnx_asr.preprocessors") / "data" / f"whisper{N_MELS}.onnx"
    session: Any = onnxruntime.InferenceSession(graph.read_bytes(), options)

    def run(audio: FloatArray) -> NDArray[Any]:
        inputs = {"waveforms": audio[None], "waveforms_lens": np.array([audio.size])}
        mel: NDArray[Any] = session.run(None, inputs)[0][0]
        return mel

    return run


HERE: Final[dict[str, Callable[[], LogMel]]] = {
    OURS: lambda: log_mel,
    "definition": lambda: mel_by_definition,
    "faster-whisper": _faster_whisper,
    "onnx-asr": _onnx_asr,
}


def serve_mel(make: Callable[[], LogMel]) -> None:
    """Answer lines of seconds with the time of a log-mel and its difference from the definition."""
    answers = claim_stdout()
    log_mel_of = make()
    references: dict[float, NDArray[np.float64]] = {}
    for line in sys.stdin:
        seconds = float(line)
        audio = make_signal(seconds)
        if seconds not in references:
            references[seconds] = mel_by_definition(audio)
        begin = perf_counter()
        mel = log_mel_of(audio)
        elapsed_ms = (perf_counter() - begin) * 1000.0
        facts = {
            "ms": elapsed_ms,
            "largest_difference": _largest_difference(mel, references[seconds]),
            "frames": mel.shape[-1],
        }
        answers.write(json.dumps(facts) + "\n")
        answers.flush()


def _largest_difference(mel: NDArray[Any], expected: NDArray[np.float64]) -> float:
    n_frames = mel.shape[-1]
    if n_frames > expected.shape[-1]:
        # It pads its audio: the last two frames of the definition see zeros there.
        n_frames = expected.shape[-1] - 2
    difference = mel[:, :n_frames] - expected[:, :n_frames]
    return float(np.abs(difference).max())


if __name__ == "__main__":
    serve_mel(HERE[sys.argv[1]])
