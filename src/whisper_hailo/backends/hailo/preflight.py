"""Does a HEF fit the model and this HailoRT? Asked of the file, before anything is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from whisper_hailo.backends.hef.contract import DecoderShape, EncoderShape, check_config, find_part
from whisper_hailo.backends.hef.read import HefFile, read_hef
from whisper_hailo.core.errors import HefError, shown
from whisper_hailo.core.spec import ModelSpec


def check_encoder(path: Path, spec: ModelSpec) -> tuple[HefFile, EncoderShape]:
    """A HEF's encoder, if it is one of this model.

    Raises:
        HefError: broken, no encoder, or one of another model.
    """
    hef = read_hef(path, verify=False)  # HailoRT compares the checksum when it loads the file
    shape = find_part(hef, "encoder")
    dims = spec.dims
    if not isinstance(shape, EncoderShape):
        raise HefError(f"{shown(path)} holds no Whisper encoder")
    check_config(hef, shape)
    _same(path, spec, {"mel bins": (shape.n_mels, dims.n_mels)})
    _same(path, spec, {"width": (shape.d_model, dims.d_model)})
    if shape.n_frames > dims.max_frames:
        raise HefError(
            f"{shown(path)} takes {shape.n_frames} frames, {spec.name} has {dims.max_frames}; "
            "encoder and --model must be of one model"
        )
    return hef, shape


def check_decoder(path: Path, spec: ModelSpec) -> tuple[HefFile, DecoderShape]:
    """A HEF's decoder, if it is one of this model.

    Raises:
        HefError: broken, no decoder, or one of another model.
    """
    hef = read_hef(path, verify=False)
    shape = find_part(hef, "decoder")
    if not isinstance(shape, DecoderShape):
        raise HefError(f"{shown(path)} holds no Whisper decoder")
    _same(path, spec, {"width": (shape.d_model, spec.dims.d_model)})
    shape.logits(spec.dims.n_vocab)
    return hef, shape


def check_versions(hef: HefFile, hailort: str) -> str | None:
    """Whether a HEF is newer than this HailoRT: a warning, or `None`.

    Compiler 3.N belongs to HailoRT 4.(N - 10), compiler 5.N to HailoRT 5.N. Newer files may load.
    """
    compiler, library = _numbers(hef.compiler_version), _numbers(hailort)
    if compiler is None or library is None:
        return None
    wanted = (4, compiler[1] - 10) if compiler[0] == 3 else compiler
    if wanted <= library:
        return None
    return (
        f"{hef.path.name} is of compiler {hef.compiler_version}, made for HailoRT "
        f"{wanted[0]}.{wanted[1]}; HailoRT {hailort} may refuse it"
    )


def _same(path: Path, spec: ModelSpec, sizes: dict[str, tuple[int, int]]) -> None:
    for what, (got, expected) in sizes.items():
        if got != expected:
            raise HefError(
                f"{shown(path)} has {what} {got}, {spec.name} has {expected}; "
                "HEF and --model must be of one model"
            )


def _numbers(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else None
