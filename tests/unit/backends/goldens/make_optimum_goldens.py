"""Export a very small Whisper with random weights by the Optimum of the running environment.

The exports beside this file were made with

    pip install torch==2.13.0 transformers==4.57.6 optimum-onnx==0.1.0
    python make_optimum_goldens.py checkpoint optimum-onnx-0.1.0.zip
    pip install torch==2.5.1 transformers==4.45.2 optimum==1.23.3 onnx==1.16.2 ml_dtypes
    python make_optimum_goldens.py checkpoint optimum-1.23.3.zip

each in an environment of its own. The checkpoint (`checkpoint.zip`) is made when it is not there.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

GRAPHS = (
    "encoder_model",
    "decoder_model",
    "decoder_with_past_model",
    "decoder_model_merged",
)


def make_checkpoint(directory: Path) -> None:
    """A Whisper of the smallest sizes at which layers and heads can still be mixed up."""
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=90, num_mel_bins=80, d_model=8, max_source_positions=1500,
        max_target_positions=24, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=12,
        decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=12, init_std=0.3,
        decoder_start_token_id=11, eos_token_id=10, bos_token_id=10, pad_token_id=10,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    WhisperForConditionalGeneration(config).save_pretrained(directory)


def export(checkpoint: Path, out: Path) -> None:
    """Export with a cache, in two graphs and in one."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from optimum.exporters.onnx import main_export

    with tempfile.TemporaryDirectory() as work:
        main_export(
            str(checkpoint),
            Path(work),
            task="automatic-speech-recognition-with-past",
            opset=17,
        )
        for name in GRAPHS:
            quantize_dynamic(
                Path(work) / f"{name}.onnx", Path(work) / f"{name}_quantized.onnx",
                weight_type=QuantType.QInt8,
                # Both branches of a merged graph are graphs inside it.
                extra_options={"EnableSubgraph": "merged" in name},
            )  # fmt: skip
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
            for name in (
                f"{graph}{mark}.onnx" for graph in GRAPHS for mark in ("", "_quantized")
            ):
                packed.write(Path(work) / name, name)


def main() -> None:
    """Entry point of the command line."""
    here = Path(__file__).parent
    checkpoint = here / sys.argv[1]
    out = here / sys.argv[2]
    if not checkpoint.is_dir():
        make_checkpoint(checkpoint)
    export(checkpoint, out)


if __name__ == "__main__":
    main()
