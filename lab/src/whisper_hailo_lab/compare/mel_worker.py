"""The process of one log-mel implementation: seconds in, its time and its distance out.

    python -m whisper_hailo_lab.compare.mel_worker NAME

It knows nothing of the harness, so that scripts in environments of rivals can use it.
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


def definition(audio: FloatArray) -> NDArray[np.float64]:
    """The formula written out in float64, frame by frame; `(n_mels, n_frames)`."""
    padded = np.pad(audio.astype(np.float64), N_FFT // 2, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(N_FFT) / N_FFT)
    starts = range(0, audio.size // HOP_LENGTH * HOP_LENGTH, HOP_LENGTH)
    power = [np.abs(np.fft.rfft(padded[s : s + N_FFT] * window)) ** 2 for s in starts]
    mel = np.log10(np.maximum(mel_filters(N_MELS) @ np.array(power).T, 1e-10))
    result: NDArray[np.float64] = (np.maximum(mel, mel.max() - 8.0) + 4.0) / 4.0
    return result


def signal(seconds: float) -> FloatArray:
    """Noise that swells and a gliding tone, the same wherever it is made."""
    time_s = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    noise = np.random.default_rng(7).standard_normal(time_s.size)
    glide = np.sin(2 * np.pi * (200 + 150 * time_s) * time_s)
    audio: FloatArray = (0.05 * noise * (1 + np.sin(3 * time_s)) + 0.3 * glide).astype(np.float32)
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
    "definition": lambda: definition,
    "faster-whisper": _faster_whisper,
    "onnx-asr": _onnx_asr,
}


def serve_mel(make: Callable[[], LogMel]) -> None:
    """Answer `SECONDS` lines with the time of a transform and its distance from the definition."""
    answers, run = claim_stdout(), make()
    references: dict[float, NDArray[np.float64]] = {}
    for line in sys.stdin:
        seconds = float(line)
        audio = signal(seconds)
        if seconds not in references:
            references[seconds] = definition(audio)
        begin = perf_counter()
        mel = run(audio)
        ms = (perf_counter() - begin) * 1000.0
        expected = references[seconds]
        padded = mel.shape[-1] > expected.shape[-1]  # its last frames look into the zeros
        n_frames = min(mel.shape[-1], expected.shape[-1] - 2 * padded)
        difference = np.abs(mel[:, :n_frames] - expected[:, :n_frames]).max()
        facts = {"ms": ms, "largest_difference": float(difference), "frames": mel.shape[-1]}
        answers.write(json.dumps(facts) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve_mel(HERE[sys.argv[1]])
