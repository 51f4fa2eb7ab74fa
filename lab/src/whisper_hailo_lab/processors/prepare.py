"""Model directories for `steps.py`, made on this machine.

    python -m whisper_hailo_lab.processors.prepare OUT [--sizes micro tiny] [...]

Every quantisation of the bundled model, and of published dimensions with random weights, as a
processor with float16 would convert them and as one without would (`-codes`, which `--no-codes`
leaves out); on request, of the block formats also with float32 arithmetic instead of 8-bit
(`accuracy_level` of `MatMulNBits`), which is the other kernel that ONNX Runtime has for them.
The bundled model gets a log-mel of `--window-s` of the demo, the others audio features of 10 s.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions
from whisper_hailo.core.spec import DECODER_FILE, ModelSpec
from whisper_hailo.core.types import (
    FRAMES_PER_POSITION,
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
    IntArray,
)
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_lab.data.clips import said
from whisper_hailo_lab.program import description, run
from whisper_hailo_lab.repository import PACKAGE
from whisper_hailo_lab.speed.keys import use_cache
from whisper_hailo_lab.speed.weights import SIZES as RANDOM
from whisper_hailo_lab.speed.weights import random_checkpoint

SIZES = ("micro", "tiny")
"""Those whose logits are compared; others are only counted."""
WINDOW_S = 10
N_POSITIONS = WINDOW_S * FRAMES_PER_SECOND // FRAMES_PER_POSITION
"""Of the encoder's output, for that window."""
IN_FLOAT = 1
"""`accuracy_level` of float32 arithmetic."""


def copy(model: str, quantize: str, target: Path, *, half: bool) -> Path:
    """A model directory of its own."""
    options = ConvertOptions(quantize=quantize, encoder_quantize=quantize, half=half)
    shutil.copytree(resolve_model(model, options), target)
    return target


def with_float_kernels(source: Path) -> None:
    """The same model whose decoder computes its blocks in float32; nothing where it has none."""
    graph = onnx.load(str(source / DECODER_FILE), load_external_data=False)
    changed = 0
    for node in graph.graph.node:
        for attribute in node.attribute:
            if node.op_type == "MatMulNBits" and attribute.name == "accuracy_level":
                attribute.i = IN_FLOAT
                changed += 1
    if changed:
        target = source.with_name(f"{source.name}-float-kernel")
        shutil.copytree(source, target)
        content = graph.SerializeToString()
        (target / DECODER_FILE).write_bytes(content)


def tokens_of(directory: Path, text: str) -> IntArray:
    """`(n_tokens,)` ids of a transcript, what comes before it included."""
    special = ModelSpec.load(directory).tokens
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, special)
    tokens = (*tokenizer.prefix("en", "transcribe"), *tokenizer.encode(f" {text}"))
    return np.array(tokens, np.int64)


def drawn_features(directory: Path, n_positions: int) -> FloatArray:
    """`(1, n_positions, d_model)` that no encoder gave."""
    shape = (1, n_positions, ModelSpec.load(directory).dims.d_model)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def main() -> None:
    """Entry point of the command line."""
    parser = argparse.ArgumentParser(description=description(__doc__))
    parser.add_argument("out", type=Path)
    parser.add_argument("--sizes", nargs="+", choices=("micro", *RANDOM), default=SIZES)
    parser.add_argument("--no-codes", action="store_true")
    parser.add_argument("--float-kernels", action="store_true")
    parser.add_argument("--window-s", type=int, default=WINDOW_S, help="of the bundled model")
    words = parser.parse_args()
    out = words.out
    shutil.rmtree(out, ignore_errors=True)  # what an earlier call asked for
    out.mkdir(parents=True)
    use_cache(out.parent / "cache-x86")
    for name in words.sizes:
        model = name if name == "micro" else str(random_checkpoint(name, out.parent / name))
        for quantize in QUANTIZATIONS:
            is_float = quantize == "none"
            made = copy(model, quantize, out / f"{name}-{quantize}", half=not is_float)
            if not (is_float or words.no_codes):
                copy(model, quantize, out / f"{name}-{quantize}-codes", half=False)
            if words.float_kernels:
                with_float_kernels(made)
    demo = PACKAGE / "assets" / "demo.flac"
    audio = pad_or_trim(load_audio(demo), words.window_s * SAMPLE_RATE_HZ)
    mel = log_mel(audio, 80)[np.newaxis]
    for directory in out.glob("*-*"):
        if directory.name.startswith("micro"):
            np.save(directory / "mel.npy", mel)
            np.save(directory / "tokens.npy", tokens_of(directory, said(demo)))
        else:  # an emulated encoder of tiny's size takes minutes
            np.save(directory / "features.npy", drawn_features(directory, N_POSITIONS))


if __name__ == "__main__":
    sys.exit(run(main))
