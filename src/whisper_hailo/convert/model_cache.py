"""Model directories for `--model` names: converted once, and kept in the user's cache."""

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
from whisper_hailo.checkpoint.hub import (
    SHORT_NAMES,
    CheckpointName,
    is_model_directory,
    locate_checkpoint,
    parse_name,
)
from whisper_hailo.checkpoint.package_registry import PACKAGED, checkpoint_folder
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
"""Revision of the values that conversions write. Raised when the same checkpoint and options give
other values in the same format: earlier directories still run, those in the cache are converted
again."""


def resolve_model(
    name: str, options: ConvertOptions | None = None, *, revision: str | None = None
) -> Path:
    """Find or make the model directory that a `--model` argument names.

    A model directory is used as it is. A checkpoint, bundled, local or from the hub, where
    `revision` is a commit, tag or branch, is converted into the cache the first time; a converted
    hub model never touches the network again.

    Raises:
        ModelError: no such model, or a damaged checkpoint.
        HubError: it cannot be fetched.
        OptionError: a model directory has another form than the options ask for.
        OutputError: the cache cannot be written.
    """
    parsed = parse_name(name)
    if parsed.path is not None and is_model_directory(parsed.path):
        if options and {options.quantize, options.encoder_quantize} != {AUTO_QUANTIZE}:
            expect_form(parsed.path, ModelSpec.load(parsed.path), options)
        return parsed.path
    options = (options or ConvertOptions()).resolved()
    target = models_folder() / _folder_name(parsed, options, revision)
    stamp = _make_stamp(parsed, options)
    if _find_problem(target, stamp) is None:
        return target
    with exclusive_lock(target.with_name(target.name + ".lock"), ANOTHER_CACHE):
        # Again: another process may have converted it.
        problem = _find_problem(target, stamp)
        if problem is not None:
            if problem:
                logger.warning("converting again: %s", problem)
            checkpoint, source = locate_checkpoint(parsed, revision)
            _convert_into_cache(checkpoint, source, options, target, stamp)
    return target


def _convert_into_cache(
    checkpoint: Path,
    source: ModelSource,
    options: ConvertOptions,
    target: Path,
    stamp: bytes,
) -> None:
    # Here, since it imports onnx, which is slow and rarely needed.
    from whisper_hailo.convert.convert import convert_checkpoint

    with wrap_os_error(target, ANOTHER_CACHE):
        shutil.rmtree(target, ignore_errors=True)  # out of date, or damaged
        convert_checkpoint(checkpoint, target, options, source=source)
        # Last: without a stamp the directory does not count.
        whole_stamp = stamp + _spec_line(ModelSpec.load(target))
        write_file(stamp_file(target), whole_stamp, ANOTHER_CACHE)


def expect_form(directory: Path, spec: ModelSpec, options: ConvertOptions) -> None:
    """Refuse a directory of another form than was asked for; `auto` takes any."""
    for name, form, option in (
        ("--quantize", spec.quantization, options.quantize),
        ("--encoder-quantize", spec.encoder_quantization, options.encoder_quantize),
    ):
        if option not in (AUTO_QUANTIZE, form):
            raise OptionError(
                f"{name} is {option}, {display_path(directory)} is a model directory and has "
                f"{form}; leave it out, or convert the checkpoint with {name} {option}"
            )


def models_folder() -> Path:
    """Return the folder of converted models."""
    return cache_root() / "models"


def _folder_name(
    parsed: CheckpointName, options: ConvertOptions, revision: str | None
) -> str:
    """Return the name of one conversion: readable, short, and one per origin and options.

    The options are resolved: a folder may come to another processor.
    """
    origin = parsed.hub_id if parsed.path is None else os.path.realpath(parsed.path)
    key = hashlib.sha256(os.fsencode(f"{origin}\n{revision}\n{options}")).hexdigest()[
        :12
    ]
    label = re.sub(r"[^\w.-]", "_", parsed.label, flags=re.ASCII)[:40]
    return f"{label}-{options.quantize}-{key}"


def _make_stamp(parsed: CheckpointName, options: ConvertOptions) -> bytes:
    """Return what must be unchanged for a conversion to be used: program and checkpoint files."""
    lines = [f"whisper-hailo {__version__} format {SPEC_VERSION} revision {REVISION}"]
    files = []
    if parsed.path is not None:
        files += (
            [parsed.path] if parsed.path.is_file() else sorted(parsed.path.glob("*"))
        )
    if options.tokenizer is not None:
        files.append(options.tokenizer)
    for file in files:
        if file.exists():  # a link may lead into a store that was tidied up
            status = file.stat()
            lines.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    return os.fsencode("\n".join(lines) + "\n")


def _spec_line(spec: ModelSpec) -> bytes:
    """Return the last line of a stamp: a hash of the description without HEFs, which come later."""
    text = replace(spec, hefs=()).to_json()
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{SPEC_FILE} {digest}\n".encode()


def stamp_file(target: Path) -> Path:
    """Return the file that says whether a conversion can be used."""
    return target.with_name(target.name + ".stamp")


def _find_problem(target: Path, stamp: bytes) -> str | None:
    """Return why a conversion cannot be used, for a warning; `None` if it can be.

    It is empty if the conversion is missing or out of date, which needs no warning.
    """
    try:
        stored_stamp = stamp_file(target).read_bytes()
    except OSError:
        return ""
    if stored_stamp == stamp or not stored_stamp.startswith(stamp):
        return ""
    try:
        spec = ModelSpec.load(target)
        check_all(target, spec)
    except ModelError as error:
        problem, _, _ = str(error).rpartition(";")  # the advice is followed already
        return problem or str(error)
    if stored_stamp != stamp + _spec_line(spec):
        return f"{target / SPEC_FILE} is damaged: it is not what was written"
    return None


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A model directory in the cache, and what it holds."""

    directory: Path
    spec: ModelSpec

    @property
    def n_bytes(self) -> int:
        """Size of all its files according to `model.json`; none is looked at."""
        return sum(record.bytes for record in self.spec.files.values())

    def remove(self) -> None:
        """Remove it from the cache, with a checkpoint of the package registry that no other uses.

        Checkpoints of the hub, which other programs may use, and local ones stay where they are.
        """
        _remove_folder(self.directory)
        source = self.spec.source
        is_used = any(
            model.spec.source.name == source.name for model in cached_models()
        )
        if source.package is not None and source.name in PACKAGED and not is_used:
            _remove_folder(checkpoint_folder(source.name))


def _remove_folder(folder: Path) -> None:
    lock = folder.with_name(folder.name + ".lock")
    with (
        exclusive_lock(lock, ANOTHER_CACHE),
        wrap_os_error(folder, "check its permissions"),
    ):
        stamp_file(folder).unlink(missing_ok=True)
        if folder.is_dir():
            shutil.rmtree(folder)
    lock.unlink(missing_ok=True)


def cached_models() -> list[CachedModel]:
    """Return the models in the cache in order of their names."""
    models = []
    for path in models_folder().glob(f"*/{SPEC_FILE}"):
        directory = path.parent
        if directory.name.startswith("."):  # half-written
            continue
        with suppress(ModelError):  # of another version; it is made again on demand
            models.append(CachedModel(directory, ModelSpec.load(directory)))
    return sorted(models, key=lambda model: (model.spec.name, model.directory.name))


def cached_as(name: str) -> list[CachedModel]:
    """Return every form of a model, as `--model` or its folder in the cache names it.

    Raises:
        ModelError: there is none.
    """
    models = cached_models()
    names = {name, SHORT_NAMES.get(name, name)}
    matches = [
        model
        for model in models
        if model.directory.name == name
        or names & {model.spec.source.name, model.spec.name}
    ]
    if not matches:
        present = (
            ", ".join(dict.fromkeys(model.spec.name for model in models)) or "none"
        )
        raise ModelError(
            f"{display_path(name)} is not in the cache; there are: {present}"
        )
    return matches


def find_model(
    name: str,
    options: ConvertOptions | None = None,
    *,
    revision: str | None = None,
    tokenizer: Path | None = None,
) -> tuple[Path, ModelSpec]:
    """Return the directory that a `--model` argument names, and its description.

    See `resolve_model`. A directory with a checkpoint's configs and no weights, such as an export
    of Optimum, is also used as it is; `tokenizer` takes the place of its own.
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
    if not (path / "config.json").is_file():
        return False
    # Here, since readers of checkpoints are not needed for a model that is converted already.
    from whisper_hailo.checkpoint.ctranslate2 import is_ctranslate2

    if is_ctranslate2(path) or is_model_directory(path):
        return False
    return not any(
        (path / name).exists() for name in (SINGLE_FILE, INDEX_FILE, *PICKLES)
    )


def describe(path: Path, tokenizer: Path | None = None) -> ModelSpec:
    """Describe a model by `config.json` and, if it is there, `generation_config.json`.

    `tokenizer` takes the place of the directory's own.
    """
    from whisper_hailo.checkpoint.tokens import read_special_tokens

    name = path.resolve().name
    dims = read_config(path).dims
    generation_path = path / "generation_config.json"
    generation = read_json_object(generation_path) if generation_path.is_file() else {}
    tokenizer_path = path / TOKENIZER_FILE
    if tokenizer is None and tokenizer_path.is_file():
        tokenizer = tokenizer_path
    return ModelSpec(
        name=name,
        dims=dims,
        tokens=read_special_tokens(path, tokenizer),
        quantization="none",
        encoder_quantization="none",
        alignment_heads=alignment_heads(generation, dims),
        source=ModelSource(name=name),
    )
