"""Is there a chip that can be used, and a HEF of this model for it? Asked by `auto`."""

from __future__ import annotations

from pathlib import Path

from whisper_hailo.backends.hailo.binding import system_binding
from whisper_hailo.backends.hailo.chip import chips
from whisper_hailo.backends.hailo.faults import NO_DEVICE
from whisper_hailo.backends.hailo.known import fetched
from whisper_hailo.backends.hef.contract import RUNS_ON
from whisper_hailo.core.errors import DeviceError, ModelError, NoBindingError, NoDeviceError
from whisper_hailo.core.spec import ModelSpec


def usable_chip() -> tuple[str | None, str]:
    """Name of the chip, such as `hailo8l`, and what was found; `None` if none can be used."""
    try:
        found = chips()
    except NoBindingError:
        if system_binding() is not None:
            return None, "the Hailo binding is installed but invisible to this environment (doctor)"
        return None, "no Hailo binding in this environment"
    except DeviceError as error:
        return None, str(error).split(";", maxsplit=1)[0]
    if not found:
        return None, "no Hailo chip"
    if found[0].arch not in RUNS_ON:
        return None, f"the Hailo chip {found[0].device} does not say what it is"
    return found[0].arch, f"{found[0].arch} {found[0].device}"


def matching_hef(directory: Path, spec: ModelSpec, arch: str, part: str) -> Path | None:
    """A HEF of this model that the chip takes: compiled from it, or fetched for it.

    Args:
        directory: the model directory.
        spec: its description.
        arch: chip of this machine.
        part: `encoder` or `decoder`.
    """
    takes = RUNS_ON[arch]
    # One for this very chip comes before one for a smaller chip.
    records = sorted(spec.hefs, key=lambda record: record.arch != arch)
    for record in records:
        path = directory / record.file
        if record.part == part and record.arch in takes and path.is_file():
            return path
    return fetched(spec, arch, part)


def needed_hef(directory: Path, spec: ModelSpec, part: str) -> Path:
    """The HEF of this model for this machine's chip.

    Raises:
        NoBindingError, BindingMismatchError, DeviceError: there is no chip to choose it for.
        ModelError: there is no HEF of this model.
    """
    found = chips()
    if not found:
        raise NoDeviceError(NO_DEVICE)
    arch = found[0].arch
    path = matching_hef(directory, spec, arch, part) if arch in RUNS_ON else None
    if path is None:
        raise ModelError(
            f"{directory} has no {part} HEF of {spec.name} for a {arch}; give one with --{part}, "
            f"compile it, or for OpenAI's tiny and base: whisper-hailo fetch-hef --arch {arch}"
        )
    return path
