"""Which engine runs which half, and the reasons for what `auto` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.core.errors import ModelError, OptionError, ShapeError, display_path
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, SPEC_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """What a backend is made of.

    Attributes:
        path: the file or directory to run; `None` is the model directory's own.
        options: all that the user asked for.
        threads: threads per operator; 0 lets the runtime choose.
    """

    directory: Path
    spec: ModelSpec
    path: Path | None
    options: EngineOptions
    threads: int


def _onnx_encoder(request: BackendRequest) -> Encoder:
    from whisper_hailo.backends.foreign_encoder import ForeignEncoder, encoder_file
    from whisper_hailo.backends.onnx import OnnxEncoder

    if request.path is None:
        return OnnxEncoder(request.directory, request.spec, request.threads)
    if is_model_directory(request.path):
        directory, spec = model_directory(request.path, request.spec)
        return OnnxEncoder(directory, spec, request.threads)
    return ForeignEncoder(encoder_file(request.path), request.spec, request.threads)


def _cached_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.onnx import CachedDecoder

    if request.path is None:
        return CachedDecoder(request.directory, request.spec, request.threads)
    if not is_model_directory(request.path):
        raise OptionError(
            f"--decoder-backend cached needs a directory made with whisper-hailo convert, "
            f"{display_path(request.path)} is none"
        )
    directory, spec = model_directory(request.path, request.spec)
    return CachedDecoder(directory, spec, request.threads)


def _fixed_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.fixed import FixedDecoder, OnnxFixedRunner

    path = request.path or hailo_form(request.directory, request.spec, "decoder")
    return FixedDecoder(OnnxFixedRunner(path, request.spec, request.threads), request.spec)


def _optimum_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.optimum import OptimumDecoder

    path = request.path
    if path is None:
        raise OptionError(
            "--decoder-backend optimum needs --decoder DIR, a directory of its export"
        )
    return OptimumDecoder(path, request.spec, request.threads)


def _emulated_encoder(request: BackendRequest) -> Encoder:
    from whisper_hailo.backends.emulator import EmulatedEncoder

    return EmulatedEncoder(request.directory, request.spec, request.path, request.threads)


def _emulated_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.emulator import EmulatedRunner
    from whisper_hailo.backends.fixed import FixedDecoder

    runner = EmulatedRunner(request.directory, request.spec, request.path, request.threads)
    return FixedDecoder(runner, request.spec)


def _hef_encoder(request: BackendRequest) -> Encoder:
    from whisper_hailo.backends.hailo.hef_catalog import needed_hef
    from whisper_hailo.backends.hailo.hef_parts import HefEncoder

    path = request.path or needed_hef(request.directory, request.spec, "encoder")
    return HefEncoder(path, request.spec, request.options.hailo)


def _hef_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.fixed import FixedDecoder
    from whisper_hailo.backends.hailo.hef_catalog import needed_hef
    from whisper_hailo.backends.hailo.hef_contract import CHIP, HOST
    from whisper_hailo.backends.hailo.hef_parts import HefRunner

    options = request.options
    path = request.path or needed_hef(request.directory, request.spec, "decoder")
    assets = options.decoder_assets or request.directory
    positions = {"8": HOST, "10h": CHIP}.get(options.host_contract)
    runner = HefRunner(path, request.spec, assets, options.hailo, positions=positions)
    return FixedDecoder(runner, request.spec)


ENCODERS: Final[dict[str, Callable[[BackendRequest], Encoder]]] = {
    "onnx": _onnx_encoder,
    "emulator": _emulated_encoder,
    "hailo": _hef_encoder,
}
DECODERS: Final[dict[str, Callable[[BackendRequest], AnyDecoder]]] = {
    "cached": _cached_decoder,
    "optimum": _optimum_decoder,
    "fixed": _fixed_decoder,
    "emulator": _emulated_decoder,
    "hailo": _hef_decoder,
}
"""Name of a backend to what makes it. A maker reads headers at most: `open` loads."""


@dataclass(frozen=True, slots=True)
class SelectedEngine:
    """Both halves, not yet opened, and why they are what they are.

    Attributes:
        reasons: one line per half, such as `encoder onnx-fp32 on the CPU: no Hailo binding`.
    """

    encoder: Encoder
    decoder: AnyDecoder
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """One row of a table, what it is to run, and why it was taken."""

    backend: str
    path: Path | None
    why: str


def select(
    directory: Path,
    spec: ModelSpec,
    options: EngineOptions,
    threads: int = 0,
    window_s: float | None = None,
) -> SelectedEngine:
    """Put encoder and decoder together; nothing is loaded yet.

    Args:
        directory: the model directory.
        spec: its description.
        options: what the user asked for.
        threads: threads per operator; 0 lets the runtime choose.
        window_s: the window that the user asked for, which `auto` heeds; `None`: whatever suits.
    """
    request = BackendRequest(directory, spec, options.decoder, options, threads)
    choice = _decoder_choice(request)
    decoder = DECODERS[choice.backend](replace(request, path=choice.path))
    why_decoder = f"decoder {decoder.name}: {choice.why}"
    choice = _encoder_choice(request, window_s, decoder.limits.n_positions)
    encoder = ENCODERS[choice.backend](replace(request, path=choice.path))
    return SelectedEngine(encoder, decoder, (f"encoder {encoder.name}: {choice.why}", why_decoder))


def engine_window_s(
    engine: SelectedEngine, spec: ModelSpec, window_s: float | None
) -> float | None:
    """The window that both halves can take.

    Args:
        engine: both halves.
        spec: the model.
        window_s: what the user asked for, in seconds; `None` is what suits the engine.

    Returns:
        seconds; `None` is the pipeline's default.
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
    takes = engine.decoder.limits.n_positions
    if takes is None:
        return window_s
    positions_per_second = FRAMES_PER_SECOND / FRAMES_PER_POSITION
    if window_s is None:
        return takes / positions_per_second
    got = round(window_s * positions_per_second)
    if got > takes:
        raise ShapeError(
            f"decoder takes {takes} positions, encoder gives {got}; "
            f"convert with --window {window_s:g}"
        )
    return window_s


def find_npu() -> tuple[str | None, str]:
    """Return the chip that HEFs can run on, such as `hailo8l`, or `None`, and what was found."""
    from whisper_hailo.backends.hailo.binding import why_no_binding

    why = why_no_binding()  # first, since all else takes a tenth of a second to import
    if why is not None:
        return None, why
    from whisper_hailo.backends.hailo.hef_catalog import usable_chip

    return usable_chip()


def _encoder_choice(
    request: BackendRequest, window_s: float | None, n_positions: int | None
) -> BackendChoice:
    options = request.options
    path = without_own_name(options.encoder, ENCODER_FILE)
    graphs_there = options.encoder_backend in {AUTO, "onnx"}
    if path is None and graphs_there and ENCODER_FILE not in request.spec.files:
        path = request.directory  # a directory that another program made
    if options.encoder_backend != AUTO:
        return BackendChoice(options.encoder_backend, path, "as asked for")
    if options.encoder is not None:
        backend = "hailo" if options.encoder.suffix == ".hef" else "onnx"
        return BackendChoice(backend, path, f"{options.encoder} is given")
    arch, found = find_npu()
    if arch is None:
        return BackendChoice("onnx", path, f"on the CPU, {found}")
    from whisper_hailo.backends.hailo.hef_catalog import fitting_encoder

    hef, why_not = fitting_encoder(request.directory, request.spec, arch, window_s, n_positions)
    if hef is None:
        return BackendChoice("onnx", path, f"on the CPU, {found}, but {why_not}")
    return BackendChoice("hailo", hef, f"on {found}")


def _decoder_choice(request: BackendRequest) -> BackendChoice:
    options, path = request.options, without_own_name(request.path, DECODER_FILE)
    graphs_there = options.decoder_backend in {AUTO, "cached", "optimum"}
    if path is None and graphs_there and ENCODER_FILE not in request.spec.files:
        path = request.directory
    if options.decoder_backend != AUTO:
        return BackendChoice(options.decoder_backend, path, "as asked for")
    if path is None:
        return BackendChoice(
            "cached", None, "with a cache on the CPU, quicker than any without on a chip"
        )
    return BackendChoice(decoder_backend(path), path, f"{path} is given")


CTRANSLATE2_FILE = "model.bin"


def decoder_backend(path: Path) -> str:
    """Return the name of the backend that runs a decoder path."""
    if path.suffix == ".hef":
        return "hailo"
    if path.is_dir():
        if is_model_directory(path):
            return "cached"
        if (path / CTRANSLATE2_FILE).is_file():
            raise ModelError(
                f"{display_path(path)} is a CTranslate2 directory, which no decoder back-end runs; "
                "give it to --model"
            )
        return "optimum"
    from whisper_hailo.backends.fixed import is_fixed_decoder
    from whisper_hailo.backends.onnx_file import read_signature

    return "fixed" if is_fixed_decoder(read_signature(path)) else "optimum"


def is_model_directory(path: Path) -> bool:
    """Return whether `whisper-hailo convert` wrote a directory."""
    return (path / SPEC_FILE).is_file()


def without_own_name(path: Path | None, file: str) -> Path | None:
    """Return the model directory of a path that names one of its graphs: all are needed."""
    is_own = path is not None and path.name == file and is_model_directory(path.parent)
    return path.parent if path is not None and is_own else path


def model_directory(path: Path, spec: ModelSpec) -> tuple[Path, ModelSpec]:
    """Check a model directory given as encoder or decoder against the run's model."""
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
