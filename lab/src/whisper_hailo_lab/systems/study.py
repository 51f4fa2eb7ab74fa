"""The study's recipe: a float encoder of fixed size and Optimum's decoder in dynamic INT8."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from whisper_hailo.backends.select import hailo_form
from whisper_hailo.convert.model_cache import resolve_model
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_lab.systems.ours import Ours
from whisper_hailo_lab.systems.protocol import Loading

WINDOW_S: Final = 10
LENGTH: Final = 32


class Study(Ours):
    """The study's pipeline on the CPU.

    The encoder is the graph for the Hailo compiler, run by ONNX Runtime. Its features are padded
    with rows of zeros to the full context, the only padding that Optimum's graphs have. The
    decoding loop is ours and leaves the cache in ONNX Runtime's memory.
    """

    packages = ("whisper-hailo", "onnxruntime", "numpy", "tokenizers")

    def __init__(self, loading: Loading) -> None:
        case = loading.case
        fixed = HailoOptions(WINDOW_S, LENGTH)
        directory = resolve_model(case.model, ConvertOptions("none", hailo=fixed))
        parts = {
            "encoder": str(hailo_form(directory, ModelSpec.load(directory), "encoder")),
            "decoder": loading.path,
            "decoder_backend": "optimum",
            "hailo_window_s": WINDOW_S,
            "hailo_length": LENGTH,
        }
        merged = replace(case, settings=case.settings | parts)
        super().__init__(Loading(case=merged, path=case.model))
