"""What all engines that are one ONNX file have in common: loading it, running it, freeing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from numpy.typing import NDArray

from whisper_hailo.backends.graph_run import CONVERT_AGAIN, running
from whisper_hailo.backends.session import open_graph
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.errors import ModelError

if TYPE_CHECKING:
    import onnxruntime

AnyArray: TypeAlias = NDArray[Any]


class OneGraph(Closing):
    """One ONNX file that no model directory describes.

    Args:
        path: the file.
        threads: intra-op threads; 0 lets the runtime choose.
        advice: what to do when the runtime refuses it.
    """

    def __init__(self, path: Path, threads: int, advice: str = CONVERT_AGAIN) -> None:
        self._path = path
        self._threads = threads
        self._advice = advice
        self._session: onnxruntime.InferenceSession | None = None

    @property
    def name(self) -> str:
        raise NotImplementedError

    def open(self) -> Self:
        """Load the graph.

        Raises:
            ModelError: the runtime refuses it.
        """
        if self._session is None:
            self._session = open_graph(self._path, str(self._path), self._threads, self._advice)
        return self

    def close(self) -> None:
        """Free the graph; `open` loads it again."""
        self._session = None

    def _compute(self, output: str, arrays: dict[str, AnyArray]) -> AnyArray:
        """One output for arrays by input name, in the graph's own shape and dtype.

        Raises:
            ModelError: not open, or the graph failed.
        """
        if self._session is None:
            raise ModelError(f"{self.name} is not open; call open() or use a with block")
        with running(str(self._path), self._advice):
            result: AnyArray = self._session.run([output], arrays)[0]
        return result
