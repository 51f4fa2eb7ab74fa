"""HEFs of a model, published, fetched, or its own, and which of them fit this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo.binding import installed_version, version_numbers
from whisper_hailo.backends.hailo.faults import NO_DEVICE
from whisper_hailo.backends.hailo.hef_contract import (
    RUNS_ON,
    check_encoder,
)
from whisper_hailo.backends.hailo.isolated_probe import chips
from whisper_hailo.backends.hailo.known_windows import BASE, KNOWN_WINDOWS, TINY
from whisper_hailo.core.errors import (
    HefError,
    ModelError,
    NoDeviceError,
    display_path,
)
from whisper_hailo.core.paths import cache_root, resolve_within
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND

logger = logging.getLogger(__name__)

EXAMPLES: Final = "https://hailo-csdata.s3.eu-west-2.amazonaws.com/resources/"
"""Where the vendor's speech recognition example has its pairs."""

RELEASES: Final = "https://dev-public.hailo.ai/"
"""Where each release of HailoRT 5 has files of both halves, which run with it alone."""

_ASSETS = "npy%20files/whisper/decoder_assets"
"""Folder below `EXAMPLES`."""

_FOLDERS: Final = {
    "hailo8": ("whisper/h8", "hefs/h8"),
    "hailo8l": ("whisper/h8l", "hefs/h8l_rpi", "hefs/h8l"),
    "hailo10h": ("whisper/h10h", "hefs/h10h"),
}
"""Folders below `EXAMPLES`, the newest first: the vendor moved the files in 2025, and left the
earlier ones where they were."""


@dataclass(frozen=True, slots=True)
class KnownHefs:
    """A published encoder and decoder, by their file names.

    Attributes:
        window_s: the encoder's window in seconds; 0 where only the file says it.
        release: of HailoRT, of a file of both halves.
    """

    arch: str
    variant: str
    window_s: int
    encoder: str
    decoder: str
    release: str = ""

    @property
    def folder(self) -> Path:
        """Folder of the cache for the files."""
        return (
            cache_root()
            / "hefs"
            / self.arch
            / f"{self.variant}-{self.release}".rstrip("-")
        )

    @property
    def place(self) -> str:
        """Web address of the folder that has the files."""
        return f"{RELEASES}v{self.release}/blob/" if self.release else EXAMPLES

    def files(self) -> dict[str, tuple[str, ...]]:
        """Return path below `folder` to the paths below `place` where it may be, in turn."""
        if self.release:
            return {self.encoder: (self.encoder,)}
        files: dict[str, tuple[str, ...]] = {}
        for name in (self.encoder, self.decoder):
            folders = _FOLDERS[self.arch]
            files[name] = tuple(f"{folder}/{name}" for folder in folders)
        for kind in ("token_embedding_weight", "onnx_add_input"):
            array = f"{self.variant}/decoder_tokenization/{kind}_{self.variant}.npy"
            files[f"decoder_assets/{array}"] = (f"{_ASSETS}/{array}",)
        return files


def _vendor_pair(
    arch: str,
    variant: str,
    encoder: str,
    decoder: str,
) -> KnownHefs:
    """Return a pair of the speech recognition example, by its files without their suffix."""
    d_model = TINY if variant.startswith("tiny") else BASE
    window_s = KNOWN_WINDOWS[arch, d_model].window_s
    return KnownHefs(arch, variant, window_s, f"{encoder}.hef", f"{decoder}.hef")


_DECODER: Final = "whisper-decoder-fixed-sequence"
_SPLIT: Final = f"{_DECODER}-matmul-split"

PAIRS: Final = (
    _vendor_pair("hailo8", "tiny", "tiny-whisper-encoder-10s_15dB", f"tiny-{_SPLIT}"),
    _vendor_pair("hailo8", "base", "base-whisper-encoder-5s", f"base-{_SPLIT}"),
    _vendor_pair(
        "hailo8l", "tiny", "tiny-whisper-encoder-10s_15dB_h8l", f"tiny-{_SPLIT}_h8l"
    ),
    _vendor_pair(
        "hailo8l", "base", "base-whisper-encoder-5s_h8l", f"base-{_SPLIT}_h8l"
    ),
    _vendor_pair("hailo10h", "tiny", "tiny-whisper-encoder-10s", f"tiny-{_DECODER}"),
    _vendor_pair(
        "hailo10h", "tiny.en", "tiny_en-whisper-encoder-10s", f"tiny_en-{_DECODER}"
    ),
    _vendor_pair(
        "hailo10h",
        "base",
        "base-whisper-encoder-10s",
        "base-whisper-decoder-10s-out-seq-64",
    ),
)
KNOWN: Final = PAIRS + tuple(
    KnownHefs(
        "hailo10h",
        "small",
        0,
        "Whisper-Small.hef",
        "Whisper-Small.hef",
        release,
    )
    for release in ("5.4.0", "5.3.0")
)


def known_hefs() -> list[KnownHefs]:
    """Return the published HEFs, files for a newer HailoRT than the installed one last.

    Those run with their own release or a later one; without a binding the newest come first.
    """
    installed = version_numbers(installed_version())
    if not installed:
        return list(KNOWN)
    return sorted(KNOWN, key=lambda hefs: version_numbers(hefs.release) > installed)


def find_known(arch: str, variant: str) -> KnownHefs | None:
    """Return the published HEFs for a chip and a model."""
    for hefs in known_hefs():
        if (hefs.arch, hefs.variant) == (arch, variant):
            return hefs
    return None


def fitting_encoder(
    directory: Path,
    spec: ModelSpec,
    arch: str,
    window_s: float | None = None,
    n_positions: int | None = None,
) -> tuple[Path | None, str]:
    """Return an encoder HEF for `auto`, or why none fits the window and the decoder's positions."""
    reasons = []
    for path in _find_hefs(directory, spec, arch, "encoder"):
        try:
            _, shape = check_encoder(path, spec)
        except HefError as error:
            reasons.append(str(error).split(";")[0])
            continue
        hef_window_s = shape.n_frames / FRAMES_PER_SECOND
        if window_s is not None and abs(window_s - hef_window_s) > 1e-6:
            reasons.append(
                f"{path.name} takes {hef_window_s:g} s, --window is {window_s:g} s"
            )
        elif n_positions is not None and shape.n_positions > n_positions:
            reasons.append(
                f"{path.name} gives {shape.n_positions} positions, the decoder takes {n_positions}"
            )
        else:
            return path, ""
    return None, "; ".join(reasons) or f"no HEF of {spec.name}"


def matching_hef(
    directory: Path,
    spec: ModelSpec,
    arch: str,
    part: str,
) -> Path | None:
    """Return the first HEF of this model that the chip takes."""
    return next(_find_hefs(directory, spec, arch, part), None)


def _find_hefs(
    directory: Path,
    spec: ModelSpec,
    arch: str,
    part: str,
) -> Iterator[Path]:
    """Yield HEFs of this model that the chip takes: compiled from it, or fetched for it."""
    takes = RUNS_ON[arch]
    # One for this very chip comes before one for a smaller chip.
    for record in sorted(spec.hefs, key=lambda record: record.arch != arch):
        path = resolve_within(directory, record.file)
        if record.part == part and record.arch in takes and path.is_file():
            yield path
    for hefs in known_hefs():
        # The vendor's are of OpenAI's checkpoints: a fine-tuned model of the same size is not.
        if hefs.arch != arch or spec.source.name != f"openai/whisper-{hefs.variant}":
            continue
        path = hefs.folder / (hefs.encoder if part == "encoder" else hefs.decoder)
        if path.is_file():
            yield path


def needed_hef(directory: Path, spec: ModelSpec, part: str) -> Path:
    """Return the HEF of this model for this machine's chip.

    Raises:
        NoDeviceError: there is no chip.
        ModelError: there is no HEF for it.
    """
    devices = chips()
    if not devices:
        raise NoDeviceError(NO_DEVICE)
    arch = devices[0].arch
    path = None
    if arch in RUNS_ON:
        path = matching_hef(directory, spec, arch, part)
    if path is None:
        raise ModelError(
            f"{display_path(directory)} has no {part} HEF of {spec.name} for a {arch}; give one "
            f"with --{part}, compile it, or for OpenAI's models: whisper-hailo fetch-hef "
            f"tiny|base|small --arch {arch}"
        )
    return path
