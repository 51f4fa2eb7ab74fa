"""A graph with one input and one output, whatever their names are."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from whisper_hailo.backends.session import OneGraph
from whisper_hailo.core.errors import ModelError, display_path
from whisper_hailo.core.types import FloatArray

OTHER_FOLDER: Final = "fetch it again, or name another folder in --speaker-models"


class SpeakerGraph(OneGraph):
    """A speaker model; the same weights are published with several names of input and output."""

    advice = OTHER_FOLDER

    def __init__(self, path: Path, threads: int, name: str) -> None:
        super().__init__(path, threads, name)
        self._input = ""
        self._output = ""

    def open(self) -> Self:
        if self._session is None:
            session = self.load()
            inputs = [value.name for value in session.get_inputs()]
            outputs = [value.name for value in session.get_outputs()]
            if len(inputs) != 1 or len(outputs) != 1:
                raise ModelError(
                    f"{display_path(self.path)} has {len(inputs)} input(s) and {len(outputs)} "
                    f"output(s), expected one of each; {self.advice}"
                )
            self._input = inputs[0]
            self._output = outputs[0]
            self._session = session
        return self

    def run(self, array: FloatArray) -> FloatArray:
        """Return the output for an input in the graph's own shape."""
        return self.compute(self._output, {self._input: array})
