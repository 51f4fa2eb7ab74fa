"""Checkpoint directory in, model directory out: complete, or not there at all."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from whisper_hailo.audio.log_mel import log_mel
from whisper_hailo.backends.onnx import OnnxEncoder
from whisper_hailo.backends.session import open_graph, running
from whisper_hailo.backends.silence import bundled_clips, measure_silence_keys, save_silence_keys
from whisper_hailo.checkpoint.checkpoint import Checkpoint
from whisper_hailo.checkpoint.config import INDEX_FILE, alignment_heads
from whisper_hailo.checkpoint.tokens import read_special_tokens, write_tokenizer
from whisper_hailo.convert.graphs.decoder import cross_kv_graph, decoder_graph
from whisper_hailo.convert.graphs.encoder import PEAK_SUFFIX, Peaks, encoder_graph
from whisper_hailo.convert.graphs.layers import Arithmetic
from whisper_hailo.convert.graphs.onnx_graph import write_graph
from whisper_hailo.convert.hailo_forms import FixedSizes, Job, fixed_sizes, hailo_forms
from whisper_hailo.convert.options import ConvertOptions
from whisper_hailo.core.atomic_files import (
    exclusive_lock,
    fsync_path,
    fsync_tree,
    scratch_directory,
    scratch_path,
    sweep,
    umask_mode,
)
from whisper_hailo.core.errors import ModelError, OutputError, display_path
from whisper_hailo.core.paths import list_files
from whisper_hailo.core.read_files import sha256
from whisper_hailo.core.spec import (
    CROSS_KV_FILE,
    DECODER_FILE,
    ENCODER_FILE,
    PARITY_FILE,
    SILENCE_FILE,
    SPEC_FILE,
    FileRecord,
    ModelSource,
    ModelSpec,
)
from whisper_hailo.core.strict_json import read_json_object
from whisper_hailo.core.types import FRAMES_PER_POSITION, FRAMES_PER_SECOND, FloatArray
from whisper_hailo.text.tokenizer import TOKENIZER_FILE

logger = logging.getLogger(__name__)

DECODER_ARITHMETIC = {
    "none": Arithmetic.FLOAT,
    "int8": Arithmetic.BLOCKS_8,
    "int4": Arithmetic.BLOCKS_4,
}
ENCODER_ARITHMETIC = {**DECODER_ARITHMETIC, "int8": Arithmetic.TENSOR_8}
"""An encoder has many rows at once, a decoder's step has one."""


def convert_checkpoint(
    checkpoint: Path, out: Path, options: ConvertOptions, *, source: ModelSource | None = None
) -> ModelSpec:
    """Convert a checkpoint of Hugging Face or CTranslate2 to a model directory.

    Everything is written to a directory beside `out` that takes its place when complete, so an
    interrupted run leaves nothing half-written. What an earlier conversion made is replaced.
    `source` is where the checkpoint came from; `None` names its directory.
    """
    opened = Checkpoint(checkpoint)
    origin = source or ModelSource(name=checkpoint.resolve().name)
    dims = opened.config.dims
    sizes = None if options.hailo is None else fixed_sizes(options.hailo, dims)
    with _written_at_once(out.resolve(), checkpoint.resolve()) as work:
        spec = _write_all(opened, work, options, origin, sizes)
        (work / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
        return spec


def _write_all(
    checkpoint: Checkpoint,
    work: Path,
    options: ConvertOptions,
    source: ModelSource,
    sizes: FixedSizes | None,
) -> ModelSpec:
    """Write all files of a model directory but its description into `work`."""
    dims = checkpoint.config.dims
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
        dims=dims,
        tokens=read_special_tokens(checkpoint.directory, tokenizer if has_tokenizer else None),
        quantization=options.decoder_form,
        encoder_quantization=options.encoder_form,
        half=options.in_half,
        int8_safe_without_vnni=True,
        alignment_heads=alignment_heads(checkpoint.generation_config(), dims),
        source=source,
    )
    jobs = _graph_jobs(checkpoint, work, spec)
    if sizes is not None:
        forms, hailo_jobs = hailo_forms(checkpoint, work, spec.name, sizes)
        spec, jobs = replace(spec, hailo=forms), [*hailo_jobs, *jobs]
    hashes: dict[str, str] = {}

    def hash_source() -> dict[str, FileRecord]:
        hashes.update(source_hashes(checkpoint))
        return {}

    files = run_side_by_side([*jobs, hash_source])
    if has_tokenizer:
        files[TOKENIZER_FILE] = _record_file(tokenizer)
    with OnnxEncoder(work, replace(spec, files=files)) as encoder:
        save_silence_keys(measure_silence_keys(encoder), work / SILENCE_FILE)
    files[SILENCE_FILE] = _record_file(work / SILENCE_FILE)
    return replace(spec, files=files, source=replace(source, sha256=hashes))


def run_side_by_side(jobs: Sequence[Job]) -> dict[str, FileRecord]:
    """Write graphs two at a time: reading, hashing and writing all leave the interpreter free.

    More would need more memory, and wait for the disk all the same.
    """
    with ThreadPoolExecutor(max_workers=2) as pool:
        written = [pool.submit(job) for job in jobs]
        try:
            return {name: record for one in written for name, record in one.result().items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _graph_jobs(checkpoint: Checkpoint, work: Path, spec: ModelSpec) -> list[Job]:
    """Return what writes the graphs with a cache, the largest first."""
    of_decoder = DECODER_ARITHMETIC[spec.quantization]
    of_encoder = ENCODER_ARITHMETIC[spec.encoder_quantization]
    # Products for the audio stay at 8 bits: 4 would save a hundredth and is heard in every step.
    of_cross = Arithmetic.FLOAT if of_decoder is Arithmetic.FLOAT else Arithmetic.TENSOR_8

    def decoder() -> dict[str, FileRecord]:
        graph = decoder_graph(checkpoint, spec.alignment_heads, of_decoder)
        return write_graph(graph, work / DECODER_FILE, external=True)

    def encoder() -> dict[str, FileRecord]:
        peaks = measure_peaks(checkpoint, work) if of_encoder is Arithmetic.TENSOR_8 else None
        graph = encoder_graph(checkpoint, of_encoder, half=spec.half, peaks=peaks)
        return write_graph(graph, work / ENCODER_FILE)

    return [
        decoder,
        encoder,
        lambda: write_graph(cross_kv_graph(checkpoint, of_cross), work / CROSS_KV_FILE),
    ]


def source_hashes(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the SHA-256 of every checkpoint file that the model is made of."""
    names = ("config.json", "generation_config.json", INDEX_FILE)
    paths = [path for name in names if (path := checkpoint.directory / name).is_file()]
    return {path.name: _record_file(path).sha256 for path in (*paths, *checkpoint.files)}


def _record_file(path: Path) -> FileRecord:
    return FileRecord(bytes=path.stat().st_size, sha256=sha256(path))


@contextmanager
def _written_at_once(out: Path, checkpoint: Path) -> Iterator[Path]:
    """Yield a directory beside `out` that takes its place at the end, or vanishes."""
    prefix = f".{out.name[:60]}.writing."
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _alone_at(out, checkpoint, prefix):
            pass  # refused before any work
        with scratch_directory(out.parent, prefix) as work:
            work.chmod(umask_mode(0o777))
            yield work
            fsync_tree(work)
            with _alone_at(out, checkpoint, prefix):
                _replace_directory(work, out, scratch_path(out.parent, prefix))
    except OSError as error:
        raise OutputError(
            f"cannot write {display_path(out)} ({error.strerror or error}); no half-written output "
            "is left; give a writable place with enough free space"
        ) from error


@contextmanager
def _alone_at(out: Path, checkpoint: Path, prefix: str) -> Iterator[None]:
    """Hold a place that may be written, and remove what killed conversions left beside it.

    A kill between the two renames of `_replace_directory` leaves nothing in the place of a whole
    one, which stays until there is another.
    """
    with exclusive_lock(out.parent, "give an output in another folder"):
        _check_free(out, checkpoint)
        yield
        sweep(
            out.parent,
            prefix,
            keep=lambda left: not out.exists() and (left / SPEC_FILE).exists(),
        )


def _replace_directory(work: Path, out: Path, old: Path) -> None:
    """Move `work` to `out` by way of `old`; no rename replaces a directory that holds files."""
    try:
        if out.exists():
            out.rename(old)
        work.rename(out)
    except BaseException:  # a signal, too
        if old.exists() and not out.exists():
            old.rename(out)
        raise
    # by name: its maker may not have released its lock yet
    shutil.rmtree(old, ignore_errors=True)
    fsync_path(out.parent)


def _check_free(out: Path, checkpoint: Path) -> None:
    """Refuse to replace anything but an empty directory or an earlier conversion, whole."""
    if out == Path.cwd():
        raise OutputError(f"{display_path(out)} is the current directory; give a directory in it")
    if checkpoint.is_relative_to(out):
        raise OutputError(
            f"{display_path(out)} holds the checkpoint itself; give another directory"
        )
    try:
        if not out.exists():
            return
        if not out.is_dir():
            raise OutputError(f"{display_path(out)} is a file; give a directory to be made")
        foreign = _foreign_file(out)
    except OSError as error:
        raise OutputError(
            f"{display_path(out)} cannot be looked into ({error.strerror})"
        ) from error
    if foreign is not None:
        raise OutputError(
            f"{display_path(out)} holds {display_path(foreign)}, which no conversion wrote; give a "
            "new directory or empty it"
        )


def _foreign_file(directory: Path) -> str | None:
    """Return a file that is not part of an earlier conversion or made from one, if there is one."""
    try:
        listed = read_json_object(directory / SPEC_FILE).get("files")
    except ModelError:
        listed = None
    known = {SPEC_FILE, PARITY_FILE, "parity.svg", *listed} if isinstance(listed, dict) else set()
    found: list[Path] = []
    found += list_files(directory, lambda path, _: found.append(path))
    names = (path.relative_to(directory).as_posix() for path in found)
    made = re.compile(r"hailo/[^/]+-emulated\.(onnx|json)")
    return next((name for name in names if name not in known and not made.fullmatch(name)), None)


def measure_peaks(checkpoint: Checkpoint, work: Path) -> Peaks:
    """Run the encoder in float32 and note the largest magnitudes of what its products read.

    `work` is a folder for the graph, which is removed again.
    """
    peaks: dict[str, FloatArray] = {}
    with TemporaryDirectory(dir=work) as folder:
        graph = Path(folder, "peaks.onnx")
        write_graph(encoder_graph(checkpoint, shows_peaks=True), graph)
        session = open_graph(graph, graph.name, threads=0)
        names = [out.name for out in session.get_outputs() if out.name.endswith(PEAK_SUFFIX)]
        dims = checkpoint.config.dims
        longest = round(dims.max_window_s * FRAMES_PER_SECOND)
        for clip in bundled_clips():
            mel = log_mel(clip, dims.n_mels)[np.newaxis, :, :longest]
            mel = mel[..., : mel.shape[-1] // FRAMES_PER_POSITION * FRAMES_PER_POSITION]
            with running(graph.name):
                found = session.run(names, {"mel": mel})
            for name, values in zip(names, found, strict=True):
                key = name.removesuffix(PEAK_SUFFIX)
                peaks[key] = np.maximum(peaks.get(key, np.float32(0)), values)
    return peaks
