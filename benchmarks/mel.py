"""Time our log-mel against the numpy ones of librosa and Transformers, on one core.

    python benchmarks/mel.py [--seconds 10] [--n-mels 80] [--rounds 50] [--json]

Rivals that are not installed are left out. Every round runs all of them, in turn and in an order
of its own, so that whatever else the machine does hits all alike; ratios are medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.features import log_mel, pad_or_trim

OURS = "whisper-hailo"
SPEECH = Path(__file__).parents[1] / "tests" / "data" / "jfk.flac"
WARM_UPS = 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

LogMel = Callable[[FloatArray], FloatArray]


def librosa_log_mel(n_mels: int) -> LogMel:
    """The formula in librosa's own functions."""
    import librosa

    def run(audio: FloatArray) -> FloatArray:
        power = librosa.feature.melspectrogram(
            y=audio, sr=SAMPLE_RATE_HZ, n_fft=400, hop_length=160, n_mels=n_mels, pad_mode="reflect"
        )[:, :-1]
        log = np.log10(np.maximum(power, 1e-10))
        return (np.maximum(log, log.max() - 8.0) + 4.0) / 4.0

    return run


def transformers_log_mel(n_mels: int) -> LogMel:
    """What `WhisperFeatureExtractor` uses where there is no torch."""
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor(feature_size=n_mels)
    return lambda audio: extractor._np_extract_fbank_features(audio[None], "cpu")[0]


RIVALS: dict[str, Callable[[int], LogMel]] = {
    "librosa": librosa_log_mel,
    "transformers": transformers_log_mel,
}


def measure(systems: dict[str, LogMel], audio: FloatArray, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every round, per system."""
    rng = np.random.default_rng(0)
    times_ms: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(WARM_UPS + rounds):
        for name in rng.permutation(list(systems)):
            start = time.perf_counter()
            systems[name](audio)
            if number >= WARM_UPS:
                times_ms[name].append((time.perf_counter() - start) * 1e3)
    return times_ms


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10.0, help="audio length (default 10)")
    parser.add_argument("--n-mels", type=int, default=80, help="mel bins (default 80)")
    parser.add_argument("--rounds", type=int, default=50, help="paired rounds (default 50)")
    parser.add_argument("--json", action="store_true", help="one JSON object per system")
    options = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():  # numpy heard of it when it was imported.
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)  # noqa: S606
    warnings.simplefilter("ignore")
    audio = pad_or_trim(load_audio(SPEECH), round(options.seconds * SAMPLE_RATE_HZ))
    systems: dict[str, LogMel] = {OURS: lambda samples: log_mel(samples, options.n_mels)}
    systems |= {name: make(options.n_mels) for name, make in RIVALS.items() if util.find_spec(name)}
    times_ms = measure(systems, audio, options.rounds)
    if not options.json:
        print(f"{options.seconds:g} s, {options.n_mels} bins, {options.rounds} rounds, one thread")
        print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    for name, system in systems.items():
        ratios = np.array(times_ms[name]) / np.array(times_ms[OURS])
        row = {
            "system": name,
            "version": "-" if name == OURS else metadata.version(name),
            "median_ms": float(np.median(times_ms[name])),
            "ratio": float(np.median(ratios)),
            "max_difference": float(np.abs(system(audio) - systems[OURS](audio)).max()),
        }
        if options.json:
            print(json.dumps(row | {"seconds": options.seconds, "rounds": options.rounds}))
        else:
            print(
                f"{name:14} {row['version']:8} {row['median_ms']:8.2f} ms {row['ratio']:6.2f} x"
                f"   difference {row['max_difference']:.1e}"
            )


if __name__ == "__main__":
    main()
