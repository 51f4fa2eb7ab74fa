"""`whisper-hailo fetch-hef`: published HEFs of OpenAI's models, for one chip."""

from __future__ import annotations

from typing import Annotated

from whisper_hailo.backends.hailo.hef_catalog import KNOWN, PAIRS, TWO_PART, find_known, is_newer
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.verbosity import note
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag

_ARCHES = tuple(dict.fromkeys(known.arch for known in KNOWN))
_VARIANTS = tuple(dict.fromkeys(known.variant for known in KNOWN))
_RELEASES = tuple(dict.fromkeys(known.release for known in TWO_PART))


def fetch_hef(
    arch: Annotated[str, Flag(f"Chip: {', '.join(_ARCHES)}.")],
    variant: Annotated[str, Argument(f"Model: {', '.join(_VARIANTS)}.", "MODEL")] = "tiny",
    release: Annotated[
        str,
        Flag(
            f"On a 10H the one file of both halves for this HailoRT: {', '.join(_RELEASES)}. "
            "[default: for small the installed HailoRT's]",
            metavar="V",
        ),
    ] = "",
    place: Annotated[
        str | None, Flag("A mirror of the vendor's files.", name="--from", metavar="URL")
    ] = None,
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Fetch the vendor's HEFs of tiny, tiny.en, base or small and what the decoder's host needs."""
    from whisper_hailo.backends.hailo.binding import installed_version
    from whisper_hailo.backends.hailo.fetch import fetch

    installed = installed_version()
    known = find_known(arch, variant, release, installed)
    if known is None:
        there = ", ".join(f"{known.variant} for {known.arch}" for known in PAIRS)
        both = ", ".join(f"{known.variant} {known.release}" for known in TWO_PART)
        asked = f" --release {release}" if release else ""
        raise OptionError(
            f"nothing is published for {variant} --arch {arch}{asked}; there are {there}, with "
            f"both halves in one file for hailo10h {both}, or compile your own"
        )
    if is_newer(known.release, installed):
        note(
            f"this file is for HailoRT {known.release}, installed is {installed}, which may refuse "
            "it; update HailoRT, or name another file with --release"
        )
    address = known.place if place is None else place
    done = fetch(known, address if address.endswith("/") else f"{address}/")
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
