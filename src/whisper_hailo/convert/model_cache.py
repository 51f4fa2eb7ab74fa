"""From a `--model` name to a model directory: converted once, kept in the user's cache."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

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
from whisper_hailo.core.errors import ModelError, OptionError, OutputError, display_path
from whisper_hailo.core.files import (
    ANOTHER_CACHE,
    cache_root,
    exclusive_lock,
    replace_file,
    sha256,
    wrap_os_error,
)
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

    A model directory is used as it is. A checkpoint, bundled, local or from the hub, is converted
    into the cache the first time; a converted hub model never touches the network again.

    Args:
        name: `micro`, a short name, a directory, or a hub id.
        options: how to convert a checkpoint.
        revision: hub commit, tag or branch.
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
    with exclusive_lock(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
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
                f"{name} is {asked}, {display_path(directory)} is a model directory and has {has}; "
                f"leave it out, or convert the checkpoint with {name} {asked}"
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
    checkpoint, source = locate_checkpoint(parsed, revision)
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


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A conversion in the cache.

    Attributes:
        directory: the model directory.
        spec: what it holds.
    """

    directory: Path
    spec: ModelSpec

    @property
    def n_bytes(self) -> int:
        """Of all its files, as `model.json` says: none is looked at."""
        return sum(record.bytes for record in self.spec.files.values())

    def faults(self) -> list[str]:
        """What is wrong with its files, each read from its first byte to its last."""
        found = []
        for name, record in self.spec.files.items():
            path = self.directory / name
            if not path.is_file():
                found.append(f"{name} is missing")
            elif path.stat().st_size != record.bytes or sha256(path) != record.sha256:
                found.append(f"{name} is damaged")
        return found

    def remove(self) -> None:
        """Take it out of the cache; what it was made of stays where it is."""
        lock = self.directory.with_name(self.directory.name + ".lock")
        with (
            exclusive_lock(lock, ANOTHER_CACHE),
            wrap_os_error(self.directory, "check its permissions"),
        ):
            stamp_file(self.directory).unlink(missing_ok=True)
            shutil.rmtree(self.directory)
        lock.unlink(missing_ok=True)


def cached_models() -> list[CachedModel]:
    """All that are there, in order of their names; half-written ones are none."""
    return sorted(_found(), key=lambda model: (model.spec.name, model.directory.name))


def _found() -> Iterator[CachedModel]:
    for path in models_folder().glob(f"*/{SPEC_FILE}"):
        if path.parent.name.startswith("."):
            continue
        try:
            yield CachedModel(path.parent, ModelSpec.load(path.parent))
        except ModelError:
            continue  # of another version; it is made again on demand


def cached_as(name: str) -> list[CachedModel]:
    """Every form of a model that is there.

    Args:
        name: as `--model` takes it, or the name of a folder in the cache.

    Raises:
        ModelError: there is none.
    """
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


def remove_unused_checkpoint(source: str) -> None:
    """Remove a checkpoint of the package registry that no conversion in the cache is made of."""
    folder = checkpoint_folder(source) if source in PACKAGED else None
    is_used = any(model.spec.source.name == source for model in cached_models())
    if folder is None or is_used or not folder.is_dir():
        return
    lock = folder.with_name(folder.name + ".lock")
    with exclusive_lock(lock, ANOTHER_CACHE), wrap_os_error(folder, "check its permissions"):
        shutil.rmtree(folder)
    lock.unlink(missing_ok=True)


def hub_folder(source: str) -> Path | None:
    """Where the hub's own cache has a checkpoint, which other programs may use, too."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE, f"models--{source.replace('/', '--')}")
    return folder if "/" in source and os.path.isdir(folder) else None


CONFIG_FILE: Final = "config.json"
GENERATION_FILE: Final = "generation_config.json"


def find_model(
    name: str,
    options: ConvertOptions | None = None,
    *,
    revision: str | None = None,
    tokenizer: Path | None = None,
) -> tuple[Path, ModelSpec]:
    """The directory that a `--model` argument names, and what it holds.

    Args:
        name: see `resolve_model`; also a directory with a description and no weights, which is
            used as it is.
        options: how to convert a checkpoint.
        revision: hub commit, tag or branch.
        tokenizer: a `tokenizer.json` that names the control tokens of a described model.
    """
    path = parse_name(name).path
    if path is not None and is_described(path):
        spec = describe(path, tokenizer)
        expect_form(path, spec, options or ConvertOptions())
        return path, spec
    directory = resolve_model(name, options, revision=revision)
    return directory, ModelSpec.load(directory)


def is_described(path: Path) -> bool:
    """Whether a directory describes a checkpoint and does not hold its arrays."""
    arrays = (SINGLE_FILE, INDEX_FILE, *PICKLES)
    has_arrays = any((path / name).exists() for name in arrays)
    has_weights = has_arrays or is_ctranslate2(path) or is_model_directory(path)
    return (path / CONFIG_FILE).is_file() and not has_weights


def describe(path: Path, tokenizer: Path | None = None) -> ModelSpec:
    """The model of a description.

    Args:
        path: directory with `config.json` and, mostly, `generation_config.json`.
        tokenizer: a `tokenizer.json`; `None` is the directory's own, if it has one.
    """
    dims = read_config(path).dims
    generation = path / GENERATION_FILE
    own = path / TOKENIZER_FILE
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
