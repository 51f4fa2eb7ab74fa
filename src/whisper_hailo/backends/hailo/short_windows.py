"""Whether a chip's short window is worth its words: `auto` takes the CPU where that keeps up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.backends.hailo.hef_contract import check_encoder
from whisper_hailo.backends.hailo.kept_answers import keep_answer, read_answers
from whisper_hailo.backends.hailo.known_answer import first_window
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.silence import bundled_clips
from whisper_hailo.core.spec import ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND

SHORTEST_S: Final = 10.0
"""Shorter windows cost words: real base makes 13.5 % errors on clips in windows of 5 s, 9.6 % in
windows of 10 s and 9.2 % in those of the CPU (docs/accuracy.md)."""

MOST_LOAD: Final = 0.5
"""Seconds that the CPU may need to encode a second of audio. The decoder needs it, too, and as
much again."""

_N_TRIES: Final = 3
"""The quickest counts: other programs slow the rest."""


def why_cpu_is_better(
    hef: Path, directory: Path, spec: ModelSpec, threads: int = 0
) -> str:
    """Return why the CPU should encode in place of a HEF; empty if the HEF should be used."""
    _, shape = check_encoder(hef, spec)
    window_s = shape.n_frames / FRAMES_PER_SECOND
    if window_s >= SHORTEST_S or ENCODER_FILE not in spec.files:
        return ""
    load = cpu_load(directory, spec, threads)
    if load > MOST_LOAD:
        return ""
    return (
        f"{hef.name} has windows of {window_s:g} s, which lose words; this processor encodes "
        f"{1 / load:.0f} times as fast as real time; use the chip with --encoder-backend hailo"
    )


def cpu_load(directory: Path, spec: ModelSpec, threads: int = 0) -> float:
    """Return the seconds that the CPU needs to encode a second of audio; measured once."""
    key = f"cpu {spec.record(ENCODER_FILE).sha256} {threads}"
    kept = read_answers().get(key)
    if isinstance(kept, dict) and isinstance(kept.get("load"), float):
        return float(kept["load"])
    n_frames = round(SHORTEST_S * FRAMES_PER_SECOND)
    mel = first_window(bundled_clips()[0], min(n_frames, spec.dims.max_frames), spec)
    times_s = []
    with OnnxEncoder(directory, spec, threads) as encoder:
        for _ in range(_N_TRIES):
            start_s = time.perf_counter()
            encoder.encode(mel[np.newaxis])
            times_s.append(time.perf_counter() - start_s)
    load = float(min(times_s) / (mel.shape[1] / FRAMES_PER_SECOND))
    keep_answer(key, {"load": load})
    return load
