"""From a model directory and real speech to an emulated graph and what its rounding costs."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import onnx
from onnx import ModelProto

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.convert.graphs.onnx_file import DATA_SUFFIX, PROTOBUF_LIMIT_BYTES
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.files import (
    read_text,
    require_writable_file,
    resolve_within,
    sha256,
    write_file,
)
from whisper_hailo.core.scratch import temporary_directory
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo_tools.calibrate.make import calibrate
from whisper_hailo_tools.compile import as_program_error
from whisper_hailo_tools.difference import DifferenceTally
from whisper_hailo_tools.emulate.network import EmulatedNetwork, read_network
from whisper_hailo_tools.emulate.rewrite import (
    EXACT,
    ROUNDED,
    PrecisionPlan,
    emulated,
    plan_of_script,
    preset,
)
from whisper_hailo_tools.emulate.statistics import Feeds, Probe, collect
from whisper_hailo_tools.hef_build.job import BuildError, BuildJob
from whisper_hailo_tools.hef_build.model_script import model_script
from whisper_hailo_tools.hef_build.model_script import read_network as read_description
from whisper_hailo_tools.hef_build.recipe import default_windows, size_of
from whisper_hailo_tools.options import SCRIPT, CalibrationOptions, EmulateOptions


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise of what one layer gives, that of all layers before it included."""

    layer: str
    tensor: str
    snr_db: float
    cosine: float


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
    with (
        Probe(exact, network.entries, compared, threads) as truth,
        Probe(rounded, tuple(fed.values()), tuple(wanted.values()), threads) as emulation,
    ):
        for feeds in windows:
            true = truth.run(feeds)
            got = emulation.run({fed[name]: array for name, array in feeds.items()})
            for name, difference in found.items():
                difference.add(got[wanted[name]], true[name])
            n_windows += 1
    if n_windows == 0:
        raise ModelError("there are no windows to measure the noise on; give more speech")
    return _noise(network, found, n_windows)


def _noise(network: EmulatedNetwork, found: dict[str, DifferenceTally], n_windows: int) -> Noise:
    layers, outputs = [], []
    for layer in network.layers:
        compared = (tensor for tensor in layer.gives if tensor in found)
        layers += [_entry(layer.name, tensor, found[tensor]) for tensor in compared]
        if layer.kind == "output_layer":
            origin = layer.slots[0].origin
            if origin in found:
                outputs.append(_entry(layer.name, origin, found[origin]))
    return Noise(tuple(layers), tuple(outputs), n_windows)


def _entry(layer: str, tensor: str, tally: DifferenceTally) -> LayerNoise:
    found = tally.difference()
    return LayerNoise(layer, tensor, found.snr_db, found.cosine)


class WindowFile:
    """A calibration set of one part, checked against its graph.

    Args:
        path: the `.npy` of an encoder or the `.npz` of a decoder, from `whisper-hailo calibrate`.
        form: the graph that it is for.
        entries: the graph's values that the rows become, in the order of the chip's inputs.
    """

    def __init__(self, path: Path, form: HailoForm, entries: tuple[str, ...]) -> None:
        self._path = path
        self._form = form
        self._entries = entries
        self._shapes = [tuple(shape[1:]) for shape in form.chip_inputs]
        with ExitStack() as stack:
            counts = {header[0] for _, header in self._streams(stack)}
        if len(counts) != 1 or 0 in counts:
            raise ModelError(
                f"{display_path(path)} holds no windows, or not one of each input; {self._advice()}"
            )
        self.n_windows = counts.pop()

    def read(self, start: int, stop: int) -> Iterator[Feeds]:
        """Yield windows `start` to `stop` as the graph's values; one at a time is in memory."""
        with ExitStack() as stack:
            streams = self._streams(stack)
            for index in range(min(stop, self.n_windows)):
                rows = [
                    self._row(stream, shape)
                    for (stream, _), shape in zip(streams, self._shapes, strict=True)
                ]
                if index >= start:
                    yield {
                        name: self._as_value(name, row)
                        for name, row in zip(self._entries, rows, strict=True)
                    }

    def _row(self, stream: IO[bytes], shape: tuple[int, ...]) -> FloatArray:
        size = 4 * int(np.prod(shape))
        data = stream.read(size)
        if len(data) != size:
            raise ModelError(f"{display_path(self._path)} ends early; {self._advice()}")
        row: FloatArray = np.frombuffer(data, "<f4").reshape(shape)
        return row

    def _as_value(self, name: str, row: FloatArray) -> FloatArray:
        """`(height, width, channels)` as the graph has it: NCHW, or without the height of one."""
        wanted = self._form.inputs.get(name)
        if wanted is not None and len(wanted) == 3:
            return row
        return np.ascontiguousarray(row[np.newaxis].transpose(0, 3, 1, 2))

    def _streams(self, stack: ExitStack) -> list[tuple[IO[bytes], tuple[int, ...]]]:
        """Return each input's rows, and the shape that their header gives."""
        try:
            if len(self._shapes) == 1:
                opened: list[IO[bytes]] = [stack.enter_context(self._path.open("rb"))]
            else:
                archive = stack.enter_context(zipfile.ZipFile(self._path))
                names = sorted(name for name in archive.namelist() if "input_layer" in name)
                opened = [stack.enter_context(archive.open(name)) for name in names]
            headers = [_header(stream) for stream in opened]
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise ModelError(
                f"{display_path(self._path)} is no calibration set ({error}); {self._advice()}"
            ) from error
        expected = [("<f4", shape) for shape in self._shapes]
        if [(dtype, shape[1:]) for dtype, shape in headers] != expected:
            raise ModelError(
                f"{display_path(self._path)} holds {', '.join(f'{t} {s}' for t, s in headers)}, "
                "expected float32 (n, "
                f"{'), (n, '.join(str(shape)[1:-1] for shape in self._shapes)}); {self._advice()}"
            )
        return [(stream, shape) for stream, (_, shape) in zip(opened, headers, strict=True)]

    def _advice(self) -> str:
        return (
            f"make it with: whisper-hailo calibrate MODEL_DIR --audio DIR --part {self._form.part}"
        )


def _header(stream: IO[bytes]) -> tuple[str, tuple[int, ...]]:
    """Type and shape of a `.npy`; the stream stands at its first row afterwards."""
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    if fortran or not shape:
        raise ValueError("not stored row by row")
    return dtype.str, shape


def generated_script(spec: ModelSpec, form: HailoForm, arch: str, network: EmulatedNetwork) -> str:
    """Write the script as `whisper-hailo compile` does.

    The graph's layers stand in the place of those that the compiler would have parsed.
    """
    dims = spec.dims
    size = size_of(dims.d_model, multilingual=spec.multilingual)
    is_encoder = form.part == "encoder"
    job = BuildJob(
        arch=arch,
        part=form.part,
        size=size,
        net_name="net",
        graph=form.file,
        start_nodes=list(form.start_nodes),
        end_nodes=list(form.end_nodes),
        chip_inputs=[list(shape) for shape in form.chip_inputs],
        d_model=dims.d_model,
        n_layers=dims.n_encoder_layers if is_encoder else dims.n_decoder_layers,
        calibration="",
        script=None,
        optimization_level=None,
        out="",
        stem="net",
    )
    try:
        description = read_description(network.description(job.net_name))
        return model_script(job, description, default_windows(form.part, size))
    except BuildError as error:
        raise as_program_error(error) from error


RECORD_VERSION: Final = 1
NOISE_COUNT: Final = 16
"""Windows that the noise is measured on, beside those of the statistics."""


@dataclass(frozen=True, slots=True)
class Emulation:
    """An emulated graph."""

    path: Path
    record: Path
    plan: PrecisionPlan
    noise: Noise
    n_windows: int
    held_out: bool


def emulate_part(directory: Path, options: EmulateOptions) -> Emulation:
    """Write `hailo/<form>-emulated.onnx` and its `.json` into a model directory."""
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(options.part)
    model = load_form(model_file(directory, spec, form.file))
    path = resolve_within(directory, form.emulated_file)
    for file in (path, path.with_suffix(".json")):
        require_writable_file(file)
    network = read_network(model, form.start_nodes, form.end_nodes)
    text = _script(spec, form, options, network)
    name = options.plan if options.script is None else options.script.stem
    plan = plan_of_script(name, text, network, form.start_nodes, form.end_nodes)
    with temporary_directory() as folder:
        windows = WindowFile(_calibration(directory, options, folder), form, network.entries)
        n_stats, start = split(windows.n_windows, options.count)
        statistics = collect(model, network, windows.read(0, n_stats), threads=options.threads)
        result = emulated(model, plan, statistics, scales=options.scales)
        noise = measure_noise(
            model,
            result,
            network,
            windows.read(start, start + NOISE_COUNT),
            threads=options.threads,
        )
    emulation = Emulation(
        path=path,
        record=path.with_suffix(".json"),
        plan=plan,
        noise=noise,
        n_windows=n_stats,
        held_out=start >= n_stats,
    )
    write_file(emulation.path, result.SerializeToString(deterministic=True))
    facts = _record(emulation, spec, form, options) | {"script": text}
    write_file(emulation.record, json.dumps(facts, indent=2) + "\n")
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


def _script(
    spec: ModelSpec, form: HailoForm, options: EmulateOptions, network: EmulatedNetwork
) -> str:
    if options.script is not None:
        try:
            return read_text(options.script)
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{display_path(options.script)} is no readable model script ({error}); give a "
                "text file (.alls)"
            ) from error
    if options.plan == SCRIPT:
        return generated_script(spec, form, options.arch, network)
    return preset(options.plan)


def _calibration(directory: Path, options: EmulateOptions, folder: Path) -> Path:
    """Return the set that was given, or one drawn from recordings for this run only."""
    if options.calibration is not None:
        return options.calibration
    if options.audio is None:
        raise OptionError("give --audio DIR or --calibration FILE")
    wanted = CalibrationOptions(
        part=options.part, count=options.count + NOISE_COUNT, language=options.language
    )
    return calibrate(directory, options.audio, folder, wanted).path


def _record(
    emulation: Emulation, spec: ModelSpec, form: HailoForm, options: EmulateOptions
) -> dict[str, Any]:
    source = options.calibration or options.audio
    return {
        "version": RECORD_VERSION,
        "part": form.part,
        "plan": emulation.plan.name,
        "scales": options.scales,
        "arch": options.arch,
        "sha256": sha256(emulation.path),
        "graph": form.file,
        "graph_sha256": spec.record(form.file).sha256,
        "calibration": str(source),
        "calibration_windows": emulation.n_windows,
        "noise_windows": emulation.noise.n_windows,
        "held_out": emulation.held_out,
        "outputs": [noise_entry(entry) for entry in emulation.noise.outputs],
        "layers": [noise_entry(entry) for entry in emulation.noise.layers],
        "precisions": {name: str(bits) for name, bits in emulation.plan.precisions.items()},
        "ignored": list(emulation.plan.ignored),
    }


def noise_entry(entry: LayerNoise) -> dict[str, Any]:
    """For JSON, which has no infinity: `None` where rounding changed nothing."""
    snr_db = entry.snr_db if math.isfinite(entry.snr_db) else None
    return asdict(entry) | {"snr_db": snr_db}
