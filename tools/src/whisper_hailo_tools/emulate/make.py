"""From a model directory and real speech to an emulated graph and what its rounding costs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.convert.graphs.onnx_graph import DATA_SUFFIX, PROTOBUF_LIMIT_BYTES
from whisper_hailo.core.atomic_files import require_writable_folder, write_file
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.paths import resolve_within
from whisper_hailo.core.read_files import read_text, sha256
from whisper_hailo.core.spec import ARCHES, HailoForm, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.compile import describe_job, translate_build_errors
from whisper_hailo_tools.difference import DifferenceTally
from whisper_hailo_tools.emulate.network import EmulatedLayer, EmulatedNetwork, read_network
from whisper_hailo_tools.emulate.rewrite import (
    EXACT,
    PRESETS,
    ROUNDED,
    PrecisionPlan,
    emulated,
    plan_of_script,
)
from whisper_hailo_tools.emulate.statistics import Feeds, collect, open_probe
from whisper_hailo_tools.hef_build.model_script import default_windows, model_script
from whisper_hailo_tools.hef_build.stages import load_calibration
from whisper_hailo_tools.options import SCRIPT, CalibrationOptions, EmulateOptions


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise of what one layer gives, that of all layers before it included."""

    layer: str
    tensor: str
    snr_db: float
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: `None` where rounding changed nothing."""
        return asdict(self) | {"snr_db": self.snr_db if math.isfinite(self.snr_db) else None}


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of an emulation."""

    layers: tuple[LayerNoise, ...]
    outputs: tuple[LayerNoise, ...]
    n_windows: int = 0


def measure_noise(
    exact: ModelProto,
    rounded: ModelProto,
    network: EmulatedNetwork,
    windows: Iterable[Feeds],
    *,
    tensors: Collection[str] | None = None,
    threads: int = 0,
) -> Noise:
    """Run both graphs over the same windows and compare the tensors between layers.

    `exact` is the Hailo form, `rounded` what `emulated` made of it, `windows` what enters the chip:
    others than those of the statistics. Nothing behind the last of `tensors` is computed; `None`
    takes all.
    """
    inputs = {value.name for value in rounded.graph.input}
    fed = {name: name if name in inputs else name + EXACT for name in network.entries}
    compared = tuple(n for n in network.tensors if tensors is None or n in tensors)
    wanted = {name: name + ROUNDED if name in inputs else name for name in compared}
    found = {name: DifferenceTally() for name in compared}
    n_windows = 0
    run_exact = open_probe(exact, network.entries, compared, threads)
    run_rounded = open_probe(rounded, [*fed.values()], [*wanted.values()], threads)
    for feeds in windows:
        true = run_exact(feeds)
        got = run_rounded({fed[name]: array for name, array in feeds.items()})
        for name, tally in found.items():
            tally.add(got[wanted[name]], true[name])
        n_windows += 1
    if n_windows == 0:
        raise ModelError("there are no windows to measure the noise on; give more speech")
    noise = {name: tally.difference() for name, tally in found.items()}

    def entries(layer: EmulatedLayer, names: Iterable[str]) -> list[LayerNoise]:
        known = {name: noise[name] for name in names if name in noise}
        return [LayerNoise(layer.name, name, x.snr_db, x.cosine) for name, x in known.items()]

    layers, outputs = [], []
    for layer in network.layers:
        layers += entries(layer, layer.gives)
        if layer.kind == "output_layer":
            outputs += entries(layer, [layer.slots[0].origin])
    return Noise(tuple(layers), tuple(outputs), n_windows)


class WindowFile:
    """A calibration set of one part, checked against its graph.

    Args:
        path: the `.npy` of an encoder or the `.npz` of a decoder, from `whisper-hailo calibrate`.
        spec: the model that it is for.
        form: the graph that it is for.
        entries: the graph's values that the rows become, in the order of the chip's inputs.
    """

    def __init__(
        self, path: Path, spec: ModelSpec, form: HailoForm, entries: tuple[str, ...]
    ) -> None:
        self._form = form
        job = replace(describe_job(spec, form, ARCHES[0]), calibration=str(path))
        with translate_build_errors():
            arrays, self.n_windows = load_calibration(job)
        self._arrays = dict(zip(entries, arrays, strict=True))

    def read(self, start: int, stop: int) -> Iterator[Feeds]:
        """Yield windows `start` to `stop` as the graph's values; one at a time is in memory."""
        for index in range(start, min(stop, self.n_windows)):
            rows = {name: array[index] for name, array in self._arrays.items()}
            yield {name: self._as_value(name, row) for name, row in rows.items()}

    def _as_value(self, name: str, row: FloatArray) -> FloatArray:
        """Return `(height, width, channels)` as NCHW, or as it is where the graph has 3 axes."""
        if len(self._form.inputs.get(name, ())) == 3:
            return np.array(row)
        return np.ascontiguousarray(row[np.newaxis].transpose(0, 3, 1, 2))


def generated_script(spec: ModelSpec, form: HailoForm, arch: str, network: EmulatedNetwork) -> str:
    """Write the script as `whisper-hailo compile` does.

    The graph's layers stand in the place of those that the compiler would have parsed.
    """
    job = describe_job(spec, form, arch)
    with translate_build_errors():
        return model_script(job, network.hef_network(), default_windows(form.part, job.size))


RECORD_VERSION: Final = 1
NOISE_COUNT: Final = 16
"""Windows that the noise is measured on, beside those of the statistics."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """An emulated graph.

    Attributes:
        record: file of everything that is known of it.
        n_windows: windows that the scales are chosen by.
        held_out: whether the noise is that of other windows.
    """

    path: Path
    record: Path
    plan: PrecisionPlan
    noise: Noise
    n_windows: int
    held_out: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "plan": self.plan.name,
            "calibration_windows": self.n_windows,
            "noise_windows": self.noise.n_windows,
            "held_out": self.held_out,
            "outputs": [entry.to_dict() for entry in self.noise.outputs],
            "layers": [entry.to_dict() for entry in self.noise.layers],
        }


def emulate_part(directory: Path, options: EmulateOptions) -> Emulation:
    """Write `hailo/<form>-emulated.onnx` and its `.json` into a model directory."""
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(options.part)
    model = load_form(model_file(directory, spec, form.file))
    path = resolve_within(directory, form.emulated_file)
    record = path.with_suffix(".json")
    require_writable_folder(path.parent, "give another place")
    network = read_network(model, form.start_nodes, form.end_nodes)
    if options.script is not None:
        name, script = options.script.stem, _read_script(options.script)
    elif options.plan == SCRIPT:
        name, script = SCRIPT, generated_script(spec, form, options.arch, network)
    else:
        name, script = options.plan, PRESETS[options.plan]
    plan = plan_of_script(name, script, network)
    threads = options.threads
    with TemporaryDirectory(prefix="whisper-hailo.") as scratch:
        folder = Path(scratch)
        calibration = _find_calibration(directory, options, folder)
        windows = WindowFile(calibration, spec, form, network.entries)
        n_stats, start = split(windows.n_windows, options.count)
        statistics = collect(model, network, windows.read(0, n_stats), threads=threads)
        result = emulated(model, network, plan, statistics)
        others = windows.read(start, start + NOISE_COUNT)
        noise = measure_noise(model, result, network, others, threads=threads)
    write_file(path, result.SerializeToString(deterministic=True))
    emulation = Emulation(path, record, plan, noise, n_stats, held_out=start >= n_stats)
    facts = {
        "version": RECORD_VERSION,
        "part": form.part,
        "arch": options.arch,
        "sha256": sha256(path),
        "graph": form.file,
        "graph_sha256": spec.record(form.file).sha256,
        "calibration": str(options.calibration or options.audio),
        **emulation.to_dict(),
        "precisions": {name: str(bits) for name, bits in plan.precisions.items()},
        "ignored": list(plan.ignored),
        "script": script,
    }
    write_file(record, json.dumps(facts, indent=2) + "\n")
    return emulation


def load_form(path: Path) -> ModelProto:
    """Read a graph with its weights."""
    data = path.with_name(path.name + DATA_SUFFIX)
    size = sum(file.stat().st_size for file in (path, data) if file.is_file())
    if size > PROTOBUF_LIMIT_BYTES:
        raise ModelError(
            f"{display_path(path)} has {size / 2**30:.1f} GiB with its weights, an emulation takes "
            "less than 2; emulate a smaller model"
        )
    try:
        return onnx.load(path)
    except Exception as error:  # protobuf and onnx have several unrelated classes
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{display_path(path)} cannot be read ({reason}); convert the checkpoint again with "
            "--hailo"
        ) from error


def split(n_windows: int, count: int) -> tuple[int, int]:
    """Return how many windows the statistics take, and where those that noise is measured on begin.

    Of few windows a fifth, one at least, is kept for the noise; a single one serves both.
    """
    if n_windows == 1:
        return 1, 0
    n_stats = min(count, n_windows - max(1, min(NOISE_COUNT, n_windows // 5)))
    return n_stats, n_stats


def _read_script(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{display_path(path)} is no readable model script ({error}); give a text file (.alls)"
        ) from error


def _find_calibration(directory: Path, options: EmulateOptions, folder: Path) -> Path:
    """Return the set that was given, or one drawn from recordings for this run only."""
    if options.calibration is not None:
        return options.calibration
    if options.audio is None:
        raise OptionError("give --audio DIR or --calibration FILE")
    wanted = CalibrationOptions(
        part=options.part, count=options.count + NOISE_COUNT, language=options.language
    )
    return calibrate(directory, options.audio, folder, wanted).path
