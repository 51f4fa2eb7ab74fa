"""Measure with the checkpoint's own encoder, on the bundled clips: silence keys and peaks."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.session import open_graph, running
from whisper_hailo.backends.silence import bundled_clips, measure_silence_keys, save_silence_keys
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.graphs.encoder import encoder_graph
from whisper_hailo.convert.graphs.onnx_file import write_graph
from whisper_hailo.convert.graphs.smoothing import PEAK_SUFFIX, Peaks
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND, FloatArray

_GRAPH_FILE = "peaks.onnx"


def write_silence_keys(work: Path, spec: ModelSpec, path: Path) -> None:
    """Measure the silence keys with the encoder of a model directory and write them."""
    with OnnxEncoder(work, spec) as encoder:
        save_silence_keys(measure_silence_keys(encoder), path)


def measure_peaks(checkpoint: Checkpoint, work: Path) -> Peaks:
    """Run the encoder in float32 and note the largest magnitudes of what its products read.

    Args:
        checkpoint: whose encoder.
        work: folder for the graph, which is removed again.
    """
    peaks: dict[str, FloatArray] = {}
    with ExitStack() as stack:
        written = write_graph(encoder_graph(checkpoint, shows_peaks=True), work / _GRAPH_FILE)
        for name in written:
            stack.callback((work / name).unlink)
        session = open_graph(work / _GRAPH_FILE, _GRAPH_FILE, threads=0)
        names = [out.name for out in session.get_outputs() if out.name.endswith(PEAK_SUFFIX)]
        dims = checkpoint.config.dims
        longest = round(dims.max_window_s * FRAMES_PER_SECOND)
        for clip in bundled_clips():
            mel = log_mel(clip, dims.n_mels)[np.newaxis, :, :longest]
            mel = mel[..., : mel.shape[-1] // FRAMES_PER_POSITION * FRAMES_PER_POSITION]
            with running(_GRAPH_FILE):
                found = session.run(names, {"mel": mel})
            for name, values in zip(names, found, strict=True):
                key = name.removesuffix(PEAK_SUFFIX)
                peaks[key] = np.maximum(peaks.get(key, np.float32(0)), values)
    return peaks
