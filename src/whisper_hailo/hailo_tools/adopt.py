"""Takes what a bundle built on another machine into the model directory that packed it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.files import inside, sha256, written_whole
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.strict_json import read_json_object
from whisper_hailo.hailo_tools.calibrate.rows import net_name
from whisper_hailo.hailo_tools.compile import Hef, record_hef
from whisper_hailo.hailo_tools.hef_build.stages import HEF, SCRIPT
from whisper_hailo.hailo_tools.hef_build.supervise import RECORD_SUFFIX


def adopt_hef(directory: Path, arch: str, part: str, built: Path) -> Hef:
    """Copy a bundle's HEF, its record and its script to `hailo/<arch>` and list it in `model.json`.

    Args:
        directory: the model directory that the bundle was packed from.
        arch: chip that it was built for.
        part: `encoder` or `decoder`.
        built: the bundle's `out` folder.

    Raises:
        ModelError: nothing built there, cut short, or of another graph or chip.
        OutputError: the model directory cannot be written.
    """
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(part)
    stem = net_name(spec, form)
    facts = _checked_record(built, stem, arch, spec.record(form.file).sha256)
    target = inside(directory.resolve(), f"hailo/{arch}")
    try:
        target.mkdir(parents=True, exist_ok=True)
        # The HEF last: where it lies, all that belongs to it does.
        for suffix in (SCRIPT, RECORD_SUFFIX, HEF):
            _copy(built / f"{stem}{suffix}", target)
    except OSError as error:
        raise OutputError(
            f"cannot copy {shown(built)} to {shown(target)} ({error.strerror or error}); make room "
            "there"
        ) from error
    return record_hef(directory, target / f"{stem}{HEF}", facts)


def _checked_record(built: Path, stem: str, arch: str, graph_sha256: str) -> dict[str, Any]:
    path = built / f"{stem}{RECORD_SUFFIX}"
    if not path.is_file():
        raise ModelError(
            f"{shown(built)} holds no {shown(path.name)}, expected the out folder of a bundle of "
            "this model whose build.py has finished"
        )
    facts = read_json_object(path)
    if facts.get("arch") != arch:
        raise ModelError(f"{shown(path)} is of a HEF for {facts.get('arch')}, --arch says {arch}")
    if facts.get("graph_sha256") != graph_sha256:
        raise ModelError(
            f"{shown(path)} is of another graph than this model's; pack a bundle of this one and "
            "build it"
        )
    hef = built / f"{stem}{HEF}"
    if not hef.is_file() or sha256(hef) != facts.get("sha256"):
        raise ModelError(
            f"{shown(hef)} is not the file that {shown(path.name)} describes; copy it again"
        )
    return facts


def _copy(source: Path, folder: Path) -> None:
    with written_whole(folder / source.name) as partial:
        shutil.copyfile(source, partial)
