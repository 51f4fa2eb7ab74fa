"""What makes each engine: two small tables of functions that read headers and load nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.options import EngineOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.names import shown
from whisper_hailo.core.protocols import AnyDecoder, Encoder
from whisper_hailo.core.spec import ModelSpec


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
            f"{shown(request.path)} is none"
        )
    directory, spec = model_directory(request.path, request.spec)
    return CachedDecoder(directory, spec, request.threads)


def _fixed_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.file_kinds import hailo_form
    from whisper_hailo.backends.fixed import FixedDecoder
    from whisper_hailo.backends.fixed_onnx import OnnxFixedRunner

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
    from whisper_hailo.backends.hailo.choose import needed_hef
    from whisper_hailo.backends.hailo.encoder import HefEncoder

    path = request.path or needed_hef(request.directory, request.spec, "encoder")
    return HefEncoder(path, request.spec, request.options.hailo)


def _hef_decoder(request: BackendRequest) -> AnyDecoder:
    from whisper_hailo.backends.fixed import FixedDecoder
    from whisper_hailo.backends.hailo.choose import needed_hef
    from whisper_hailo.backends.hailo.decoder import HefRunner
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
