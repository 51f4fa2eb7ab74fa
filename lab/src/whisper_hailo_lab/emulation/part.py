"""One part of the bundled model with the windows that its emulation is measured on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import onnx

from whisper_hailo.core.atomic_files import write_file
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo_lab.documents.emulation import LABELS, RESULT
from whisper_hailo_lab.report.canvas import BLUE, GREEN, GREY, RED, bars, draw_chart
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.emulate.make import (
    Noise,
    WindowFile,
    generated_script,
    load_form,
    measure_noise,
)
from whisper_hailo_tools.emulate.network import EmulatedNetwork, read_network
from whisper_hailo_tools.emulate.rewrite import PRESETS, emulated, plan_of_script
from whisper_hailo_tools.emulate.statistics import Histogram, collect
from whisper_hailo_tools.options import CalibrationOptions

N_WINDOWS = {"scales": 64, "measured": 24}
"""Windows that set the scales, and others that noise is measured on: drawn as `calibrate` does."""


class Part:
    """One part of the model; graph, windows and statistics are made when first needed.

    Args:
        directory: the model directory.
        spec: its description.
        part: `encoder` or `decoder`.
        root: holds the clips in folders `scales` and `measured`; calibration sets are made there.
    """

    def __init__(self, directory: Path, spec: ModelSpec, part: str, root: Path) -> None:
        self.directory, self.spec, self._root = directory, spec, root
        self.form: HailoForm = next(form for form in spec.hailo if form.part == part)
        self.name = part

    @cached_property
    def model(self) -> onnx.ModelProto:
        return load_form(self.directory / self.form.file)

    @cached_property
    def network(self) -> EmulatedNetwork:
        return read_network(self.model, self.form.start_nodes, self.form.end_nodes)

    @cached_property
    def statistics(self) -> dict[str, Histogram]:
        """What its tensors are like over the windows that set the scales."""
        return collect(self.model, self.network, self._windows("scales"), threads=1)

    def _windows(self, name: str) -> Iterator[Any]:
        options = CalibrationOptions(part=self.name, count=N_WINDOWS[name])
        out = self._root / f"{name}-{self.name}"  # a finished set is recognised
        path = calibrate(self.directory, self._root / name, out, options).path
        windows = WindowFile(path, self.spec, self.form, self.network.entries)
        return windows.read(0, windows.n_windows)

    def script(self, plan: str) -> str:
        """The model script of a plan."""
        if plan == "script":
            return generated_script(self.spec, self.form, "hailo8l", self.network)
        return PRESETS[plan]

    def graph(self, name: str, script: str) -> onnx.ModelProto:
        """The graph that rounds as a script says."""
        plan = plan_of_script(name, script, self.network)
        return emulated(self.model, self.network, plan, self.statistics)

    def write(self, plan: str) -> None:
        """Write the emulated graph of a plan where the emulator looks for it."""
        graph = self.graph(plan, self.script(plan))
        path = self.directory / self.form.emulated_file
        write_file(path, graph.SerializeToString(deterministic=True))
        record = {"plan": plan, "graph_sha256": self.spec.files[self.form.file].sha256}
        write_file(path.with_suffix(".json"), json.dumps(record).encode())

    @property
    def result(self) -> str:
        """What leaves the part: features, or the hidden state before the vocabulary.

        The vocabulary's own logits would flatter a model that uses few of its tokens.
        """
        if self.name == "encoder":
            return next(iter(self.form.outputs))
        products = [layer for layer in self.network.layers if layer.kind == "conv"]
        return products[-1].slots[0].origin

    def noise(self, name: str, script: str, *, adds: bool = False) -> dict[str, Any]:
        """What rounding by a script costs: SNR and cosine of the result.

        Args:
            name: of the plan.
            script: the model script.
            adds: also the SNR after every residual add.
        """
        layers = [one for one in self.network.layers if one.name.startswith("ew_add")]
        after_adds = [tensor for layer in layers for tensor in layer.gives] if adds else []
        noise: Noise = measure_noise(
            self.model,
            self.graph(name, script),
            self.network,
            self._windows("measured"),
            tensors={self.result, *after_adds},
            threads=1,
        )
        entry = next(entry for entry in noise.layers if entry.tensor == self.result)
        found: dict[str, Any] = {"snr_db": entry.snr_db, "cosine": entry.cosine}
        if adds:
            found["adds_snr_db"] = [e.snr_db for e in noise.layers if e.tensor in after_adds]
        return found


PICTURE: Final = RESULT.with_suffix(".png")
COLOURS: Final = {"all8": RED, "adds16": BLUE, "norms16": GREEN, "script": "#333333"}
MARKERS: Final = {"all8": "o", "adds16": "s", "norms16": "^", "script": "D"}


def draw(result: dict[str, Any]) -> None:
    """Noise along the residual stream, at the output, and by kind of layer."""
    encoder = result["encoder"]

    def panels(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        _draw_stream(axes[0], encoder["plans"])
        _draw_plans(axes[1], encoder["plans"])
        _draw_kinds(axes[2], encoder["kinds"])

    title = "What 8 and 16 bits cost micro's encoder"
    write_file(PICTURE, draw_chart("emulation", title, panels, (1, 3), 8).png)


def _draw_stream(ax: Any, plans: list[dict[str, Any]]) -> None:  # noqa: ANN401
    """SNR after every residual add of the encoder."""
    for row in plans:
        if "adds_snr_db" in row:
            plan, values = row["plan"], row["adds_snr_db"]
            numbers = range(1, len(values) + 1)
            style = {"color": COLOURS[plan], "marker": MARKERS[plan], "markersize": 4}
            ax.plot(numbers, values, label=LABELS[plan], **style)
            ax.set_xticks(numbers)
    ax.set_xlabel("residual add, in the order of the encoder")
    ax.set_ylabel("SNR, dB (more is better)")
    ax.set_title("Noise along the residual stream")
    ax.legend(frameon=False)


def _draw_plans(ax: Any, plans: list[dict[str, Any]]) -> None:  # noqa: ANN401
    """SNR of the features and word error rate, per plan."""
    rows = [row for row in plans if "snr_db" in row]
    exact = next(row for row in plans if row["plan"] == "float32")
    labels = [f"{LABELS[row['plan']]}\n{100 * row['wer']:.1f} % WER" for row in rows]
    title = f"Encoder's output, SNR in dB (float32: WER {100 * exact['wer']:.1f} %)"
    colours = [COLOURS[row["plan"]] for row in rows]
    bars(ax, labels, [row["snr_db"] for row in rows], title, colour=colours)


def _draw_kinds(ax: Any, kinds: dict[str, float]) -> None:  # noqa: ANN401
    """SNR of the features when one kind alone has 8 bits."""
    names = sorted((name for name in kinds if name != "none"), key=lambda name: kinds[name])
    colours = [RED if name == "residual adds" else GREY for name in names]
    title = "One kind at 8 bits, all else at 16: SNR in dB (less: costs more)"
    bars(ax, names, [kinds[name] for name in names], title, colour=colours)
