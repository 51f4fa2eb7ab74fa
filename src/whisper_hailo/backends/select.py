"""Which engine runs which half, and the reasons for what `auto` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from whisper_hailo.backends.options import AUTO, EngineOptions
from whisper_hailo.core.errors import OptionError, ShapeError, display_path
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import DECODER_FILE, ENCODER_FILE, ModelSpec
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """What a backend is made of.

    Attributes:
        directory: the model directory.
        spec: its description.
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
    from whisper_hailo.backends.file_kinds import encoder_file, is_model_directory, model_directory
    from whisper_hailo.backends.foreign_encoder import ForeignEncoder
    from whisper_hailo.backends.onnx import OnnxEncoder

    if request.path is None:
        return OnnxEncoder(request.directory, request.spec, request.threads)
    if is_model_directory(request.path):
        directory, spec = model_directory(request.path, request.spec)
        return OnnxEncoder(directory, spec, request.threads)
    return ForeignEncoder(encoder_file(request.path), request.spec, request.threads)


def _cached_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.file_kinds import is_model_directory, model_directory
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
    from whisper_hailo.backends.file_kinds import hailo_form
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
    from whisper_hailo.backends.hailo.encoder import HefEncoder
    from whisper_hailo.backends.hailo.select_hef import needed_hef

    path = request.path or needed_hef(request.directory, request.spec, "encoder")
    return HefEncoder(path, request.spec, request.options.hailo)


def _hef_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.fixed import FixedDecoder
    from whisper_hailo.backends.hailo.decoder import HefRunner
    from whisper_hailo.backends.hailo.select_hef import needed_hef
    from whisper_hailo.backends.hef.contract import CHIP, HOST

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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SelectedEngine:
    """Both halves, not yet opened, and why they are what they are.

    Attributes:
        encoder: log-mel to audio features.
        decoder: audio features to tokens.
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


@dataclass(frozen=True, slots=True)
class Npu:
    """The accelerator of this machine.

    Attributes:
        arch: such as `hailo8l`; `None` when there is none that can be used.
        why: what it is, or what is missing.
    """

    arch: str | None
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
    decoder = _made(DECODERS, "--decoder-backend", choice, request)
    reasons = [f"decoder {decoder.name}: {choice.why}"]
    choice = _encoder_choice(request, window_s, decoder.limits.n_positions)
    encoder = _made(ENCODERS, "--encoder-backend", choice, request)
    reasons.insert(0, f"encoder {encoder.name}: {choice.why}")
    return SelectedEngine(encoder, decoder, tuple(reasons))


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

    Raises:
        OptionError: not what a fixed encoder takes.
        ShapeError: more than a fixed decoder takes.
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


def find_npu() -> Npu:
    """Look for a chip that HEFs can run on, without opening it for inference."""
    from whisper_hailo.backends.hailo.binding import why_no_binding

    why = why_no_binding()  # first, since all else takes a tenth of a second to import
    if why is not None:
        return Npu(None, why)
    from whisper_hailo.backends.hailo.select_hef import usable_chip

    return Npu(*usable_chip())


def _encoder_choice(
    request: BackendRequest, window_s: float | None, n_positions: int | None
) -> BackendChoice:
    from whisper_hailo.backends.file_kinds import without_own_name

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
    npu = find_npu()
    if npu.arch is None:
        return BackendChoice("onnx", path, f"on the CPU, {npu.why}")
    from whisper_hailo.backends.hailo.select_hef import Wanted, fitting_encoder

    wanted = Wanted(window_s, n_positions)
    hef, why_not = fitting_encoder(request.directory, request.spec, npu.arch, wanted)
    if hef is None:
        return BackendChoice("onnx", path, f"on the CPU, {npu.why}, but {why_not}")
    return BackendChoice("hailo", hef, f"on {npu.why}")


def _decoder_choice(request: BackendRequest) -> BackendChoice:
    from whisper_hailo.backends.file_kinds import decoder_backend, without_own_name

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


def _made(
    table: Mapping[str, Callable[[BackendRequest], T]],
    option: str,
    choice: BackendChoice,
    request: BackendRequest,
) -> T:
    make = table.get(choice.backend)
    if make is None:
        raise OptionError(
            f"{option} {choice.backend} is not in this version; it has: {', '.join(table)}"
        )
    return make(
        BackendRequest(
            request.directory, request.spec, choice.path, request.options, request.threads
        )
    )
