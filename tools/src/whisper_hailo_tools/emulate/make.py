"""Emulation of a model directory's graph with real speech, and the cost of its rounding."""

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
from whisper_hailo_tools.difference import Difference, DifferenceTally
from whisper_hailo_tools.emulate.biases import (
    CORRECTION_COUNT,
    correct_biases,
    corrects_biases,
)
from whisper_hailo_tools.emulate.network import (
    EmulatedLayer,
    EmulatedNetwork,
    read_network,
)
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
from whisper_hailo_tools.options import (
    MIN_CHIP_SNR_DB,
    SCRIPT,
    CalibrationOptions,
    CompileOptions,
    EmulateOptions,
)


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise of one layer's output, which includes that of all layers before it."""

    layer: str
    tensor: str
    snr_db: float
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, which has no infinity: `None` where nothing was rounded."""
        snr_db = self.snr_db if math.isfinite(self.snr_db) else None
        return asdict(self) | {"snr_db": snr_db}


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

    `exact` is the Hailo form, `rounded` the graph that `emulated` made of it, `windows` are the
    chip's inputs: others than those of the statistics. Nothing behind the last of `tensors` is
    computed; `None` takes all.
    """
    inputs = {value.name for value in rounded.graph.input}
    compared = tuple(
        name for name in network.tensors if tensors is None or name in tensors
    )
    # In the rounded graph a graph input is exact under its name, any other tensor is rounded.
    fed_names = {
        name: name if name in inputs else name + EXACT for name in network.entries
    }
    rounded_names = {
        name: name + ROUNDED if name in inputs else name for name in compared
    }
    run_exact = open_probe(exact, network.entries, compared, threads)
    run_rounded = open_probe(
        rounded, list(fed_names.values()), list(rounded_names.values()), threads
    )
    tallies = {name: DifferenceTally() for name in compared}
    n_windows = 0
    for feeds in windows:
        exact_values = run_exact(feeds)
        rounded_values = run_rounded(
            {fed_names[name]: array for name, array in feeds.items()}
        )
        for name, tally in tallies.items():
            tally.add(rounded_values[rounded_names[name]], exact_values[name])
        n_windows += 1
    if n_windows == 0:
        raise ModelError(
            "no windows are left to measure the noise on; give more speech"
        )
    differences = {name: tally.difference() for name, tally in tallies.items()}
    layers: list[LayerNoise] = []
    outputs: list[LayerNoise] = []
    for layer in network.layers:
        layers += _noise_of(layer, layer.gives, differences)
        if layer.kind == "output_layer":
            outputs += _noise_of(layer, [layer.slots[0].origin], differences)
    return Noise(tuple(layers), tuple(outputs), n_windows)


def _noise_of(
    layer: EmulatedLayer, tensors: Iterable[str], differences: dict[str, Difference]
) -> list[LayerNoise]:
    """Return the noise of a layer at those of some tensors that were compared."""
    noise = []
    for name in dict.fromkeys(tensors):
        if name in differences:
            difference = differences[name]
            noise.append(
                LayerNoise(layer.name, name, difference.snr_db, difference.cosine)
            )
    return noise


class WindowFile:
    """A calibration set of one part, checked against its graph.

    Args:
        path: the `.npy` of an encoder or the `.npz` of a decoder, from `whisper-hailo calibrate`.
        spec: the model that it is for.
        form: the graph that it is for.
        entries: the graph's values that the rows are fed to, in the order of the chip's inputs.
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
            yield {
                name: self._graph_value(name, array[index])
                for name, array in self._arrays.items()
            }

    def _graph_value(self, name: str, row: FloatArray) -> FloatArray:
        """Return `(height, width, channels)` as NCHW, or as it is where the graph has 3 axes."""
        if len(self._form.inputs.get(name, ())) == 3:
            return np.array(row)
        return np.ascontiguousarray(row[np.newaxis].transpose(0, 3, 1, 2))


def generated_script(
    spec: ModelSpec,
    form: HailoForm,
    arch: str,
    network: EmulatedNetwork,
) -> str:
    """Return the script that `whisper-hailo compile` would write.

    The graph's layers take the place of those that the compiler would have parsed.
    """
    job = describe_job(spec, form, arch)
    with translate_build_errors():
        return model_script(
            job, network.hef_network(), default_windows(form.part, job.size)
        )


RECORD_VERSION: Final = 1
NOISE_COUNT: Final = 16
"""Windows on which the noise is measured, in addition to those of the statistics."""

_PREDICTION_WINDOWS: Final = 64
"""Windows of the statistics before a build: a minute or two, beside hours of compiling."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """An emulated graph.

    Attributes:
        record: file of all facts about it.
        n_windows: windows by which the scales were chosen.
        held_out: the noise was measured on other windows.
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


@dataclass(frozen=True, slots=True)
class _Rounded:
    """A graph that computes as the chip does, and what that costs."""

    graph: ModelProto
    script: str
    plan: PrecisionPlan
    noise: Noise
    n_windows: int
    held_out: bool


def emulate_part(directory: Path, options: EmulateOptions) -> Emulation:
    """Write `hailo/<form>-emulated.onnx` and its `.json` into a model directory."""
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(options.part)
    path = resolve_within(directory, form.emulated_file)
    record = path.with_suffix(".json")
    require_writable_folder(path.parent, "give another place")
    rounded = _round_part(directory, spec, form, options)
    write_file(path, rounded.graph.SerializeToString(deterministic=True))
    emulation = Emulation(
        path,
        record,
        rounded.plan,
        rounded.noise,
        rounded.n_windows,
        rounded.held_out,
    )
    plan = rounded.plan
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
        "bias_correction": corrects_biases(rounded.script),
        "ignored": list(plan.ignored),
        "script": rounded.script,
    }
    write_file(record, json.dumps(facts, indent=2) + "\n")
    return emulation


def require_words(directory: Path, options: CompileOptions) -> None:
    """Refuse to compile an encoder that its rounding is predicted to rob of its words.

    Decoders are not predicted: no rounding of theirs is known to lose words.

    Raises:
        ModelError: the predicted signal-to-noise ratio is too low.
    """
    if options.part != "encoder":
        return
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(options.part)
    emulation = EmulateOptions(
        part=options.part,
        script=options.script,
        arch=options.arch,
        calibration=options.calibration,
        count=_PREDICTION_WINDOWS,
    )
    rounded = _round_part(directory, spec, form, emulation)
    snr_db = min(output.snr_db for output in rounded.noise.outputs)
    if snr_db < MIN_CHIP_SNR_DB:
        raise ModelError(
            f"the chip's rounding leaves {snr_db:.1f} dB for this encoder, and below "
            f"{MIN_CHIP_SNR_DB:g} dB it loses words; find the noisiest layers with whisper-hailo "
            "emulate, give another --script, or compile it anyway with --force"
        )


def _round_part(
    directory: Path, spec: ModelSpec, form: HailoForm, options: EmulateOptions
) -> _Rounded:
    """Round a graph by scales of real speech, and measure the noise."""
    model = load_form(model_file(directory, spec, form.file))
    network = read_network(model, form.start_nodes, form.end_nodes)
    name = options.plan
    if options.script is not None:
        name = options.script.stem
        script = _read_script(options.script)
    elif options.plan == SCRIPT:
        script = generated_script(spec, form, options.arch, network)
    else:
        script = PRESETS[options.plan]
    plan = plan_of_script(name, script, network)
    threads = options.threads
    with TemporaryDirectory(prefix="whisper-hailo.") as scratch:
        folder = Path(scratch)
        calibration = _find_calibration(directory, options, folder)
        windows = WindowFile(calibration, spec, form, network.entries)
        n_stats, start = split(windows.n_windows, options.count)
        statistics = collect(model, network, windows.read(0, n_stats), threads=threads)
        graph = emulated(model, network, plan, statistics)
        if corrects_biases(script):
            n_windows = min(n_stats, CORRECTION_COUNT)
            graph = correct_biases(
                model,
                graph,
                network,
                list(windows.read(0, n_windows)),
                threads=threads,
            )
        noise_windows = windows.read(start, start + NOISE_COUNT)
        noise = measure_noise(model, graph, network, noise_windows, threads=threads)
    held_out = start >= n_stats
    return _Rounded(graph, script, plan, noise, n_stats, held_out)


def load_form(path: Path) -> ModelProto:
    """Read a graph with its weights."""
    data = path.with_name(path.name + DATA_SUFFIX)
    size = sum(file.stat().st_size for file in (path, data) if file.is_file())
    if size > PROTOBUF_LIMIT_BYTES:
        raise ModelError(
            f"{display_path(path)} has {size / 2**30:.1f} GiB with its weights, but an emulation "
            "takes less than 2; emulate a smaller model"
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
    """Return the number of windows for the statistics, and the index of the first for the noise.

    Of few windows a fifth, one at least, is kept for the noise; a single one serves both.
    """
    if n_windows == 1:
        return 1, 0
    n_noise = max(1, min(NOISE_COUNT, n_windows // 5))
    n_stats = min(count, n_windows - n_noise)
    return n_stats, n_stats


def _read_script(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{display_path(path)} is not a readable model script ({error}); give a text file "
            "(.alls)"
        ) from error


def _find_calibration(directory: Path, options: EmulateOptions, folder: Path) -> Path:
    """Return the given set, or one drawn from recordings into `folder`, for this run only."""
    if options.calibration is not None:
        return options.calibration
    if options.audio is None:
        raise OptionError("give --audio DIR or --calibration FILE")
    calibration = CalibrationOptions(
        part=options.part, count=options.count + NOISE_COUNT, language=options.language
    )
    return calibrate(directory, options.audio, folder, calibration).path
