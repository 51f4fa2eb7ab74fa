"""Packs a build, so that it runs where the compiler is: one zip, one command."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from whisper_hailo.core.files import unwritable, written_whole
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.hailo_tools import hef_build
from whisper_hailo.hailo_tools.compile import CompileOptions, make_job
from whisper_hailo.hailo_tools.hef_build.sdk import VERSIONS
from whisper_hailo.hailo_tools.zip_file import add_file, add_text

_BUILD: Final = '''"""Builds the HEF; run it with the Python that has the Hailo compiler."""

from pathlib import Path

from hef_build.alone import main

raise SystemExit(main(Path(__file__).resolve().parent))
'''

_README: Final = """A build for the Hailo Dataflow Compiler, packed by whisper-hailo.

    python3 build.py

It needs x86-64 Linux, Python 3.10 or newer with NumPy, and the Hailo Dataflow Compiler
{versions} (hailo_sdk_client) in that same Python; nothing else. It takes hours, streams its log,
and keeps every finished stage: start it again after an interruption.

The result is out/{stem}.hef for {arch}, with its record out/{stem}.hef.json (chip, compiler
version, script, hashes, signal-to-noise ratios). The model script is
written to out/{stem}.alls once the compiler has parsed the graph. Copy the folder out to where
the model is, and let it take the HEF over:

    whisper-hailo compile MODEL_DIR --arch {arch} --part {part} --built out
"""


def write_bundle(directory: Path, options: CompileOptions, target: Path) -> None:
    """Pack graph, calibration set, the user's script, and the program that builds.

    The same inputs give the same bytes.

    Args:
        directory: a model directory with Hailo forms.
        options: what to compile; `out` and `python` do not matter.
        target: the zip file, which is replaced when the new one is whole.

    Raises:
        ModelError: model directory or calibration set do not fit.
        OutputError: unwritable, or the disk is full.
    """
    job = make_job(directory, ModelSpec.load(directory), options)
    graph, calibration = Path(job.graph), Path(job.calibration)
    files = {f"graph/{path.name}": path for path in _with_data(graph)}
    calibration_name = f"calibration/{job.net_name}{calibration.suffix}"
    files[calibration_name] = calibration
    if job.script is not None:
        files["script.alls"] = Path(job.script)
    for path in sorted(Path(hef_build.__path__[0]).glob("*.py")):
        files[f"hef_build/{path.name}"] = path
    packed = replace(
        job,
        graph=f"graph/{graph.name}",
        calibration=calibration_name,
        script=None if job.script is None else "script.alls",
        out="out",
    )
    first, beyond = VERSIONS[job.arch]
    versions = f"{first[0]}.{first[1]} or newer, below {beyond[0]}.0"
    texts = {
        "README.txt": _README.format(
            versions=versions, stem=job.stem, arch=job.arch, part=job.part
        ),
        "build.py": _BUILD,
        "job.json": packed.to_json(),
    }
    _write(target, texts, files)


def _write(target: Path, texts: dict[str, str], files: dict[str, Path]) -> None:
    with (
        unwritable(target, "give a writable place with enough free space"),
        written_whole(target) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name in sorted(texts):
            add_text(archive, name, texts[name])
        for name in sorted(files):
            add_file(archive, name, files[name])


def _with_data(graph: Path) -> Iterator[Path]:
    """The graph and, over 2 GB, its weights."""
    yield graph
    data = graph.with_name(f"{graph.name}.data")
    if data.is_file():
        yield data
