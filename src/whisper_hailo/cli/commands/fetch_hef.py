"""`whisper-hailo fetch-hef`: published HEFs of OpenAI's models, for one chip."""

from __future__ import annotations

from typing import Annotated

from whisper_hailo.backends.hailo.select_hef import KNOWN, PLACE, find_known
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag

_ARCHES = tuple(dict.fromkeys(known.arch for known in KNOWN))
_VARIANTS = tuple(dict.fromkeys(known.variant for known in KNOWN))


def fetch_hef(
    arch: Annotated[str, Flag(f"Chip: {', '.join(_ARCHES)}.")],
    variant: Annotated[str, Flag(f"Model: {', '.join(_VARIANTS)}.")] = "tiny",
    place: Annotated[
        str, Flag("A mirror of the vendor's files.", name="--from", metavar="URL")
    ] = PLACE,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Fetch the vendor's HEFs of tiny, tiny.en or base and the arrays of the decoder's host."""
    from whisper_hailo.backends.hailo.fetch import fetch

    known = find_known(arch, variant)
    if known is None:
        there = ", ".join(f"{known.variant} for {known.arch}" for known in KNOWN)
        raise OptionError(
            f"nothing is published for --arch {arch} --variant {variant}; there are {there}, "
            "or compile your own"
        )
    done = fetch(known, place if place.endswith("/") else f"{place}/")
    files = [str(path) for path in done.files]
    if as_json:
        hashes = dict(zip(files, done.hashes, strict=True))
        emit_json({"arch": arch, "variant": variant, "files": files, "sha256": hashes})
        return
    emit("".join(f"{path}\n" for path in files))
    emit(
        "no hashes of these files are published; yours are recorded, and later downloads must "
        f"match them: {done.sums}\n"
    )
    emit(f"next: whisper-hailo transcribe --model {variant} --encoder {files[0]} AUDIO\n")
