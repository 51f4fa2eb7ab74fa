"""`whisper-hailo models` and `fetch-hef`: which models there are, and the vendor's HEFs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from whisper_hailo.backends.hailo.binding import installed_version
from whisper_hailo.backends.hailo.hef_catalog import (
    KNOWN,
    fetch,
    find_known,
)
from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument, FieldSubset
from whisper_hailo.cli.streams import emit
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag

if TYPE_CHECKING:
    from whisper_hailo.convert.model_cache import CachedModel

ACTIONS: Final = ("list", "fetch", "remove")
_FORM: Final = ("quantize", "encoder_quantize")
_MIB: Final = 2**20


def models(
    options: Annotated[ConvertOptions, FieldSubset(_FORM)],
    action: Annotated[str, Argument(f"{', '.join(ACTIONS)}.")] = "list",
    names: Annotated[list[str] | None, Argument("Names of models.")] = None,
) -> None:
    """List models; fetch some before they are needed, or remove what is cached."""
    if action not in ACTIONS:
        raise OptionError(f"models {action} is unknown, expected one of: {', '.join(ACTIONS)}")
    if (action == "list") is bool(names):
        which = "takes no names" if names else "needs the name of a model"
        raise OptionError(f"models {action} {which}; see models --help")
    from whisper_hailo.convert.model_cache import cached_as, resolve_model

    if action == "list":
        _list_models()
    elif action == "fetch":
        for name in names or []:
            emit(f"{name}: {resolve_model(name, options)}\n")
    else:
        for model in [model for name in names or [] for model in cached_as(name)]:
            model.remove()
            emit(f"{_describe_model(model)}: removed\n")


def _describe_model(model: CachedModel) -> str:
    spec = model.spec
    return (
        f"{spec.name}  decoder {spec.quantization}, encoder {spec.encoder_quantization}, "
        f"{model.n_bytes / _MIB:.0f} MiB, of {spec.source.name}"
        + (f" in {spec.source.package}" if spec.source.package else "")
    )


def _list_models() -> None:
    from whisper_hailo.checkpoint.hub import BUNDLED, SHORT_NAMES, packaged_names
    from whisper_hailo.checkpoint.package_registry import REGISTRY, package_versions
    from whisper_hailo.convert.model_cache import cached_models, models_folder

    cached = cached_models()
    rows = [_describe_model(model) for model in cached]
    width = max(map(len, SHORT_NAMES))
    lines = [
        f"Bundled:\n  {BUNDLED}  for trying things out: everyday English and German",
        f"Cached in {models_folder()}:",
        *(
            f"  {row}" + f", folder {model.directory.name}" * (rows.count(row) > 1)
            for row, model in zip(rows, cached, strict=True)
        ),
        *([] if cached else ["  none"]),
        "Known, fetched when they are first used; any hub id is taken, too:",
        *(f"  {name.ljust(width)}  {hub_id}" for name, hub_id in SHORT_NAMES.items()),
        f"Fetched from {REGISTRY} where the model hub does not answer:",
        *(
            f"  {name.ljust(width)}  {package_versions(SHORT_NAMES[name])}"
            for name in packaged_names()
        ),
    ]
    emit("\n".join(lines) + "\n")


_ARCHES = tuple(dict.fromkeys(known.arch for known in KNOWN))
_VARIANTS = tuple(dict.fromkeys(known.variant for known in KNOWN))


def fetch_hef(
    arch: Annotated[str, Flag(f"Chip: {', '.join(_ARCHES)}.")],
    variant: Annotated[str, Argument(f"Model: {', '.join(_VARIANTS)}.", "[MODEL]")] = "tiny",
    place: Annotated[
        str | None, Flag("A mirror of the vendor's files.", name="--from", metavar="URL")
    ] = None,
) -> None:
    """Fetch the vendor's HEFs of tiny, tiny.en, base or small and what the decoder's host needs."""
    known = find_known(arch, variant)
    if known is None:
        there = ", ".join(dict.fromkeys(f"{k.variant} for {k.arch}" for k in KNOWN))
        raise OptionError(
            f"nothing is published for {variant} --arch {arch}; there are {there}, or compile your "
            "own"
        )
    installed = installed_version()
    if installed and known.release not in {"", installed}:
        print_note(
            f"this file is for HailoRT {known.release}, installed is {installed}, which may refuse "
            "it"
        )
    address = known.place if place is None else place
    files = fetch(known, f"{address.removesuffix('/')}/")
    emit("".join(f"{path}\n" for path in files))
    emit(f"next: whisper-hailo transcribe --model {variant} --encoder {files[0]} AUDIO\n")
