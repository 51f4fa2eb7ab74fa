"""The emulated rung's graphs: those that `emulate` left in the directory, or made for this run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.backends.emulator import emulated_plan
from whisper_hailo.backends.onnx_message import read_graph_bytes
from whisper_hailo.core.errors import ModelError
from whisper_hailo.core.files import inside
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.hailo_tools.emulate.make import load_form
from whisper_hailo.hailo_tools.emulate.network import read_network
from whisper_hailo.hailo_tools.emulate.plan import SCRIPT, PrecisionPlan, plan_of_script, preset
from whisper_hailo.hailo_tools.emulate.rewrite import emulated
from whisper_hailo.hailo_tools.emulate.script import generated_script
from whisper_hailo.hailo_tools.emulate.statistics import collect
from whisper_hailo.validate.inner import Feeds, InnerGraph

ARCH = "hailo8l"
"""Chip whose model script is emulated; the scripts of all three differ in few layers."""

FALLBACK = "adds16"
"""Plan for networks that no recipe of the compiler's scripts is for."""


@dataclass(frozen=True, slots=True)
class EmulatedGraph:
    """An emulated graph.

    Attributes:
        label: file and plan.
        encoded: the model, serialised.
    """

    label: str
    encoded: bytes


def emulated_graph(
    directory: Path, spec: ModelSpec, form: HailoForm, graph: InnerGraph, feeds: list[Feeds]
) -> EmulatedGraph:
    """The graph with the chip's arithmetic.

    Args:
        directory: the model directory.
        spec: its description.
        form: the Hailo form.
        graph: the form's graph, which makes what enters the chip.
        feeds: its inputs for each window that the chip's scales are chosen by.

    Raises:
        ModelError: the emulated graph in the directory is of another conversion.
    """
    path = inside(directory, form.emulated_file)
    if path.is_file():
        plan_name = emulated_plan(path, spec, form)
        return EmulatedGraph(f"{path.name} ({plan_name})", read_graph_bytes(path))
    model = load_form(inside(directory, form.file))
    network = read_network(model, form.start_nodes, form.end_nodes)
    try:
        name, text = SCRIPT, generated_script(spec, form, ARCH, network)
    except ModelError:
        name, text = FALLBACK, preset(FALLBACK)
    plan: PrecisionPlan = plan_of_script(name, text, network, form.start_nodes, form.end_nodes)
    statistics = collect(model, network, _entries(network.entries, graph, feeds))
    result = emulated(model, plan, statistics)
    label = f"{Path(form.file).name} emulated ({name})"
    return EmulatedGraph(label, result.SerializeToString(deterministic=True))


def _entries(entries: tuple[str, ...], graph: InnerGraph, feeds: list[Feeds]) -> Iterator[Feeds]:
    """What enters the chip for each window: graph inputs, and values that the host makes."""
    made = [name for name in entries if name not in graph.feeds]
    runs = graph.run_each(made, feeds) if made else [{} for _ in feeds]
    for one, run in zip(feeds, runs, strict=True):
        yield {name: run[name] if name in run else one[name] for name in entries}
