"""From a model directory and real speech to an emulated graph and what its rounding costs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import ModelProto

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.convert.graphs.onnx_file import DATA_SUFFIX, PROTOBUF_LIMIT_BYTES
from whisper_hailo.core.errors import ModelError, OptionError
from whisper_hailo.core.files import expect_file, inside, read_text, sha256, write_file
from whisper_hailo.core.hailo import HailoForm
from whisper_hailo.core.names import shown
from whisper_hailo.core.scratch import temporary_directory
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.hailo_tools.calibrate.make import calibrate
from whisper_hailo.hailo_tools.calibrate.options import CalibrationOptions
from whisper_hailo.hailo_tools.compile import as_program_error
from whisper_hailo.hailo_tools.emulate.layers import EmulatedNetwork
from whisper_hailo.hailo_tools.emulate.network import read_network
from whisper_hailo.hailo_tools.emulate.noise import LayerNoise, Noise, measure_noise
from whisper_hailo.hailo_tools.emulate.options import EmulateOptions
from whisper_hailo.hailo_tools.emulate.plan import SCRIPT, PrecisionPlan, plan_of_script, preset
from whisper_hailo.hailo_tools.emulate.rewrite import emulated
from whisper_hailo.hailo_tools.emulate.run import collect
from whisper_hailo.hailo_tools.emulate.windows import WindowFile
from whisper_hailo.hailo_tools.hef_build.fault import BuildError
from whisper_hailo.hailo_tools.hef_build.job import BuildJob
from whisper_hailo.hailo_tools.hef_build.network import read_network as read_description
from whisper_hailo.hailo_tools.hef_build.recipe import default_windows, size_of
from whisper_hailo.hailo_tools.hef_build.script import model_script


def generated_script(spec: ModelSpec, form: HailoForm, arch: str, network: EmulatedNetwork) -> str:
    """Write the script as `whisper-hailo compile` does.

    Args:
        spec: the model.
        form: the graph.
        arch: `hailo8`, `hailo8l` or `hailo10h`.
        network: the graph's layers, in the place of those that the compiler would have parsed.

    Raises:
        ModelError: the network is not what the recipe is for.
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
    """An emulated graph.

    Attributes:
        path: the graph.
        record: path of the JSON beside it.
        plan: bits of its layers.
        noise: what rounding costs.
        n_windows: windows that the scales are from.
        held_out: whether the noise was measured on other windows than those.
    """

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
    path = inside(directory, form.emulated_file)
    for file in (path, path.with_suffix(".json")):
        expect_file(file)
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
    """Read a graph with its weights.

    Raises:
        ModelError: missing, broken, or over 2 GiB.
    """
    data = path.with_name(path.name + DATA_SUFFIX)
    size = sum(file.stat().st_size for file in (path, data) if file.is_file())
    if size > PROTOBUF_LIMIT_BYTES:
        raise ModelError(
            f"{shown(path)} has {size / 2**30:.1f} GiB with its weights, an emulation takes less "
            "than 2; emulate a smaller model"
        )
    try:
        return onnx.load(path)
    except Exception as error:  # protobuf and onnx have several unrelated classes
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{shown(path)} cannot be read ({reason}); convert the checkpoint again with --hailo"
        ) from error


def split(n_windows: int, count: int) -> tuple[int, int]:
    """How many windows the statistics take, and where those that noise is measured on begin.

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
                f"{shown(options.script)} is no readable model script ({error}); give a text file "
                "(.alls)"
            ) from error
    if options.plan == SCRIPT:
        return generated_script(spec, form, options.arch, network)
    return preset(options.plan)


def _calibration(directory: Path, options: EmulateOptions, folder: Path) -> Path:
    """The set that was given, or one drawn from recordings for this run only."""
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
