"""What tests take out of a git copy of `hailo-ai/hailort`, which HAILORT_GIT names."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

REPOSITORY = os.environ.get("HAILORT_GIT", "")
EARLIER = ("v4.20.0", "v4.21.0", "v4.22.0", "v4.23.0")
"""For Hailo-8 and 8L."""

LATER = ("v5.1.1", "v5.2.0")
"""For the 10H."""

_LAYER = "hailort/libhailort/bindings/python/platform/hailo_platform"
_HERE = Path(__file__).parent
_OURS = (*_HERE.glob("extension/layer_*.py"), _HERE.parent / "standin" / "hef_file.py")


def text(tag: str, path: str) -> str:
    """A file of a release."""
    return _git("show", f"{tag}:{path}").decode()


def statuses(tag: str) -> dict[int, str]:
    """Status numbers of a release, with their names."""
    header = text(tag, "hailort/libhailort/include/hailo/hailort.h")
    found = re.findall(r"HAILO_STATUS__X\((\d+),\s*(HAILO_\w+)", header)
    return {int(number): name for number, name in found}


def install(tag: str, folder: Path) -> Path:
    """The Python layer of a release in a folder, our extension in the place of its own."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", tag, _LAYER))) as archive:
        archive.extractall(folder / "archive", filter="data")
    (folder / "archive" / _LAYER).rename(folder / "hailo_platform")
    inner = folder / "hailo_platform" / "pyhailort"
    shutil.copy(_HERE / "extension" / "_pyhailort.py", inner)
    (inner / "_pyhailort.there.so").touch()  # the layer looks for such a name
    for path in _OURS:
        shutil.copy(path, folder)
    for name in ("netaddr", "netifaces"):  # for Ethernet boards
        (folder / f"{name}.py").write_text(
            "def __getattr__(name):\n    return object\n"
        )
    return folder


def environment(tag: str, folder: Path, **facts: object) -> dict[str, str]:
    """Variables of a process under an installed layer; see `extension/layer_facts.py`."""
    of_release = {"version": tag.removeprefix("v"), "statuses": statuses(tag)}
    return {
        "PYTHONPATH": str(folder),
        "LAYER_FACTS": json.dumps({**of_release, **facts}),
    }


def _git(*words: str) -> bytes:
    return subprocess.run(
        ["git", "-C", REPOSITORY, *words], capture_output=True, check=True
    ).stdout
