"""What `model.json` says of the graphs for the Hailo compiler and of what it made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.names import shown

ARCHES: Final = ("hailo8", "hailo8l", "hailo10h")
PARTS: Final = ("encoder", "decoder")
LARGEST_SIZE: Final = 1 << 20
"""Of an axis, far beyond any vocabulary."""


@dataclass(frozen=True, slots=True)
class HailoForm:
    """A graph of fixed sizes for the Hailo compiler (`docs/reference/hailo-graphs.md`).

    Attributes:
        part: `encoder` or `decoder`.
        file: path in the model directory.
        window_s: seconds of audio of one run.
        length: text positions of a decoder, `None` for an encoder.
        opset: version of the ONNX operators.
        inputs: graph input to shape, in the graph's order.
        outputs: graph output to shape.
        start_nodes: nodes or graph inputs at which the compiler is told to start.
        end_nodes: nodes at which it is told to end.
        chip_inputs: shape of each start on the chip, `(batch, height, width, channels)`.
        assets: `token_embedding` and `position_rows` to paths of the arrays that the host of a
            decoder needs; empty for an encoder.
    """

    part: str
    file: str
    window_s: int
    length: int | None
    opset: int
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    start_nodes: tuple[str, ...]
    end_nodes: tuple[str, ...]
    chip_inputs: tuple[tuple[int, ...], ...]
    assets: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse parts and sizes that no graph for a chip has."""
        axes = [axis for shape in self._shapes() for axis in shape]
        sizes = [self.window_s, self.opset, *axes, *([] if self.length is None else [self.length])]
        if self.part not in PARTS or not all(1 <= size <= LARGEST_SIZE for size in sizes):
            raise ModelError(
                f"{shown(self.file)} is part {self.part[:20]!r} with sizes {min(sizes)} to "
                f"{max(sizes)}, expected {' or '.join(PARTS)} with sizes from 1 to {LARGEST_SIZE}"
            )

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (*self.inputs.values(), *self.outputs.values(), *self.chip_inputs)

    @property
    def emulated_file(self) -> str:
        """Path in the model directory of the graph that computes as the chip does."""
        return f"{self.file.removesuffix('.onnx')}-emulated.onnx"


@dataclass(frozen=True, slots=True)
class HefRecord:
    """One compiled network, and what it was made of.

    Attributes:
        part: `encoder` or `decoder`.
        arch: chip it was compiled for.
        file: path in the model directory.
        bytes: its size.
        sha256: its hash.
        graph_sha256: hash of the Hailo-form graph.
        script_sha256: hash of the model script, which lies beside the HEF.
        calibration_sha256: hash of the calibration set.
        compiler_version: the Dataflow Compiler's.
        snr_db: output layer to signal-to-noise ratio after quantisation, in dB, where the compiler
            gave it.
        contexts: how many times the chip is loaded within one run, where the compiler said it.
    """

    part: str
    arch: str
    file: str
    bytes: int
    sha256: str
    graph_sha256: str
    script_sha256: str
    calibration_sha256: str
    compiler_version: str
    snr_db: dict[str, float] = field(default_factory=dict)
    contexts: int | None = None
