"""onnx-asr: Whisper from ONNX files that Optimum exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo_lab.systems.protocol import (
    ComponentWatch,
    SystemResult,
    WholeModel,
    import_package,
)

WINDOW_SAMPLES: Final = 30 * SAMPLE_RATE_HZ
FILES: Final = ("config.json", "vocab.json", "added_tokens.json")


class OnnxAsr(WholeModel):
    """onnx-asr with a model directory: greedy, without options, in windows of 30 s."""

    packages = ("onnx-asr", "onnxruntime", "numpy")

    def open(self, watch: ComponentWatch) -> dict[str, Any]:
        """Load the model, encoder and decoder together."""
        case = self._loading.case
        if case.budget is not None:
            raise OptionError("onnx-asr takes no token budget; it has no row 'study'")
        onnx_asr = import_package("onnx_asr", "onnx-asr")
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
            "model",
            lambda: onnx_asr.load_model("whisper", folder, sess_options=options),
        )
        return {"engine": "ONNX Runtime"}

    def transcribe(self, audio: FloatArray, language: str) -> SystemResult:
        """Return the text of consecutive pieces; the package leaves cutting to its caller."""
        starts = range(0, len(audio), WINDOW_SAMPLES)
        pieces = [audio[start : start + WINDOW_SAMPLES] for start in starts]
        texts = [self._model.recognize(piece, language=language) for piece in pieces]
        return SystemResult(text=" ".join(str(text).strip() for text in texts))
