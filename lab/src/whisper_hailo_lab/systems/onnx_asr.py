"""onnx-asr: Whisper from ONNX files as Optimum exports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    SystemResult,
    WholeModel,
    package,
)

FILES = ("config.json", "vocab.json", "added_tokens.json")


class OnnxAsr(WholeModel):
    """A model directory for onnx-asr; it is greedy and keeps no options. Windows of 30 s."""

    packages = ("onnx-asr", "onnxruntime", "numpy")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model; encoder and decoder come as one."""
        case = self._loading.case
        if case.budget is not None:
            raise OptionError("onnx-asr takes no token budget; it has no row 'study'")
        onnx_asr = package("onnx_asr", "onnx-asr")
        folder = Path(self._loading.path)
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise ModelError(
                f"{display_path(folder)} lacks {', '.join(missing)}; give a directory that Optimum "
                "exported, with vocab.json and added_tokens.json beside the graphs"
            )
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = case.threads
        self._model = watch(
            "model", lambda: onnx_asr.load_model("whisper", folder, sess_options=options)
        )
        return {"engine": "ONNX Runtime"}

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Text of consecutive 30 s pieces: the package leaves cutting to its caller."""
        window = 30 * 16_000
        pieces = [audio[start : start + window] for start in range(0, len(audio), window)]
        texts = [self._model.recognize(piece, language=language) for piece in pieces]
        return SystemResult(text=" ".join(str(text).strip() for text in texts))
