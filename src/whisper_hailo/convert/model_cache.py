"""From a `--model` name to a model directory: converted once, kept in the user's cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from whisper_hailo.backends.model_files import check_all
from whisper_hailo.checkpoint.config import (
    INDEX_FILE,
    PICKLES,
    SINGLE_FILE,
    alignment_heads,
    read_config,
)
from whisper_hailo.checkpoint.ctranslate2 import is_ctranslate2
from whisper_hailo.checkpoint.hub import (
    SHORT_NAMES,
    CheckpointName,
    is_model_directory,
    locate_checkpoint,
    parse_name,
)
from whisper_hailo.checkpoint.package_registry import PACKAGED, checkpoint_folder
from whisper_hailo.checkpoint.tokens import read_special_tokens
from whisper_hailo.convert.options import AUTO_QUANTIZE, ConvertOptions
from whisper_hailo.core.atomic_files import exclusive_lock, wrap_os_error, write_file
from whisper_hailo.core.errors import ModelError, OptionError, display_path
from whisper_hailo.core.paths import ANOTHER_CACHE, cache_root
from whisper_hailo.core.spec import SPEC_FILE, SPEC_VERSION, ModelSource, ModelSpec
from whisper_hailo.core.strict_json import read_json_object
from whisper_hailo.core.version import __version__
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

logger = logging.getLogger(__name__)

REVISION = 5
"""Of what conversions write. Raised when the same checkpoint and options give other values in the
same format: directories from before still run, those in the cache are converted again."""


def resolve_model(
    name: str, options: ConvertOptions | None = None, *, revision: str | None = None
) -> Path:
    """Find or make the model directory that a `--model` argument names.

    A model directory is used as it is. A checkpoint, bundled, local or from the hub, where
    `revision` is a commit, tag or branch, is converted into the cache the first time; a converted
    hub model never touches the network again.
    """
    parsed = parse_name(name)
    if parsed.path is not None and is_model_directory(parsed.path):
        if options and {options.quantize, options.encoder_quantize} != {AUTO_QUANTIZE}:
            expect_form(parsed.path, ModelSpec.load(parsed.path), options)
        return parsed.path
    options = (options or ConvertOptions()).resolved()
    target = models_folder() / _folder_name(parsed, options, revision)
    stamp = _make_stamp(parsed, options)
    if _why_not(target, stamp) is None:
        return target
    with exclusive_lock(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
        why_not = _why_not(target, stamp)
        if why_not is not None:  # another process may have made it meanwhile
            if why_not:
                logger.warning("converting again: %s", why_not)
            checkpoint, source = locate_checkpoint(parsed, revision)
            # imports onnx: slow, rarely needed
            from whisper_hailo.convert.convert import convert_checkpoint

            logger.info("converting %s once into %s", source.name, target)
            with wrap_os_error(target, ANOTHER_CACHE):
                shutil.rmtree(target, ignore_errors=True)  # out of date, or damaged
                convert_checkpoint(checkpoint, target, options, source=source)
                own_stamp = stamp + _own_line(ModelSpec.load(target))
                write_file(stamp_file(target), own_stamp, ANOTHER_CACHE)
    return target


def expect_form(directory: Path, spec: ModelSpec, options: ConvertOptions) -> None:
    """Refuse a directory of another form than was asked for; `auto` takes any."""
    for name, has, asked in (
        ("--quantize", spec.quantization, options.quantize),
        ("--encoder-quantize", spec.encoder_quantization, options.encoder_quantize),
    ):
        if asked not in (AUTO_QUANTIZE, has):
            raise OptionError(
                f"{name} is {asked}, {display_path(directory)} is a model directory and has {has}; "
                f"leave it out, or convert the checkpoint with {name} {asked}"
            )


def models_folder() -> Path:
    """Return the folder of converted models."""
    return cache_root() / "models"


def _folder_name(parsed: CheckpointName, options: ConvertOptions, revision: str | None) -> str:
    """Return the name of one conversion: readable, short, and one per origin and options.

    The options are resolved: a folder may come to another processor.
    """
    origin = parsed.hub_id if parsed.path is None else os.path.realpath(parsed.path)
    key = hashlib.sha256(os.fsencode(f"{origin}\n{revision}\n{options}")).hexdigest()[:12]
    label = re.sub(r"[^\w.-]", "_", parsed.label, flags=re.ASCII)[:40]
    return f"{label}-{options.quantize}-{key}"


def _make_stamp(parsed: CheckpointName, options: ConvertOptions) -> bytes:
    """Return what must be unchanged for a conversion to be used: program and checkpoint files."""
    lines = [f"whisper-hailo {__version__} format {SPEC_VERSION} revision {REVISION}"]
    files = [] if parsed.path is None else sorted(parsed.path.glob("*"))
    if options.tokenizer is not None:
        files.append(options.tokenizer)
    for file in files:
        if file.exists():  # not so for links into a store that was tidied up
            status = file.stat()
            lines.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    return os.fsencode("\n".join(lines) + "\n")


def _own_line(spec: ModelSpec) -> bytes:
    """Return the last line of a stamp: a hash of the description without HEFs, which come later."""
    text = replace(spec, hefs=()).to_json()
    return f"{SPEC_FILE} {hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def stamp_file(target: Path) -> Path:
    """Return the file that says whether a conversion can be used."""
    return target.with_name(target.name + ".stamp")


def _why_not(target: Path, stamp: bytes) -> str | None:
    """Return why a conversion cannot be used: nothing if missing or old, `None` if it can be."""
    try:
        found = stamp_file(target).read_bytes()
    except OSError:
        found = b""
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


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model directory in the cache, and what it holds."""

    directory: Path
    spec: ModelSpec

    @property
    def n_bytes(self) -> int:
        """Of all its files, as `model.json` says: none is looked at."""
        return sum(record.bytes for record in self.spec.files.values())

    def remove(self) -> None:
        """Take it out of the cache, with what the package registry gave for it alone.

        Checkpoints of the hub, which other programs may use, and local ones stay where they are.
        """
        _remove_folder(self.directory)
        source = self.spec.source
        is_used = any(model.spec.source.name == source.name for model in cached_models())
        if source.package is not None and source.name in PACKAGED and not is_used:
            _remove_folder(checkpoint_folder(source.name))


def _remove_folder(folder: Path) -> None:
    lock = folder.with_name(folder.name + ".lock")
    with exclusive_lock(lock, ANOTHER_CACHE), wrap_os_error(folder, "check its permissions"):
        stamp_file(folder).unlink(missing_ok=True)
        if folder.is_dir():
            shutil.rmtree(folder)
    lock.unlink(missing_ok=True)


def cached_models() -> list[CachedModel]:
    """Return all that are there, in order of their names; half-written ones are none."""
    found = []
    for path in models_folder().glob(f"*/{SPEC_FILE}"):
        with suppress(ModelError):  # of another version; it is made again on demand
            if not path.parent.name.startswith("."):
                found.append(CachedModel(path.parent, ModelSpec.load(path.parent)))
    return sorted(found, key=lambda model: (model.spec.name, model.directory.name))


def cached_as(name: str) -> list[CachedModel]:
    """Return every form of a model, as `--model` or its folder in the cache names it."""
    sources = {name, SHORT_NAMES.get(name, name)}
    found = [
        model
        for model in cached_models()
        if model.directory.name == name or sources & {model.spec.source.name, model.spec.name}
    ]
    if not found:
        there = ", ".join(dict.fromkeys(model.spec.name for model in cached_models())) or "none"
        raise ModelError(f"{display_path(name)} is not in the cache; there are: {there}")
    return found


def find_model(
    name: str,
    options: ConvertOptions | None = None,
    *,
    revision: str | None = None,
    tokenizer: Path | None = None,
) -> tuple[Path, ModelSpec]:
    """Return the directory that a `--model` argument names, and what it holds; see `resolve_model`.

    Also used as it is: a directory with a description and no weights, such as an export of Optimum,
    whose control tokens `tokenizer` names if it is given.
    """
    path = parse_name(name).path
    if path is not None and is_described(path):
        spec = describe(path, tokenizer)
        expect_form(path, spec, options or ConvertOptions())
        return path, spec
    directory = resolve_model(name, options, revision=revision)
    return directory, ModelSpec.load(directory)


def is_described(path: Path) -> bool:
    """Return whether a directory describes a checkpoint and does not hold its arrays."""
    arrays = (SINGLE_FILE, INDEX_FILE, *PICKLES)
    has_arrays = any((path / name).exists() for name in arrays)
    has_weights = has_arrays or is_ctranslate2(path) or is_model_directory(path)
    return (path / "config.json").is_file() and not has_weights


def describe(path: Path, tokenizer: Path | None = None) -> ModelSpec:
    """Read `config.json` and, mostly, `generation_config.json` as a model.

    A tokenizer file may take the place of the directory's own.
    """
    dims = read_config(path).dims
    generation, own = path / "generation_config.json", path / TOKENIZER_FILE
    tokenizer = tokenizer or (own if own.is_file() else None)
    return ModelSpec(
        name=path.resolve().name,
        dims=dims,
        tokens=read_special_tokens(path, tokenizer),
        quantization="none",
        encoder_quantization="none",
        alignment_heads=alignment_heads(
            read_json_object(generation) if generation.is_file() else {}, dims
        ),
        source=ModelSource(name=path.resolve().name),
    )
