"""Make model directories for `steps.py` on this machine.

    python -m whisper_hailo_lab.processors.prepare OUT [--sizes micro tiny.en] [--window-s N]

Every quantisation of the bundled model and of a published one, as a processor with float16 would
convert them and as one without would (`-codes`). The bundled model gets a log-mel of `--window-s`
of the demo, the others audio features of 10 s.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Final

import numpy as np

from whisper_hailo.audio import load_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import QUANTIZATIONS, ConvertOptions
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import (
    FRAMES_PER_POSITION,
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
    IntArray,
)
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_lab.clip_archives import text_beside
from whisper_hailo_lab.formats.prepare import use_cache
from whisper_hailo_lab.program import first_line, run_program
from whisper_hailo_lab.repository import PACKAGE

SIZES: Final = ("micro", "tiny.en")

WINDOW_S: Final = 10
N_POSITIONS: Final = WINDOW_S * FRAMES_PER_SECOND // FRAMES_PER_POSITION
"""Positions of the encoder's output for that window."""


def encode_text(directory: Path, text: str) -> IntArray:
    """Return `(n_tokens,)` ids of a transcript, its prefix included."""
    special = ModelSpec.load(directory).tokens
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, special)
    tokens = (*tokenizer.prefix("en", "transcribe"), *tokenizer.encode(f" {text}"))
    return np.array(tokens, np.int64)


def draw_features(directory: Path, n_positions: int) -> FloatArray:
    """Return random `(1, n_positions, d_model)` audio features."""
    shape = (1, n_positions, ModelSpec.load(directory).dims.d_model)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def write_models(out: Path, name: str) -> None:
    """Write every quantisation of a checkpoint."""
    for quantize in QUANTIZATIONS:
        target = f"{name}-{quantize}"
        if quantize == "none":
            _copy_model(name, quantize, out / target, half=False)
        else:
            _copy_model(name, quantize, out / target, half=True)
            _copy_model(name, quantize, out / f"{target}-codes", half=False)


def _copy_model(model: str, quantize: str, target: Path, *, half: bool) -> None:
    """Convert a checkpoint into a model directory of its own."""
    options = ConvertOptions(quantize=quantize, encoder_quantize=quantize, half=half)
    shutil.copytree(resolve_model(model, options), target)


def write_inputs(out: Path, window_s: int) -> None:
    """Write the inputs of every model directory."""
    demo = PACKAGE / "assets" / "demo.flac"
    audio = pad_or_trim(load_audio(demo), window_s * SAMPLE_RATE_HZ)
    mel = log_mel(audio, 80)[np.newaxis]
    for directory in out.glob("*-*"):
        if directory.name.startswith("micro"):
            np.save(directory / "mel.npy", mel)
            np.save(directory / "tokens.npy", encode_text(directory, text_beside(demo)))
        else:  # an emulated encoder of tiny's size takes minutes
            np.save(directory / "features.npy", draw_features(directory, N_POSITIONS))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=first_line(__doc__))
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--sizes", nargs="+", default=SIZES, help="names of checkpoints"
    )
    parser.add_argument(
        "--window-s", type=int, default=WINDOW_S, help="of the bundled model"
    )
    arguments = parser.parse_args()
    out = arguments.out
    shutil.rmtree(out, ignore_errors=True)  # models of an earlier call
    out.mkdir(parents=True)
    use_cache(out.parent / "cache-x86")
    for name in arguments.sizes:
        write_models(out, name)
    write_inputs(out, arguments.window_s)


if __name__ == "__main__":
    sys.exit(run_program(main))
