"""What is to be built: one JSON file, paths relative to it or absolute."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .fault import MODEL, BuildError

JOB_VERSION = 1


@dataclass(frozen=True)
class BuildJob:
    """One build.

    Attributes:
        arch: `hailo8`, `hailo8l` or `hailo10h`.
        part: `encoder` or `decoder`.
        size: row of the recipe table: `tiny`, `tiny.en`, `base` or `base.en`.
        net_name: name of the network, which the calibration set's keys begin with.
        graph: path of the ONNX graph.
        start_nodes: where the compiler starts.
        end_nodes: where it ends.
        chip_inputs: `(batch, height, width, channels)` of each start.
        d_model: width of the network.
        n_layers: layers of this part.
        calibration: path of the `.npy` or `.npz`.
        script: path of the user's own model script, or `None` to generate one.
        optimization_level: 0 to 4, or `None` for the recipe's.
        out: directory of the results.
        stem: begins the name of every result.
    """

    arch: str
    part: str
    size: str
    net_name: str
    graph: str
    start_nodes: list[str]
    end_nodes: list[str]
    chip_inputs: list[list[int]]
    d_model: int
    n_layers: int
    calibration: str
    script: str | None
    optimization_level: int | None
    out: str
    stem: str

    def to_json(self) -> str:
        return json.dumps({"version": JOB_VERSION, **asdict(self)}, indent=2, sort_keys=True) + "\n"

    @classmethod
    def load(cls, path: Path) -> BuildJob:
        """Read a job; relative paths in it start at its folder.

        Raises:
            BuildError: not readable, or not a job.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw.pop("version") != JOB_VERSION:
                raise ValueError("another version")
            for key in ("graph", "calibration", "script", "out"):
                if raw[key] is not None:
                    raw[key] = str(path.parent / raw[key])
            return cls(**raw)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BuildError(MODEL, f"{path} is no build job ({error}); make it again") from error

    def result(self, suffix: str) -> Path:
        """Path of one result, such as `.hef` or `_optimized.har`."""
        return Path(self.out) / f"{self.stem}{suffix}"
