"""Checkpoint directory in, model directory out: complete, or not there at all."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from whisper_hailo.convert.alignment import alignment_heads
from whisper_hailo.convert.checkpoint import INDEX_FILE, Checkpoint
from whisper_hailo.convert.cross_kv import cross_kv_graph
from whisper_hailo.convert.decoder import decoder_graph
from whisper_hailo.convert.encoder import encoder_graph
from whisper_hailo.convert.hailo.sizes import FixedSizes, fixed_sizes
from whisper_hailo.convert.hailo.write import write_hailo_forms
from whisper_hailo.convert.onnx_file import write_graph
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.convert.tokens import read_special_tokens, write_tokenizer
from whisper_hailo.core.errors import ModelError, OutputError
from whisper_hailo.core.spec import (
    CROSS_KV_FILE,
    DECODER_FILE,
    ENCODER_FILE,
    SPEC_FILE,
    FileRecord,
    ModelSpec,
    Source,
)
from whisper_hailo.tokenizer import TOKENIZER_FILE

logger = logging.getLogger(__name__)

BITS = {"none": None, "int8": 8, "int4": 4}
CONFIG_FILES = ("config.json", "generation_config.json", INDEX_FILE)


def convert_checkpoint(
    checkpoint: Path, out: Path, options: ConvertOptions, *, source: Source | None = None
) -> ModelSpec:
    """Convert a Hugging Face Whisper checkpoint to a model directory.

    Everything is written to a directory beside `out` that takes its place when complete, so an
    interrupted run leaves nothing half-written.

    Args:
        checkpoint: directory with `config.json` and safetensors files.
        out: directory to make; one that an earlier conversion made is replaced.
        options: quantisation, tokenizer, and whether to write the Hailo forms too.
        source: where the checkpoint came from; `None` names its directory.

    Returns:
        what was written to `out/model.json`.

    Raises:
        ModelError: the checkpoint is none, broken, or of a kind that is not supported.
        TokenizerError: its tokenizer files are broken.
        OptionError: the Hailo forms cannot have the sizes asked for.
        OutputError: `out` cannot be written or holds something else.
    """
    opened = Checkpoint(checkpoint)
    dims = opened.config.dims
    sizes = None if options.hailo is None else fixed_sizes(options.hailo, dims)
    origin = source or Source(name=checkpoint.resolve().name)
    _check_free(out)
    with _written_at_once(out) as work:
        spec = _write_all(opened, work, options, origin)
        if sizes is not None:
            spec = _add_hailo_forms(opened, work, spec, sizes)
        (work / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
        return spec


def _write_all(
    checkpoint: Checkpoint, work: Path, options: ConvertOptions, source: Source
) -> ModelSpec:
    """Write all files of a model directory but its description into `work`."""
    tokenizer = work / TOKENIZER_FILE
    has_tokenizer = write_tokenizer(checkpoint.directory, options.tokenizer, tokenizer)
    if not has_tokenizer:
        logger.warning(
            "%s has no tokenizer files; the model converts, but cannot turn tokens into text: "
            "give one with --tokenizer tokenizer.json",
            checkpoint.directory,
        )
    spec = ModelSpec(
        name=source.name.split("/")[-1].removeprefix("whisper-"),
        dims=checkpoint.config.dims,
        tokens=read_special_tokens(checkpoint.directory, tokenizer if has_tokenizer else None),
        quantization=options.quantize,
        encoder_quantization="int8" if options.encoder_int8 else "none",
        alignment_heads=alignment_heads(checkpoint.generation_config(), checkpoint.config.dims),
        source=replace(source, sha256=_source_hashes(checkpoint)),
    )
    files = _write_graphs(checkpoint, work, spec)
    if has_tokenizer:
        files[TOKENIZER_FILE] = _record(tokenizer)
    return replace(spec, files=files)


def _add_hailo_forms(
    checkpoint: Checkpoint, work: Path, spec: ModelSpec, sizes: FixedSizes
) -> ModelSpec:
    forms, files = write_hailo_forms(checkpoint, work, spec.name, sizes)
    return replace(spec, hailo=forms, files=spec.files | files)


def _write_graphs(checkpoint: Checkpoint, work: Path, spec: ModelSpec) -> dict[str, FileRecord]:
    bits = BITS[spec.quantization]
    encoder_bits = BITS[spec.encoder_quantization]
    files = write_graph(encoder_graph(checkpoint, encoder_bits), work / ENCODER_FILE)
    # Cross keys and values stay at 8 bits: 4 would save a hundredth and is heard in every step.
    cross_bits = None if bits is None else 8
    files |= write_graph(cross_kv_graph(checkpoint, cross_bits), work / CROSS_KV_FILE)
    decoder = decoder_graph(checkpoint, spec.alignment_heads, bits)
    return files | write_graph(decoder, work / DECODER_FILE, external=True)


def _source_hashes(checkpoint: Checkpoint) -> dict[str, str]:
    """SHA-256 of every checkpoint file that the model is made of."""
    configs = (checkpoint.directory / name for name in CONFIG_FILES)
    paths = [path for path in configs if path.is_file()]
    return {path.name: _record(path).sha256 for path in (*paths, *checkpoint.files)}


def _record(path: Path) -> FileRecord:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(bytes=path.stat().st_size, sha256=digest)
    except OSError as error:
        raise ModelError(f"cannot read {path} ({error.strerror or error})") from error


def _check_free(out: Path) -> None:
    """Refuse to replace anything but an empty directory or an earlier conversion."""
    if not out.exists():
        return
    if not out.is_dir():
        raise OutputError(f"{out} is a file; give a directory to be made")
    if any(out.iterdir()) and not _is_conversion(out):
        raise OutputError(
            f"{out} is not empty and no model directory; give a new directory or empty it first"
        )


def _is_conversion(directory: Path) -> bool:
    try:
        raw = json.loads((directory / SPEC_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(raw, dict) and {"version", "dims", "files"} <= raw.keys()


@contextmanager
def _written_at_once(out: Path) -> Iterator[Path]:
    """A directory beside `out` that takes its place at the end, or vanishes."""
    work: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        work.chmod(0o777 & ~_umask())
        yield work
        _replace(work, out)
    except OSError as error:
        raise OutputError(
            f"cannot write {out} ({error.strerror or error}); no half-written output is left; "
            "give a writable place with enough free space"
        ) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _replace(work: Path, out: Path) -> None:
    """Move `work` to `out`; a rename cannot replace a directory that holds files."""
    if out.exists() and any(out.iterdir()):
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
        out.rename(old)
        work.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        work.rename(out)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
