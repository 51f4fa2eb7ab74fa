"""From a `--model` name to a model directory: converted once, kept in the user's cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from whisper_hailo.backends.model_files import check_all
from whisper_hailo.checkpoint.hub import CheckpointName, is_model_directory, locate, parse_name
from whisper_hailo.convert.options import AUTO_QUANTIZE, ConvertOptions
from whisper_hailo.core.errors import ModelError, OptionError, OutputError
from whisper_hailo.core.files import (
    ANOTHER_CACHE,
    alone_with,
    cache_root,
    replace_file,
)
from whisper_hailo.core.names import shown
from whisper_hailo.core.spec import SPEC_FILE, SPEC_VERSION, ModelSpec
from whisper_hailo.core.version import __version__

logger = logging.getLogger(__name__)

_REVISION = 5
"""Of what conversions write. Raised when the same checkpoint and options give other values in the
same format: directories from before still run, those in the cache are made anew."""


def resolve_model(
    name: str, options: ConvertOptions | None = None, *, revision: str | None = None
) -> Path:
    """Find or make the model directory that a `--model` argument names.

    A model directory is used as it is. A checkpoint, bundled, local or from the hub, is converted
    into the cache the first time; a converted hub model never touches the network again.

    Args:
        name: `micro`, a short name, a directory, or a hub id.
        options: how to convert a checkpoint.
        revision: hub commit, tag or branch.

    Raises:
        ModelError, TokenizerError: no such model, or it is broken.
        HubError: the hub cannot be reached.
        OptionError: a form was asked for that a model directory does not have.
        OutputError: the cache cannot be written.
    """
    parsed = parse_name(name)
    if parsed.path is not None and is_model_directory(parsed.path):
        if options is not None and options.asks_form:
            expect_form(parsed.path, ModelSpec.load(parsed.path), options)
        return parsed.path
    options = (options or ConvertOptions()).resolved()
    target = models_folder() / _folder(parsed, options, revision)
    stamp = _stamp(parsed, options)
    if _why_not(target, stamp) is None:
        return target
    with alone_with(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
        why_not = _why_not(target, stamp)
        if why_not is not None:  # another process may have made it meanwhile
            if why_not:
                logger.warning("converting again: %s", why_not)
            _convert_into(target, parsed, options, revision, stamp)
    return target


def expect_form(directory: Path, spec: ModelSpec, options: ConvertOptions) -> None:
    """Refuse to take a directory that is ready for one that is to be made.

    Args:
        directory: as it is.
        spec: its description.
        options: what was asked for; `auto` takes any form.

    Raises:
        OptionError: the directory has another form.
    """
    for name, has, asked in (
        ("--quantize", spec.quantization, options.quantize),
        ("--encoder-quantize", spec.encoder_quantization, options.encoder_quantize),
    ):
        if asked not in (AUTO_QUANTIZE, has):
            raise OptionError(
                f"{name} is {asked}, {shown(directory)} is a model directory and has {has}; leave "
                f"it out, or convert the checkpoint with {name} {asked}"
            )


def models_folder() -> Path:
    """Where converted models are kept."""
    return cache_root() / "models"


def _convert_into(
    target: Path,
    parsed: CheckpointName,
    options: ConvertOptions,
    revision: str | None,
    stamp: bytes,
) -> None:
    checkpoint, source = locate(parsed, revision)
    from whisper_hailo.convert.convert import (
        convert_checkpoint,
    )  # imports onnx: slow, rarely needed

    logger.info("converting %s once into %s", source.name, target)
    try:
        shutil.rmtree(target, ignore_errors=True)  # out of date, or damaged
        convert_checkpoint(checkpoint, target, options, source=source)
        replace_file(stamp_file(target), stamp + _own_line(ModelSpec.load(target)))
    except OSError as error:
        raise _unwritable(error) from error


def _folder(parsed: CheckpointName, options: ConvertOptions, revision: str | None) -> str:
    """Folder name of one conversion: readable, short, and one per origin and options."""
    origin = parsed.hub_id if parsed.path is None else os.path.realpath(parsed.path)
    options = replace(options, half=options.in_half)  # a folder may come to another processor
    key = hashlib.sha256(os.fsencode(f"{origin}\n{revision}\n{options}")).hexdigest()[:12]
    label = re.sub(r"[^\w.-]", "_", parsed.label, flags=re.ASCII)[:40]
    return f"{label}-{options.quantize}-{key}"


def _stamp(parsed: CheckpointName, options: ConvertOptions) -> bytes:
    """What must be unchanged for a cached conversion to be used: program and checkpoint files."""
    lines = [f"whisper-hailo {__version__} format {SPEC_VERSION} revision {_REVISION}"]
    files = [] if parsed.path is None else sorted(parsed.path.glob("*"))
    if options.tokenizer is not None:
        files.append(options.tokenizer)
    for file in files:
        if file.exists():  # not so for links into a store that was tidied up
            status = file.stat()
            lines.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    return os.fsencode("\n".join(lines) + "\n")


def _own_line(spec: ModelSpec) -> bytes:
    """The last line of a stamp: a hash of the description, but for the HEFs that come later."""
    text = replace(spec, hefs=()).to_json()
    return f"{SPEC_FILE} {hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def stamp_file(target: Path) -> Path:
    """What says whether a conversion can be used."""
    return target.with_name(target.name + ".stamp")


def _why_not(target: Path, stamp: bytes) -> str | None:
    """Why a conversion cannot be used; `None` if it can be, nothing if it is not there or old."""
    try:
        found = stamp_file(target).read_bytes()
    except OSError:
        return ""
    if found == stamp or not found.startswith(stamp):
        return ""
    try:
        spec = ModelSpec.load(target)
        check_all(target, spec)
    except ModelError as error:
        return str(error).rsplit(";", maxsplit=1)[0]  # what to do is done
    if found != stamp + _own_line(spec):
        return f"{target / SPEC_FILE} is damaged: it is not what was written"
    return None


def _unwritable(error: OSError) -> OutputError:
    return OutputError(
        f"cannot write the model cache at {cache_root()} ({error.strerror}); {ANOTHER_CACHE}"
    )
