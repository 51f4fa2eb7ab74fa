"""`whisper-hailo models` and `fetch-hef`: which models there are, and the vendor's HEFs of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.backends.hailo.binding import installed_version
from whisper_hailo.backends.hailo.hef_catalog import KNOWN, find_known
from whisper_hailo.backends.hailo.hef_contract import (
    DecoderShape,
    EncoderShape,
    recognise,
)
from whisper_hailo.backends.hailo.hef_download import fetch
from whisper_hailo.backends.hailo.hef_file import read_hef
from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.types import FRAMES_PER_SECOND

if TYPE_CHECKING:
    from whisper_hailo.convert.model_cache import CachedModel

ACTIONS: Final = ("list", "fetch", "remove")
_QUANTISATION: Final = ("quantize", "encoder_quantize")
_MIB: Final = 2**20


def models(
    options: Annotated[ConvertOptions, FieldSubset(_QUANTISATION)],
    action: Annotated[str, Argument(f"{', '.join(ACTIONS)}.")] = "list",
    names: Annotated[list[str] | None, Argument("Names of models.")] = None,
) -> None:
    """List models, fetch them in advance, or remove cached ones."""
    if action not in ACTIONS:
        raise OptionError(
            f"models {action} is unknown, expected one of: {', '.join(ACTIONS)}"
        )
    if action == "list" and names:
        raise OptionError("models list takes no names; see models --help")
    if action != "list" and not names:
        raise OptionError(
            f"models {action} needs the name of a model; see models --help"
        )
    from whisper_hailo.convert.model_cache import cached_as, resolve_model

    if action == "list":
        _list_models()
    elif action == "fetch":
        for name in names or []:
            emit(f"{name}: {resolve_model(name, options)}\n")
    else:
        cached: list[CachedModel] = []
        for name in (
            names or []
        ):  # an unknown name is refused before any model is removed
            cached += cached_as(name)
        for model in cached:
            model.remove()
            emit(f"{_describe_model(model)}: removed\n")


def _describe_model(model: CachedModel) -> str:
    spec = model.spec
    package = f" in {spec.source.package}" if spec.source.package else ""
    return (
        f"{spec.name}  decoder {spec.quantization}, encoder {spec.encoder_quantization}, "
        f"{model.n_bytes / _MIB:.0f} MiB, of {spec.source.name}{package}"
    )


def _list_models() -> None:
    from whisper_hailo.checkpoint.hub import BUNDLED, SHORT_NAMES, packaged_names
    from whisper_hailo.checkpoint.package_registry import REGISTRY, package_versions
    from whisper_hailo.convert.model_cache import cached_models, models_folder

    width = max(map(len, SHORT_NAMES))
    lines = [
        "Bundled:",
        f"  {BUNDLED}  for trying things out: everyday English and German",
        f"Cached in {models_folder()}:",
        *_describe_cached(cached_models()),
        "Known, fetched when they are first used; any hub id is taken, too:",
    ]
    for name, hub_id in SHORT_NAMES.items():
        lines.append(f"  {name.ljust(width)}  {hub_id}")
    lines.append(f"Fetched from {REGISTRY} where the model hub does not answer:")
    for name in packaged_names():
        lines.append(f"  {name.ljust(width)}  {package_versions(SHORT_NAMES[name])}")
    emit("\n".join(lines) + "\n")


def _describe_cached(models: Sequence[CachedModel]) -> list[str]:
    """Return a line for each cached model; those of equal lines also say their folder."""
    if not models:
        return ["  none"]
    rows = [_describe_model(model) for model in models]
    lines = []
    for row, model in zip(rows, models, strict=True):
        folder = f", folder {model.directory.name}" if rows.count(row) > 1 else ""
        lines.append(f"  {row}{folder}")
    return lines


_ARCHES = tuple(dict.fromkeys(hef.arch for hef in KNOWN))
_VARIANTS = tuple(dict.fromkeys(hef.variant for hef in KNOWN))


def fetch_hef(
    arch: Annotated[str, Flag(f"Chip: {', '.join(_ARCHES)}.")],
    variant: Annotated[
        str, Argument(f"Model: {', '.join(_VARIANTS)}.", "[MODEL]")
    ] = "tiny",
    mirror: Annotated[
        str | None,
        Flag("A mirror of the vendor's files.", name="--from", metavar="URL"),
    ] = None,
) -> None:
    """Fetch the vendor's HEFs of tiny, tiny.en, base or small and what the decoder's host needs."""
    hef = find_known(arch, variant)
    if hef is None:
        published = ", ".join(
            dict.fromkeys(f"{hef.variant} for {hef.arch}" for hef in KNOWN)
        )
        raise OptionError(
            f"nothing is published for {variant} --arch {arch}; there are {published}, or compile "
            "your own"
        )
    installed = installed_version()
    if installed and hef.release not in {
        "",
        installed,
    }:  # else it only fails when it is used
        print_note(
            f"this file is for HailoRT {hef.release}, installed is {installed}, which may refuse it"
        )
    address = hef.place if mirror is None else mirror
    files = fetch(hef, f"{address.removesuffix('/')}/")
    for path in files:
        emit(f"{path}\n  SHA-256 {sha256(path)}{_describe_contract(path)}\n")
    emit(
        f"next: whisper-hailo transcribe --model {variant} --encoder {files[0]} AUDIO\n"
    )


def _describe_contract(path: Path) -> str:
    """Return what a HEF's halves take and give, as lines; empty for an array."""
    if path.suffix != ".hef":
        return ""
    hef = read_hef(path)
    lines = []
    for group in hef.groups:
        shape = recognise(group, hef.arch)
        if isinstance(shape, EncoderShape):
            window_s = shape.n_frames / FRAMES_PER_SECOND
            lines.append(
                f"encoder for {hef.arch}: {window_s:g} s, {shape.n_mels} mel bins to "
                f"{shape.n_positions} positions of {shape.d_model}, {group.contexts} contexts"
            )
        elif isinstance(shape, DecoderShape):
            lines.append(
                f"decoder for {hef.arch}: {shape.length} tokens, {shape.n_positions} positions of "
                f"{shape.d_model}, the {shape.positions} adds the position rows, {group.contexts} "
                "contexts"
            )
    return "".join(f"\n  {line}" for line in lines)
