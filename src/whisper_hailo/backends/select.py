"""Selection of a backend for each half of the model, with the reasons for `auto`'s choice."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from whisper_hailo.backends.checks import check_positions
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.core.errors import (
    DeviceError,
    ModelError,
    OptionError,
    WrongAnswerError,
    display_path,
)
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, SPEC_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """What a backend is made from; `options` are all that the user gave."""

    directory: Path
    spec: ModelSpec
    options: EngineOptions
    threads: int


def _make_encoder(request: BackendRequest, backend: str, path: Path | None) -> Encoder:
    """Make an encoder of a file or directory, or of the model directory's own; `open` loads it."""
    # Backends are imported where they are made: each brings libraries of its own.
    spec = request.spec
    if backend == "hailo":
        from whisper_hailo.backends.hailo.hef_catalog import needed_hef
        from whisper_hailo.backends.hailo.hef_parts import HefEncoder
        from whisper_hailo.backends.hailo.known_answer import require_known_answer

        if path is None:
            path = needed_hef(request.directory, spec, "encoder")
        hef_encoder = HefEncoder(path, spec, request.options.hailo)
        # Who asks for a chip gets it, with its noise; `auto` has the better choice.
        hef_encoder.bias = require_known_answer(
            hef_encoder,
            request.directory,
            spec,
            request.threads,
            noise=not is_automatic(request.options),
        )
        return hef_encoder
    if backend == "onnx" and (path is None or is_model_directory(path)):
        from whisper_hailo.backends.onnx import OnnxEncoder

        directory, spec = _model_directory(request, path)
        return OnnxEncoder(directory, spec, request.threads)
    from whisper_hailo.backends.onnx_file import ForeignEncoder, encoder_file

    if path is not None and backend == "onnx":
        return ForeignEncoder(encoder_file(path), spec, request.threads)
    from whisper_hailo.backends.fixed import find_emulated
    from whisper_hailo.backends.hailo.silence_match import emulated_bias

    path, name = find_emulated(request.directory, spec, path, "encoder")
    emulated = ForeignEncoder(path, spec, request.threads, name)
    emulated.bias = emulated_bias(
        path, emulated, request.directory, spec, request.threads
    )
    return emulated


def _make_decoder(
    request: BackendRequest, backend: str, path: Path | None
) -> AnyDecoder:
    """Make a decoder of a file or directory, or of the model directory's own; `open` loads it."""
    spec = request.spec
    if backend == "cached":
        from whisper_hailo.backends.onnx import CachedDecoder

        if path is not None and not is_model_directory(path):
            raise OptionError(
                f"--decoder-backend cached needs a directory made with whisper-hailo convert; "
                f"{display_path(path)} is not one"
            )
        directory, spec = _model_directory(request, path)
        return CachedDecoder(directory, spec, request.threads)
    if backend == "optimum":
        from whisper_hailo.backends.optimum import OptimumDecoder

        if path is None:
            raise OptionError(
                "--decoder-backend optimum needs --decoder DIR, an Optimum export directory"
            )
        return OptimumDecoder(path, spec, request.threads)
    from whisper_hailo.backends.fixed import (
        FixedDecoder,
        OnnxFixedRunner,
        find_emulated,
    )

    if backend == "hailo":
        from whisper_hailo.backends.hailo.decoder_positions import choose_positions
        from whisper_hailo.backends.hailo.hef_catalog import needed_hef
        from whisper_hailo.backends.hailo.hef_parts import HefRunner

        if path is None:
            path = needed_hef(request.directory, spec, "decoder")
        assets = request.options.decoder_assets or request.directory
        runner = HefRunner(path, spec, assets, request.options.hailo)
        choose_positions(runner, request.directory, spec, request.threads)
        return FixedDecoder(runner, spec)
    name = ""
    if backend == "emulator":
        path, name = find_emulated(request.directory, spec, path, "decoder")
    elif path is None:
        path = hailo_form(request.directory, spec, "decoder")
    return FixedDecoder(OnnxFixedRunner(path, spec, request.threads, name), spec)


@dataclass(frozen=True, slots=True)
class SelectedEngine:
    """Both halves, not yet opened, and a line for each that says why it was selected."""

    encoder: Encoder
    decoder: AnyDecoder
    reasons: tuple[str, ...]


def select(
    directory: Path,
    spec: ModelSpec,
    options: EngineOptions,
    threads: int = 0,
    window_s: float | None = None,
) -> SelectedEngine:
    """Put encoder and decoder together; nothing stays loaded.

    A HEF is tried on a bundled recording when it is first used. With `auto`, one that answers
    wrongly is replaced by the CPU, with a warning.

    `threads` are those of one operator; 0 lets the runtime choose. `window_s` is the window that
    the user gave, to which `auto` fits the encoder; `None` is any.

    Raises:
        OptionError: the options do not fit each other.
        ModelError: a file is missing, or of another model.
        DeviceError: the chip cannot be used, or answers wrongly.
    """
    request = BackendRequest(directory, spec, options, threads)
    # The decoder first: the encoder must not give more positions than it takes.
    backend, path, decoder_reason = _choose_decoder(request)
    decoder = _make_decoder(request, backend, path)
    n_positions = decoder.limits.n_positions
    backend, path, encoder_reason = _choose_encoder(request, window_s, n_positions)
    try:
        encoder = _make_encoder(request, backend, path)
    except WrongAnswerError as error:
        if not is_automatic(options):
            raise
        problem, _, _ = str(error).rpartition("; ")
        logger.warning("%s; the encoder runs on the CPU instead", problem)
        encoder_reason = "on the CPU, since the chip gives wrong results"
        encoder = _make_encoder(request, "onnx", None)
    reasons = (
        f"encoder {encoder.name}: {encoder_reason}",
        f"decoder {decoder.name}: {decoder_reason}",
    )
    return SelectedEngine(encoder, decoder, reasons)


def engine_window_s(
    engine: SelectedEngine, spec: ModelSpec, window_s: float | None
) -> float | None:
    """Return the window that both halves take, in seconds; `None` is any.

    `window_s` is the window that the user gave.

    Raises:
        OptionError: the encoder takes another window.
        ShapeError: the decoder takes fewer positions.
    """
    n_frames = engine.encoder.n_frames
    if n_frames is not None:
        fixed_s = n_frames / FRAMES_PER_SECOND
        if window_s is not None and abs(window_s - fixed_s) > 1e-6:
            raise OptionError(
                f"--window is {window_s:g} s, encoder {engine.encoder.name} takes {fixed_s:g} s; "
                "leave --window out, or give another --encoder"
            )
        window_s = fixed_s
    n_positions = engine.decoder.limits.n_positions
    if n_positions is None:
        return window_s
    positions_per_second = FRAMES_PER_SECOND / FRAMES_PER_POSITION
    if window_s is None:
        return n_positions / positions_per_second
    check_positions(n_positions, round(window_s * positions_per_second))
    return window_s


def find_npu() -> tuple[str | None, str]:
    """Return the chip that HEFs can run on, such as `hailo8l`, or `None`; and a description."""
    from whisper_hailo.backends.hailo.binding import why_no_binding

    reason = why_no_binding()
    if reason is not None:  # first, since all else takes a tenth of a second to import
        return None, reason
    from whisper_hailo.backends.hailo.hef_contract import RUNS_ON
    from whisper_hailo.backends.hailo.isolated_probe import chips

    try:
        devices = chips()
    except DeviceError as error:
        problem, _, _ = str(error).partition(";")
        return None, problem
    if not devices:
        return None, "no Hailo chip"
    chip = devices[0]
    if chip.arch not in RUNS_ON:
        return None, f"the Hailo chip {chip.device} does not report its type"
    return chip.arch, f"{chip.arch} {chip.device}"


def is_automatic(options: EngineOptions) -> bool:
    """Return whether the user left the choice of the encoder to the program."""
    return options.encoder is None and options.encoder_backend == AUTO


def _choose_encoder(
    request: BackendRequest, window_s: float | None, n_positions: int | None
) -> tuple[str, Path | None, str]:
    """Return the name of a backend, the path that it runs, and why it was selected."""
    options = request.options
    runs_graphs = options.encoder_backend in {AUTO, "onnx"}
    path = _graph_path(request, options.encoder, ENCODER_FILE, runs_graphs=runs_graphs)
    if options.encoder_backend != AUTO:
        return options.encoder_backend, path, "as asked for"
    if options.encoder is not None:
        backend = "hailo" if options.encoder.suffix == ".hef" else "onnx"
        return backend, path, f"{options.encoder} is given"
    arch, chip = find_npu()
    if arch is None:
        return "onnx", path, f"on the CPU, {chip}"
    from whisper_hailo.backends.hailo.hef_catalog import fitting_encoder

    hef, reason = fitting_encoder(
        request.directory, request.spec, arch, window_s, n_positions
    )
    if hef is None:
        return "onnx", path, f"on the CPU, {chip}, but {reason}"
    if window_s is None:
        from whisper_hailo.backends.hailo.short_windows import why_cpu_is_better

        reason = why_cpu_is_better(
            hef, request.directory, request.spec, request.threads
        )
        if reason:
            logger.info("%s", reason)
            return "onnx", path, f"on the CPU, {reason}"
    return "hailo", hef, f"on {chip}"


def _choose_decoder(request: BackendRequest) -> tuple[str, Path | None, str]:
    backend = request.options.decoder_backend
    runs_graphs = backend in {AUTO, "cached", "optimum"}
    path = _graph_path(
        request, request.options.decoder, DECODER_FILE, runs_graphs=runs_graphs
    )
    if backend != AUTO:
        return backend, path, "as asked for"
    if path is None:
        return (
            "cached",
            None,
            "with a cache on the CPU, faster than a chip without one",
        )
    return decoder_backend(path), path, f"{path} is given"


def _graph_path(
    request: BackendRequest, path: Path | None, file: str, *, runs_graphs: bool
) -> Path | None:
    """Return the path to run; `None` is the model directory's own graphs.

    A graph `file` of a model directory stands for the directory. `runs_graphs`: the backend also
    takes the directory of another program's export, which is described like a model.
    """
    if path is None:
        is_export = ENCODER_FILE not in request.spec.files
        return request.directory if runs_graphs and is_export else None
    if path.name == file and is_model_directory(path.parent):
        return path.parent
    return path


def decoder_backend(path: Path) -> str:
    """Return the name of the backend that runs a decoder path."""
    if path.suffix == ".hef":
        return "hailo"
    if path.is_dir():
        return "cached" if is_model_directory(path) else "optimum"
    from whisper_hailo.backends.fixed import fixed_inputs
    from whisper_hailo.backends.onnx_file import read_signature

    return "fixed" if fixed_inputs(read_signature(path)) else "optimum"


def is_model_directory(path: Path) -> bool:
    """Return whether `whisper-hailo convert` wrote a directory."""
    return (path / SPEC_FILE).is_file()


def _model_directory(
    request: BackendRequest, path: Path | None
) -> tuple[Path, ModelSpec]:
    """Return a model directory given as encoder or decoder, if it is of the run's model.

    Without one it is the run's own.
    """
    spec = request.spec
    if path is None:
        return request.directory, spec
    path_spec = ModelSpec.load(path)
    run_sizes = asdict(spec.dims)
    differences = [
        f"{name} {size} and {run_sizes[name]}"
        for name, size in asdict(path_spec.dims).items()
        if size != run_sizes[name]
    ]
    if differences or path_spec.tokens != spec.tokens:
        names = ", ".join(differences) or "their control tokens"
        raise ModelError(
            f"{display_path(path)} and model {spec.name} differ: {names}; they must be from the "
            "same model"
        )
    return path, path_spec


def hailo_form(directory: Path, spec: ModelSpec, part: str) -> Path:
    """Return the graph of fixed sizes that `convert --hailo` put into a model directory."""
    return model_file(directory, spec, spec.hailo_form(part).file)
