"""HEFs of a model: published, fetched or its own, and which of them fit this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo.binding import installed_version, why_no_binding
from whisper_hailo.backends.hailo.faults import NO_DEVICE
from whisper_hailo.backends.hailo.hef_contract import RUNS_ON, check_encoder
from whisper_hailo.backends.hailo.isolated_probe import chips
from whisper_hailo.core.errors import DeviceError, HefError, ModelError, NoDeviceError, display_path
from whisper_hailo.core.files import cache_root, resolve_within
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND

EXAMPLES: Final = "https://hailo-csdata.s3.eu-west-2.amazonaws.com/resources/"
"""Where the vendor's speech recognition example has its pairs."""

RELEASES: Final = "https://dev-public.hailo.ai/"
"""Where each release of HailoRT 5 has its files of both halves."""

_HEFS, _ASSETS = "whisper", "npy%20files/whisper/decoder_assets"
_FOLDERS: Final = {"hailo8": "h8", "hailo8l": "h8l", "hailo10h": "h10h"}
_SPLIT: Final = "whisper-decoder-fixed-sequence-matmul-split"


@dataclass(frozen=True, slots=True)
class KnownHefs:
    """A published encoder and decoder.

    Attributes:
        decoder: file name of the decoder; the same where one file holds both halves.
        window_s: seconds of the encoder's window; `None`: the file says it.
        length: text positions of the decoder; `None`: the file says it.
        release: of HailoRT, for which a file of both halves was made, such as `5.4.0`.
    """

    arch: str
    variant: str
    encoder: str
    decoder: str
    window_s: int | None = None
    length: int | None = None
    release: str = ""

    @property
    def folder(self) -> Path:
        """Folder of the fetched files."""
        name = f"{self.variant}-{self.release}" if self.release else self.variant
        return cache_root() / "hefs" / self.arch / name

    @property
    def place(self) -> str:
        """Web address that `files` are below."""
        return RELEASES if self.release else EXAMPLES

    @property
    def assets(self) -> tuple[str, str]:
        """File names of the arrays that the host of a pair's decoder needs."""
        return f"token_embedding_weight_{self.variant}.npy", f"onnx_add_input_{self.variant}.npy"

    def files(self) -> dict[str, str]:
        """Return path below `folder` to path below `place`."""
        if self.release:
            return {self.encoder: f"v{self.release}/blob/{self.encoder}"}
        hefs = f"{_HEFS}/{_FOLDERS[self.arch]}"
        inner = f"{self.variant}/decoder_tokenization"
        return {
            self.encoder: f"{hefs}/{self.encoder}",
            self.decoder: f"{hefs}/{self.decoder}",
            **{
                f"decoder_assets/{inner}/{name}": f"{_ASSETS}/{inner}/{name}"
                for name in self.assets
            },
        }


PAIRS: Final = (
    KnownHefs("hailo8", "tiny", "tiny-whisper-encoder-10s_15dB.hef", f"tiny-{_SPLIT}.hef", 10, 32),
    KnownHefs("hailo8", "base", "base-whisper-encoder-5s.hef", f"base-{_SPLIT}.hef", 5, 24),
    KnownHefs(
        "hailo8l", "tiny", "tiny-whisper-encoder-10s_15dB_h8l.hef", f"tiny-{_SPLIT}_h8l.hef", 10, 32
    ),
    KnownHefs(
        "hailo8l", "base", "base-whisper-encoder-5s_h8l.hef", f"base-{_SPLIT}_h8l.hef", 5, 24
    ),
    KnownHefs(
        *("hailo10h", "tiny", "tiny-whisper-encoder-10s.hef"),
        *("tiny-whisper-decoder-fixed-sequence.hef", 10, 32),
    ),
    KnownHefs(
        *("hailo10h", "tiny.en", "tiny_en-whisper-encoder-10s.hef"),
        *("tiny_en-whisper-decoder-fixed-sequence.hef", 10, 32),
    ),
    KnownHefs(
        *("hailo10h", "base", "base-whisper-encoder-10s.hef"),
        *("base-whisper-decoder-10s-out-seq-64.hef", 10, 64),
    ),
)
"""A file for each half."""

TWO_PART: Final = tuple(
    KnownHefs(
        *("hailo10h", variant, f"Whisper-{variant.title()}.hef", f"Whisper-{variant.title()}.hef"),
        release=release,
    )
    for release, variants in (
        ("5.4.0", ("tiny", "base", "small")),
        ("5.3.0", ("tiny", "base", "small")),
        ("5.2.0", ("base",)),
        ("5.1.1", ("base",)),
    )
    for variant in variants
)
"""A file of both halves, the newest release first; HailoRT's `Speech2Text` runs them, too."""

KNOWN: Final = (*PAIRS, *TWO_PART)


def find_known(arch: str, variant: str, release: str = "", hailort: str = "") -> KnownHefs | None:
    """Return what is published for a chip and a model: a pair, else a file of both halves.

    A `release` asks for its file of both halves, even where there is a pair; of releases newer than
    the installed `hailort` the oldest comes first, and last.
    """
    found = [known for known in KNOWN if (known.arch, known.variant) == (arch, variant)]
    if release:
        found = [known for known in found if known.release == release]
    return next(iter(_by_use(found, hailort)), None)


def fetched(spec: ModelSpec, arch: str, part: str) -> Path | None:
    """Return a HEF that was fetched and is of exactly this model.

    The vendor's are of OpenAI's checkpoints: a fine-tuned model of the same size is another model.
    """
    named = [known for known in KNOWN if spec.source.name == f"openai/whisper-{known.variant}"]
    for known in _by_use([known for known in named if known.arch == arch], installed_version()):
        path = known.folder / (known.encoder if part == "encoder" else known.decoder)
        if path.is_file():
            return path
    return None


def _by_use(found: list[KnownHefs], hailort: str) -> Iterator[KnownHefs]:
    """Yield pairs, then releases up to this HailoRT, then newer ones, which it may refuse."""
    yield from (known for known in found if not is_newer(known.release, hailort))
    yield from (known for known in reversed(found) if is_newer(known.release, hailort))


def is_newer(release: str, hailort: str) -> bool:
    """Return whether a file's release is newer than an installed HailoRT; `""`: none is there."""
    return bool(hailort) and _numbers(release) > _numbers(hailort)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


_SAME_S: Final = 1e-6


def usable_chip() -> tuple[str | None, str]:
    """Return the chip, such as `hailo8l`, and what was found; `None` if none can be used."""
    why = why_no_binding()
    if why is not None:
        return None, why
    try:
        found = chips()
    except DeviceError as error:
        return None, str(error).split(";")[0]
    if not found:
        return None, "no Hailo chip"
    if found[0].arch not in RUNS_ON:
        return None, f"the Hailo chip {found[0].device} does not say what it is"
    return found[0].arch, f"{found[0].arch} {found[0].device}"


def fitting_encoder(
    directory: Path,
    spec: ModelSpec,
    arch: str,
    window_s: float | None = None,
    n_positions: int | None = None,
) -> tuple[Path | None, str]:
    """Return an encoder HEF for `auto` and nothing, or `None` and why there is none.

    It has to fit the window in seconds and the most positions that the decoder takes; `None`: any.
    """
    reasons = []
    for path in _hefs(directory, spec, arch, "encoder"):
        try:
            _, shape = check_encoder(path, spec)
        except HefError as error:
            reasons.append(str(error).split(";")[0])
            continue
        takes_s = shape.n_frames / FRAMES_PER_SECOND
        if window_s is not None and abs(window_s - takes_s) > _SAME_S:
            reasons.append(f"{path.name} takes {takes_s:g} s, --window is {window_s:g} s")
        elif n_positions is not None and shape.n_positions > n_positions:
            reasons.append(
                f"{path.name} gives {shape.n_positions} positions, the decoder takes {n_positions}"
            )
        else:
            return path, ""
    return None, "; ".join(reasons) or f"no HEF of {spec.name}"


def matching_hef(directory: Path, spec: ModelSpec, arch: str, part: str) -> Path | None:
    """Return the first HEF of this model that the chip takes."""
    return next(_hefs(directory, spec, arch, part), None)


def _hefs(directory: Path, spec: ModelSpec, arch: str, part: str) -> Iterator[Path]:
    """HEFs of this model that the chip takes: compiled from it, or fetched for it."""
    takes = RUNS_ON[arch]
    # One for this very chip comes before one for a smaller chip.
    for record in sorted(spec.hefs, key=lambda record: record.arch != arch):
        path = resolve_within(directory, record.file)
        if record.part == part and record.arch in takes and path.is_file():
            yield path
    path_fetched = fetched(spec, arch, part)
    if path_fetched is not None:
        yield path_fetched


def needed_hef(directory: Path, spec: ModelSpec, part: str) -> Path:
    """Return the HEF of this model for this machine's chip."""
    found = chips()
    if not found:
        raise NoDeviceError(NO_DEVICE)
    arch = found[0].arch
    path = matching_hef(directory, spec, arch, part) if arch in RUNS_ON else None
    if path is None:
        raise ModelError(
            f"{display_path(directory)} has no {part} HEF of {spec.name} for a {arch}; give one "
            f"with --{part}, compile it, or for OpenAI's models: whisper-hailo fetch-hef "
            f"tiny|base|small --arch {arch}"
        )
    return path
