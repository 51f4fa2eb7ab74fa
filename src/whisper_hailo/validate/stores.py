"""Where the graphs of each rung lie: in the model directory, or made beside it for the comparison.

Only forms that the directory has are judged. What they are compared with, in float32 and node by
node, is converted from the checkpoint into a scratch folder where the directory lacks it.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec


class Stores:
    """The folders of a ladder.

    Args:
        directory: the model directory.
        spec: its description.
        checkpoint: what it was made of, if that is at hand.
        work: empty folder for graphs that are made for the comparison.
    """

    def __init__(
        self, directory: Path, spec: ModelSpec, checkpoint: Checkpoint | None, work: Path
    ) -> None:
        self.directory = directory
        self.spec = spec
        self.checkpoint = checkpoint
        self._work = work

    @property
    def float_encoder(self) -> Path:
        """Model directory whose encoder is float32.

        Raises:
            ModelError: there is none, and no checkpoint to make one of.
        """
        return self.directory if self.spec.encoder_quantization == "none" else self._float

    @property
    def float_decoder(self) -> Path:
        """Model directory whose decoder is float32; raises like `float_encoder`."""
        return self.directory if self.spec.quantization == "none" else self._float

    def hailo(self, window_s: int, length: int) -> Path:
        """Model directory with Hailo forms of other sizes.

        Raises:
            ModelError: no checkpoint to make them of.
            OptionError: sizes that the model cannot have.
        """
        sizes = HailoOptions(window_s=window_s, decoder_length=length)
        return self._converted(f"hailo-{window_s}-{length}", ConvertOptions("none", hailo=sizes))

    @cached_property
    def _float(self) -> Path:
        return self._converted("float32", ConvertOptions("none"))

    def _converted(self, name: str, options: ConvertOptions) -> Path:
        out = self._work / name
        if self.checkpoint is None:
            raise ModelError(
                f"{shown(self.directory)} alone does not hold what this comparison needs ({name} "
                "graphs); give what it was converted from to --checkpoint"
            )
        if not out.is_dir():
            convert_checkpoint(self.checkpoint.directory, out, options, source=self.spec.source)
        return out
