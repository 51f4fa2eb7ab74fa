"""Compilation of a Hailo form to a HEF: here, or as a bundle for another machine."""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.core.atomic_files import (
    atomic_file,
    exclusive_lock,
    wrap_os_error,
    write_file,
)
from whisper_hailo.core.errors import (
    DeviceError,
    ModelError,
    OptionError,
    OutputError,
    display_path,
)
from whisper_hailo.core.paths import resolve_within
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import SPEC_FILE, HailoForm, HefRecord, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode, read_json_object
from whisper_hailo_tools import hef_build
from whisper_hailo_tools.calibrate.windows import add_file, net_name
from whisper_hailo_tools.hef_build.job import (
    DEVICE,
    OPTION,
    OUTPUT,
    BuildError,
    BuildJob,
)
from whisper_hailo_tools.hef_build.model_script import size_of
from whisper_hailo_tools.hef_build.stages import (
    HEF,
    SCRIPT,
    describe_versions,
    load_calibration,
)
from whisper_hailo_tools.hef_build.supervise import JOB_SUFFIX, RECORD_SUFFIX, supervise
from whisper_hailo_tools.options import CompileOptions

logger = logging.getLogger(__name__)

_ERRORS: Final = {OPTION: OptionError, DEVICE: DeviceError, OUTPUT: OutputError}


@dataclass(frozen=True, slots=True)
class Hef:
    """A compiled network; `recorded`: `model.json` lists it."""

    path: Path
    record: HefRecord
    recorded: bool


def compile_part(directory: Path, options: CompileOptions) -> Hef:
    """Parse, optimise and compile one part; finished stages of earlier runs are kept.

    The compiler's log goes to this module's logger and to `<stem>.log`.
    """
    spec = ModelSpec.load(directory)
    job = make_job(directory, spec, options)
    job_path = job.result(JOB_SUFFIX)
    with translate_build_errors(), _lock_folder(Path(job.out)):
        write_file(job_path, job.to_json())
        facts = supervise(
            job_path, lambda line: logger.info("%s", line), options.python
        )
    return record_hef(directory, Path(job.out) / facts["hef"], facts)


def describe_job(spec: ModelSpec, form: HailoForm, arch: str) -> BuildJob:
    """Describe the build of a form for a chip; the caller adds files and level."""
    dims = spec.dims
    return BuildJob(
        arch=arch,
        part=form.part,
        size=size_of(dims.d_model, multilingual=spec.is_multilingual),
        net_name=net_name(spec, form),
        graph=form.file,
        start_nodes=list(form.start_nodes),
        end_nodes=list(form.end_nodes),
        chip_inputs=[list(shape) for shape in form.chip_inputs],
        d_model=dims.d_model,
        n_layers=dims.n_encoder_layers
        if form.part == "encoder"
        else dims.n_decoder_layers,
        calibration="",
        script=None,
        optimization_level=None,
        out="",
    )


def make_job(directory: Path, spec: ModelSpec, options: CompileOptions) -> BuildJob:
    """Describe the build, and check the files that it starts from."""
    form = spec.hailo_form(options.part)
    graph = model_file(directory, spec, form.file)
    out = options.out or resolve_within(directory, f"hailo/{options.arch}")
    if options.script is not None and not options.script.is_file():
        raise ModelError(
            f"{display_path(options.script)} is not a file; give a model script (.alls) to --script"
        )
    job = replace(
        describe_job(spec, form, options.arch),
        graph=str(graph.resolve()),
        calibration=str(options.calibration.resolve()),
        script=None if options.script is None else str(options.script.resolve()),
        optimization_level=options.optimization_level,
        out=str(out.resolve()),
    )
    with translate_build_errors():
        load_calibration(job)
    return job


def record_hef(directory: Path, path: Path, facts: dict[str, Any]) -> Hef:
    """List the HEF in `model.json`, in the place of an earlier one.

    A HEF outside the directory is described, not listed; `facts` is the build's record.
    """
    root = directory.resolve()
    is_inside = path.is_relative_to(root)
    file = path.relative_to(root).as_posix() if is_inside else path.name
    try:
        record = decode(HefRecord, facts | {"file": file})
    except MismatchError as error:
        raise ModelError(
            f"the record of {display_path(path)}: {error}; build it again"
        ) from error
    if not is_inside:
        return Hef(path, record, recorded=False)
    with translate_build_errors(), _lock_folder(directory):
        # Again: the other part may have been compiled meanwhile.
        spec = ModelSpec.load(directory)
        hefs = [hef for hef in spec.hefs if hef.file != file]
        hefs.append(record)
        hefs.sort(key=lambda hef: hef.file)
        write_file(directory / SPEC_FILE, replace(spec, hefs=tuple(hefs)).to_json())
    return Hef(path, record, recorded=True)


@contextmanager
def translate_build_errors() -> Iterator[None]:
    """Raise a build's error as the program's error with that exit code."""
    try:
        yield
    except BuildError as error:
        raise _ERRORS.get(error.code, ModelError)(str(error)) from error


def _lock_folder(folder: Path) -> AbstractContextManager[bool]:
    """Allow one build or one change at a time in a folder."""
    advice = "give a writable place to --out"
    with wrap_os_error(folder, advice):
        folder.mkdir(parents=True, exist_ok=True)
    return exclusive_lock(folder, advice)


def adopt_hef(
    directory: Path,
    arch: str,
    part: str,
    built: Path,
) -> Hef:
    """Copy a bundle's HEF, its record and its script to `hailo/<arch>` and list it in `model.json`.

    `built` is the `out` folder of a bundle that was packed from `directory`.
    """
    spec = ModelSpec.load(directory)
    form = spec.hailo_form(part)
    stem = net_name(spec, form)
    facts = _checked_record(built, stem, arch, spec.record(form.file).sha256)
    target = resolve_within(directory.resolve(), f"hailo/{arch}")
    try:
        target.mkdir(parents=True, exist_ok=True)
        # The HEF last: where it is, its record and script are, too.
        for suffix in (SCRIPT, RECORD_SUFFIX, HEF):
            with atomic_file(target / f"{stem}{suffix}") as partial:
                shutil.copyfile(built / f"{stem}{suffix}", partial)
    except OSError as error:
        raise OutputError(
            f"cannot copy {display_path(built)} to {display_path(target)} "
            f"({error.strerror or error}); free some space there"
        ) from error
    return record_hef(directory, target / f"{stem}{HEF}", facts)


def _checked_record(
    built: Path,
    stem: str,
    arch: str,
    graph_sha256: str,
) -> dict[str, Any]:
    """Return a bundle's record, if it is of this graph and chip and its HEF is whole."""
    path = built / f"{stem}{RECORD_SUFFIX}"
    if not path.is_file():
        raise ModelError(
            f"{display_path(built)} holds no {display_path(path.name)}, expected the out folder of "
            "a bundle of this model whose build.py has finished"
        )
    facts = read_json_object(path)
    if facts.get("arch") != arch:
        raise ModelError(
            f"{display_path(path)} describes a HEF for {facts.get('arch')}, --arch says {arch}"
        )
    if facts.get("graph_sha256") != graph_sha256:
        raise ModelError(
            f"{display_path(path)} is for another graph than this model's; pack a bundle of this "
            "model and build it"
        )
    hef = built / f"{stem}{HEF}"
    if not hef.is_file() or sha256(hef) != facts.get("sha256"):
        raise ModelError(
            f"{display_path(hef)} is not the file that {display_path(path.name)} describes; copy "
            "it again"
        )
    return facts


_BUILD: Final = '''"""Builds the HEF; run it with the Python that has the Hailo compiler."""

from pathlib import Path

from hef_build.supervise import build_bundle

raise SystemExit(build_bundle(Path(__file__).resolve().parent))
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

    The same inputs give the same bytes. `out` and `python` of the options do not matter. An earlier
    zip file is replaced when the new one is whole.
    """
    job = make_job(directory, ModelSpec.load(directory), options)
    graph = Path(job.graph)
    calibration = Path(job.calibration)
    packed = replace(
        job,
        graph=f"graph/{graph.name}",
        calibration=f"calibration/{job.net_name}{calibration.suffix}",
        script=None if job.script is None else "script.alls",
        out="out",
    )
    readme = _README.format(
        versions=describe_versions(job.arch),
        stem=job.net_name,
        arch=job.arch,
        part=job.part,
    )
    texts = {"README.txt": readme, "build.py": _BUILD, "job.json": packed.to_json()}
    files = {packed.graph: graph, packed.calibration: calibration}
    data = graph.with_name(f"{graph.name}.data")  # weights over 2 GB
    if data.is_file():
        files[f"graph/{data.name}"] = data
    if job.script is not None:
        files["script.alls"] = Path(job.script)
    for path in Path(hef_build.__path__[0]).glob("*.py"):
        files[f"hef_build/{path.name}"] = path
    with (
        wrap_os_error(target, "give a writable place with enough free space"),
        atomic_file(target) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name in sorted(texts):
            add_file(archive, name, texts[name])
        for name in sorted(files):
            add_file(archive, name, files[name])
