"""Which HEFs fit this machine: those of the model, those that were fetched, and its chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisper_hailo.backends.hailo.binding import why_no_binding
from whisper_hailo.backends.hailo.faults import NO_DEVICE
from whisper_hailo.backends.hailo.hef_catalog import fetched
from whisper_hailo.backends.hailo.isolated_probe import chips
from whisper_hailo.backends.hef.contract import RUNS_ON, check_encoder
from whisper_hailo.core.errors import DeviceError, HefError, ModelError, NoDeviceError, display_path
from whisper_hailo.core.files import resolve_within
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FRAMES_PER_SECOND

_SAME_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run asks of its encoder.

    Attributes:
        window_s: window in seconds; `None`: any.
        n_positions: most that the decoder takes; `None`: any number.
    """

    window_s: float | None = None
    n_positions: int | None = None


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
    directory: Path, spec: ModelSpec, arch: str, wanted: Wanted
) -> tuple[Path | None, str]:
    """Return an encoder HEF for `auto`: one that this run can take as it is.

    Returns:
        the file and nothing, or `None` and why there is none.
    """
    reasons = []
    for path in _hefs(directory, spec, arch, "encoder"):
        try:
            _, shape = check_encoder(path, spec)
        except HefError as error:
            reasons.append(str(error).split(";")[0])
            continue
        window_s = shape.n_frames / FRAMES_PER_SECOND
        if wanted.window_s is not None and abs(wanted.window_s - window_s) > _SAME_S:
            reasons.append(f"{path.name} takes {window_s:g} s, --window is {wanted.window_s:g} s")
        elif wanted.n_positions is not None and shape.n_positions > wanted.n_positions:
            reasons.append(
                f"{path.name} gives {shape.n_positions} positions, "
                f"the decoder takes {wanted.n_positions}"
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
    """Return the HEF of this model for this machine's chip.

    Raises:
        ModelError: there is no HEF of this model.
    """
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
