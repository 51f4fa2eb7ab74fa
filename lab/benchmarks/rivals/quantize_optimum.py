"""Dynamic INT8 beside every graph of an Optimum export: `python quantize_optimum.py EXPORT`.

ONNX Runtime's own tool with its defaults, as the study used it: everything that it can quantise.
"""

from __future__ import annotations

import sys
from pathlib import Path

from onnxruntime.quantization import QuantType, quantize_dynamic

GRAPHS = (
    "encoder_model",
    "decoder_model",
    "decoder_with_past_model",
    "decoder_model_merged",
)


def main() -> None:
    folder = Path(sys.argv[1])
    for name in GRAPHS:
        quantize_dynamic(
            folder / f"{name}.onnx",
            folder / f"{name}_quantized.onnx",
            weight_type=QuantType.QInt8,
            # Both branches of a merged graph are graphs inside it.
            extra_options={"EnableSubgraph": name.endswith("merged")},
        )


if __name__ == "__main__":
    main()
