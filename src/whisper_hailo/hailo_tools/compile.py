"""From a model directory to a HEF through the vendor's compiler, or to a bundle that does it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from whisper_hailo.backends.model_files import model_file
from whisper_hailo.core.errors import (
    DeviceError,
    ModelError,
    OptionError,
    OutputError,
    WhisperHailoError,
)
from whisper_hailo.core.files import alone_with, inside, unwritable, write_file
from whisper_hailo.core.hailo import HefRecord
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import SPEC_FILE, ModelSpec
from whisper_hailo.core.strict_json import MismatchError, decode
from whisper_hailo.hailo_tools.calibrate.rows import net_name
from whisper_hailo.hailo_tools.compile_options import CompileOptions
from whisper_hailo.hailo_tools.hef_build.calibration import load_calibration
from whisper_hailo.hailo_tools.hef_build.fault import DEVICE, OPTION, OUTPUT, BuildError
from whisper_hailo.hailo_tools.hef_build.job import BuildJob
from whisper_hailo.hailo_tools.hef_build.recipe import size_of
from whisper_hailo.hailo_tools.hef_build.supervise import JOB_SUFFIX, supervise

logger = logging.getLogger(__name__)

_ERRORS: Final = {OPTION: OptionError, DEVICE: DeviceError, OUTPUT: OutputError}


@dataclass(frozen=True, slots=True)
class Hef:
    """A compiled network.

    Attributes:
        path: the HEF.
        record: what it was made of.
        recorded: whether `model.json` lists it; it does where the HEF lies in its directory.
    """

    path: Path
    record: HefRecord
    recorded: bool


def compile_part(directory: Path, options: CompileOptions) -> Hef:
    """Parse, optimise and compile one part; finished stages of earlier runs are kept.

    The compiler's log goes to this module's logger and to `<stem>.log`.

    Args:
        directory: a model directory with Hailo forms.
        options: what to compile.

    Raises:
        ModelError: model directory, calibration set or script do not fit, or the compiler refuses.
        DeviceError: the compiler is missing, of the wrong version, or was killed.
        OutputError: unwritable, or the disk is full.
    """
    spec = ModelSpec.load(directory)
    job = make_job(directory, spec, options)
    job_path = job.result(JOB_SUFFIX)
    with _one_line_each(), _alone(Path(job.out)):
        write_file(job_path, job.to_json())
        facts = supervise(job_path, lambda line: logger.info("%s", line), options.python)
    return record_hef(directory, Path(job.out) / facts["hef"], facts)


def make_job(directory: Path, spec: ModelSpec, options: CompileOptions) -> BuildJob:
    """Describe the build, and look at everything that it starts from.

    Raises:
        ModelError: no Hailo forms, a graph that changed since, or a calibration set that does not
            fit.
    """
    form = spec.hailo_form(options.part)
    graph = model_file(directory, spec, form.file)
    is_encoder = form.part == "encoder"
    dims = spec.dims
    out = options.out or inside(directory, f"hailo/{options.arch}")
    script = None if options.script is None else str(options.script.resolve())
    if options.script is not None and not options.script.is_file():
        raise ModelError(
            f"{shown(options.script)} is no file; give a model script (.alls) to --script"
        )
    job = BuildJob(
        arch=options.arch,
        part=form.part,
        size=size_of(dims.d_model, multilingual=spec.multilingual),
        net_name=net_name(spec, form),
        graph=str(graph.resolve()),
        start_nodes=list(form.start_nodes),
        end_nodes=list(form.end_nodes),
        chip_inputs=[list(shape) for shape in form.chip_inputs],
        d_model=dims.d_model,
        n_layers=dims.n_encoder_layers if is_encoder else dims.n_decoder_layers,
        calibration=str(options.calibration.resolve()),
        script=script,
        optimization_level=options.optimization_level,
        out=str(out.resolve()),
        stem=net_name(spec, form),
    )
    with _one_line_each():
        load_calibration(job)
    return job


def record_hef(directory: Path, path: Path, facts: dict[str, Any]) -> Hef:
    """List the HEF in `model.json`, in the place of an earlier one.

    Args:
        directory: the model directory.
        path: the HEF; one outside the directory is described, not listed.
        facts: the record that the build made.

    Raises:
        ModelError: the directory has become unreadable.
        OutputError: it cannot be written.
    """
    is_inside = path.is_relative_to(directory.resolve())
    file = path.relative_to(directory.resolve()).as_posix() if is_inside else path.name
    try:
        record = decode(HefRecord, facts | {"file": file})
    except MismatchError as error:
        raise ModelError(f"the record of {shown(path)}: {error}; build it again") from error
    if not is_inside:
        return Hef(path, record, recorded=False)
    with _one_line_each(), _alone(directory):
        spec = ModelSpec.load(directory)  # again: the other part may have been compiled meanwhile
        others = (hef for hef in spec.hefs if hef.file != file)
        hefs = tuple(sorted((*others, record), key=lambda hef: hef.file))
        write_file(directory / SPEC_FILE, replace(spec, hefs=hefs).to_json())
    return Hef(path, record, recorded=True)


@contextmanager
def _one_line_each() -> Iterator[None]:
    """The build's errors as the program's."""
    try:
        yield
    except BuildError as error:
        raise as_program_error(error) from error


def as_program_error(error: BuildError) -> WhisperHailoError:
    """The program's error of a build's, by its exit code."""
    return _ERRORS.get(error.code, ModelError)(str(error))


def _alone(folder: Path) -> AbstractContextManager[None]:
    """One build or one change at a time in a folder.

    Raises:
        OutputError: the folder cannot be made or locked.
    """
    advice = "give a writable place to --out"
    with unwritable(folder, advice):
        folder.mkdir(parents=True, exist_ok=True)
    return alone_with(folder, advice)
