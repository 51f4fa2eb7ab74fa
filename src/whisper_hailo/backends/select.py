"""Which engine runs which half, and the reasons for what `auto` takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from whisper_hailo.backends.checks import check_positions
from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.core.errors import DeviceError, ModelError, OptionError, display_path
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, SPEC_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """What a backend is made of; `options` are all that the user asked for."""

    directory: Path
    spec: ModelSpec
    options: EngineOptions
    threads: int


def _make_encoder(request: BackendRequest, backend: str, path: Path | None) -> Encoder:
    """Make an encoder of a file or directory, or of the model directory's own; `open` loads it."""
    directory, spec, threads = request.directory, request.spec, request.threads
    if backend == "hailo":
        from whisper_hailo.backends.hailo.hef_catalog import needed_hef
        from whisper_hailo.backends.hailo.hef_parts import HefEncoder

        path = path or needed_hef(directory, spec, "encoder")
        return HefEncoder(path, spec, request.options.hailo)
    if backend == "onnx" and (path is None or is_model_directory(path)):
        from whisper_hailo.backends.onnx import OnnxEncoder

        return OnnxEncoder(*_model_directory(request, path), threads)
    from whisper_hailo.backends.onnx_file import ForeignEncoder, encoder_file

    if path is not None and backend == "onnx":
        return ForeignEncoder(encoder_file(path), spec, threads)
    from whisper_hailo.backends.fixed import find_emulated

    path, name = find_emulated(directory, spec, path, "encoder")
    return ForeignEncoder(path, spec, threads, name)


def _make_decoder(request: BackendRequest, backend: str, path: Path | None) -> AnyDecoder:
    """Make a decoder of a file or directory, or of the model directory's own; `open` loads it."""
    directory, spec, threads = request.directory, request.spec, request.threads
    if backend == "cached":
        from whisper_hailo.backends.onnx import CachedDecoder

        if path is not None and not is_model_directory(path):
            raise OptionError(
                f"--decoder-backend cached needs a directory made with whisper-hailo convert, "
                f"{display_path(path)} is none"
            )
        return CachedDecoder(*_model_directory(request, path), threads)
    if backend == "optimum":
        from whisper_hailo.backends.optimum import OptimumDecoder

        if path is None:
            raise OptionError(
                "--decoder-backend optimum needs --decoder DIR, a directory of its export"
            )
        return OptimumDecoder(path, spec, threads)
    from whisper_hailo.backends.fixed import FixedDecoder, OnnxFixedRunner, find_emulated

    if backend == "hailo":
        from whisper_hailo.backends.hailo.hef_catalog import needed_hef
        from whisper_hailo.backends.hailo.hef_parts import HefRunner

        path = path or needed_hef(directory, spec, "decoder")
        assets = request.options.decoder_assets or directory
        return FixedDecoder(HefRunner(path, spec, assets, request.options.hailo), spec)
    name = ""
    if backend == "emulator":
        path, name = find_emulated(directory, spec, path, "decoder")
    path = path or hailo_form(directory, spec, "decoder")
    return FixedDecoder(OnnxFixedRunner(path, spec, threads, name), spec)


@dataclass(frozen=True, slots=True)
class SelectedEngine:
    """Both halves, not yet opened, and a line for each that says why it was taken."""

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
    """Put encoder and decoder together; nothing is loaded yet.

    `threads` are those of one operator; 0 lets the runtime choose. `window_s` is the window that
    the user asked for, which `auto` heeds; `None`: whatever suits.
    """
    request = BackendRequest(directory, spec, options, threads)
    backend, path, why_decoder = _choose_decoder(request)
    decoder = _make_decoder(request, backend, path)
    backend, path, why_encoder = _choose_encoder(request, window_s, decoder.limits.n_positions)
    encoder = _make_encoder(request, backend, path)
    reasons = f"encoder {encoder.name}: {why_encoder}", f"decoder {decoder.name}: {why_decoder}"
    return SelectedEngine(encoder, decoder, reasons)


def engine_window_s(
    engine: SelectedEngine, spec: ModelSpec, window_s: float | None
) -> float | None:
    """Return the window that both halves take, in seconds, if the one asked for suits them."""
    n_frames = engine.encoder.n_frames
    if n_frames is not None:
        fixed_s = n_frames / FRAMES_PER_SECOND
        if window_s is not None and abs(window_s - fixed_s) > 1e-6:
            raise OptionError(
                f"--window is {window_s:g} s, encoder {engine.encoder.name} takes {fixed_s:g} s; "
                "leave --window out, or give another --encoder"
            )
        window_s = fixed_s
    takes = engine.decoder.limits.n_positions
    if takes is None:
        return window_s
    positions_per_second = FRAMES_PER_SECOND / FRAMES_PER_POSITION
    if window_s is None:
        return takes / positions_per_second
    check_positions(takes, round(window_s * positions_per_second))
    return window_s


def find_npu() -> tuple[str | None, str]:
    """Return the chip that HEFs can run on, such as `hailo8l`, or `None`, and what was found."""
    from whisper_hailo.backends.hailo.binding import why_no_binding

    if why := why_no_binding():  # first, since all else takes a tenth of a second to import
        return None, why
    from whisper_hailo.backends.hailo.hef_contract import RUNS_ON
    from whisper_hailo.backends.hailo.isolated_probe import chips

    try:
        found = chips()
    except DeviceError as error:
        return None, str(error).split(";")[0]
    if not found:
        return None, "no Hailo chip"
    if found[0].arch not in RUNS_ON:
        return None, f"the Hailo chip {found[0].device} does not say what it is"
    return found[0].arch, f"{found[0].arch} {found[0].device}"


def _choose_encoder(
    request: BackendRequest, window_s: float | None, n_positions: int | None
) -> tuple[str, Path | None, str]:
    """Return the name of a backend, what it is to run, and why it was taken."""
    options = request.options
    path = _graph_path(
        request, options.encoder, ENCODER_FILE, graphs=options.encoder_backend in {AUTO, "onnx"}
    )
    if options.encoder_backend != AUTO:
        return options.encoder_backend, path, "as asked for"
    if options.encoder is not None:
        backend = "hailo" if options.encoder.suffix == ".hef" else "onnx"
        return backend, path, f"{options.encoder} is given"
    arch, found = find_npu()
    if arch is None:
        return "onnx", path, f"on the CPU, {found}"
    from whisper_hailo.backends.hailo.hef_catalog import fitting_encoder

    hef, why_not = fitting_encoder(request.directory, request.spec, arch, window_s, n_positions)
    if hef is None:
        return "onnx", path, f"on the CPU, {found}, but {why_not}"
    return "hailo", hef, f"on {found}"


def _choose_decoder(request: BackendRequest) -> tuple[str, Path | None, str]:
    backend = request.options.decoder_backend
    graphs = backend in {AUTO, "cached", "optimum"}
    path = _graph_path(request, request.options.decoder, DECODER_FILE, graphs=graphs)
    if backend != AUTO:
        return backend, path, "as asked for"
    if path is None:
        return "cached", None, "with a cache on the CPU, quicker than any without on a chip"
    return decoder_backend(path), path, f"{path} is given"


def _graph_path(
    request: BackendRequest, path: Path | None, file: str, *, graphs: bool
) -> Path | None:
    """Return what to run; `None`: the model directory's own, of whose graphs one stands for all.

    `graphs`: the backend runs graphs, which a directory of another program has, too.
    """
    if path is None:
        return request.directory if graphs and ENCODER_FILE not in request.spec.files else None
    return path.parent if path.name == file and is_model_directory(path.parent) else path


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


def _model_directory(request: BackendRequest, path: Path | None) -> tuple[Path, ModelSpec]:
    """Return a model directory given as encoder or decoder, of the run's model; else the run's."""
    spec = request.spec
    if path is None:
        return request.directory, spec
    own = ModelSpec.load(path)
    differing = [
        f"{name} {size} and {getattr(spec.dims, name)}"
        for name, size in asdict(own.dims).items()
        if size != getattr(spec.dims, name)
    ]
    if differing or own.tokens != spec.tokens:
        what = ", ".join(differing) or "their control tokens"
        raise ModelError(
            f"{display_path(path)} and model {spec.name} differ: {what}; they must be of one model"
        )
    return path, own


def hailo_form(directory: Path, spec: ModelSpec, part: str) -> Path:
    """Return the graph of fixed sizes that `convert --hailo` put into a model directory."""
    return model_file(directory, spec, spec.hailo_form(part).file)
