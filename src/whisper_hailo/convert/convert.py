"""Conversion of a checkpoint directory to a model directory, written whole or not at all."""

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
from whisper_hailo.backends.silence import (
    bundled_clips,
    measure_silence_keys,
    save_silence_keys,
)
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
"""Another one, since an encoder has many rows at once, a decoder's step one."""


def convert_checkpoint(
    checkpoint: Path,
    out: Path,
    options: ConvertOptions,
    *,
    source: ModelSource | None = None,
) -> ModelSpec:
    """Convert a checkpoint of Hugging Face or CTranslate2 to a model directory.

    Everything is written to a directory beside `out` that takes its place when complete, so an
    interrupted run leaves nothing half-written. What an earlier conversion made is replaced.
    `source` is where the checkpoint came from; `None` names its directory.

    Raises:
        ModelError: no checkpoint of Whisper, or a damaged one.
        OptionError: the options do not fit the model.
        OutputError: `out` cannot be written, or holds other files.
    """
    opened = Checkpoint(checkpoint)
    if source is None:
        source = ModelSource(name=checkpoint.resolve().name)
    sizes = None
    if options.hailo is not None:  # refused before any work
        sizes = fixed_sizes(options.hailo, opened.config.dims)
    with _written_at_once(out.resolve(), checkpoint.resolve()) as work:
        logger.info("converting %s into %s", source.name, out)
        spec = _write_all(opened, work, options, source, sizes)
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
        tokens=read_special_tokens(
            checkpoint.directory, tokenizer if has_tokenizer else None
        ),
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
        spec = replace(spec, hailo=forms)
        jobs = [*hailo_jobs, *jobs]  # the largest first
    hashes: dict[str, str] = {}

    def hash_source() -> dict[str, FileRecord]:
        hashes.update(source_hashes(checkpoint))
        return {}

    files = run_in_parallel([*jobs, hash_source])
    if has_tokenizer:
        files[TOKENIZER_FILE] = _record_file(tokenizer)
    with OnnxEncoder(work, replace(spec, files=files)) as encoder:
        save_silence_keys(measure_silence_keys(encoder), work / SILENCE_FILE)
    files[SILENCE_FILE] = _record_file(work / SILENCE_FILE)
    return replace(spec, files=files, source=replace(source, sha256=hashes))


def run_in_parallel(jobs: Sequence[Job]) -> dict[str, FileRecord]:
    """Run jobs two at a time: reading, hashing and writing all release the interpreter's lock.

    More would need more memory, and wait for the disk all the same.
    """
    records: dict[str, FileRecord] = {}
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in futures:
                records |= future.result()
        except BaseException:  # a signal, too: do not begin the others
            pool.shutdown(cancel_futures=True)
            raise
    return records


def _graph_jobs(checkpoint: Checkpoint, work: Path, spec: ModelSpec) -> list[Job]:
    """Return the jobs that write the graphs of encoder and cached decoder, the largest first."""
    decoder_arithmetic = DECODER_ARITHMETIC[spec.quantization]
    encoder_arithmetic = ENCODER_ARITHMETIC[spec.encoder_quantization]

    def write_decoder() -> dict[str, FileRecord]:
        graph = decoder_graph(checkpoint, spec.alignment_heads, decoder_arithmetic)
        return write_graph(graph, work / DECODER_FILE, external=True)

    def write_encoder() -> dict[str, FileRecord]:
        peaks = None
        if encoder_arithmetic is Arithmetic.TENSOR_8:
            peaks = measure_peaks(checkpoint, work)
        graph = encoder_graph(
            checkpoint, encoder_arithmetic, half=spec.half, peaks=peaks
        )
        return write_graph(graph, work / ENCODER_FILE)

    def write_cross_kv() -> dict[str, FileRecord]:
        arithmetic = Arithmetic.FLOAT
        # 8 bits for a decoder of 4, too: 4 would save a hundredth and harm every step.
        if decoder_arithmetic is not Arithmetic.FLOAT:
            arithmetic = Arithmetic.TENSOR_8
        graph = cross_kv_graph(checkpoint, arithmetic)
        return write_graph(graph, work / CROSS_KV_FILE)

    return [write_decoder, write_encoder, write_cross_kv]


def source_hashes(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the SHA-256 of every checkpoint file that the model is made of."""
    names = ("config.json", "generation_config.json", INDEX_FILE)
    paths = [checkpoint.directory / name for name in names]
    paths = [path for path in paths if path.is_file()]
    return {path.name: sha256(path) for path in (*paths, *checkpoint.files)}


def _record_file(path: Path) -> FileRecord:
    return FileRecord(bytes=path.stat().st_size, sha256=sha256(path))


@contextmanager
def _written_at_once(out: Path, checkpoint: Path) -> Iterator[Path]:
    """Yield a directory beside `out` that takes its place at the end, or vanishes."""
    prefix = f".{out.name[:60]}.writing."
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _exclusive_access(out, checkpoint, prefix):
            pass  # what may not be written is refused before any work
        with scratch_directory(out.parent, prefix) as work:
            work.chmod(umask_mode(0o777))
            yield work
            fsync_tree(work)
            with _exclusive_access(out, checkpoint, prefix):
                _replace_directory(work, out, scratch_path(out.parent, prefix))
    except OSError as error:
        raise OutputError(
            f"cannot write {display_path(out)} ({error.strerror or error}); no half-written output "
            "is left; give a writable place with enough free space"
        ) from error


@contextmanager
def _exclusive_access(out: Path, checkpoint: Path, prefix: str) -> Iterator[None]:
    """Lock a directory that may be written, and remove what killed conversions left beside it.

    A kill between the two renames of `_replace_directory` leaves no directory at `out`: then the
    whole one beside it is the only copy, and stays until there is another.
    """

    def is_only_copy(path: Path) -> bool:
        return not out.exists() and (path / SPEC_FILE).exists()

    with exclusive_lock(out.parent, "give an output in another folder"):
        _check_free(out, checkpoint)
        yield
        sweep(out.parent, prefix, keep=is_only_copy)


def _replace_directory(work: Path, out: Path, old: Path) -> None:
    """Move `work` to `out`, and what is there to `old`: no rename replaces a directory of files."""
    try:
        if out.exists():
            out.rename(old)
        work.rename(out)
    except BaseException:  # a signal, too: the earlier conversion comes back
        if old.exists() and not out.exists():
            old.rename(out)
        raise
    # Not by `sweep`, which skips it while the process that made it holds its lock.
    shutil.rmtree(old, ignore_errors=True)
    fsync_path(out.parent)


def _check_free(out: Path, checkpoint: Path) -> None:
    """Refuse to replace anything but an empty directory or a whole earlier conversion."""
    if out == Path.cwd():
        raise OutputError(
            f"{display_path(out)} is the current directory; give a directory in it"
        )
    if checkpoint.is_relative_to(out):
        raise OutputError(
            f"{display_path(out)} holds the checkpoint itself; give another directory"
        )
    try:
        if not out.exists():
            return
        if not out.is_dir():
            raise OutputError(
                f"{display_path(out)} is a file; give a directory to be made"
            )
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
    expected: set[str] = set()
    if isinstance(listed, dict):
        # `validate` adds a report and its picture.
        expected = {SPEC_FILE, PARITY_FILE, "parity.svg", *listed}
    unreadable: list[Path] = []
    files = list_files(directory, lambda path, _: unreadable.append(path))
    for path in (*unreadable, *files):
        name = path.relative_to(directory).as_posix()
        if name not in expected and not _EMULATED.fullmatch(name):
            return name
    return None


_EMULATED = re.compile(r"hailo/[^/]+-emulated\.(onnx|json)")
"""What `emulate` adds to a conversion."""


def measure_peaks(checkpoint: Checkpoint, work: Path) -> Peaks:
    """Run the encoder in float32; return the largest magnitudes of the values its products read.

    `work` is a folder for the graph, which is removed again.
    """
    peaks: dict[str, FloatArray] = {}
    with TemporaryDirectory(dir=work) as folder:
        graph = Path(folder, "peaks.onnx")
        write_graph(encoder_graph(checkpoint, shows_peaks=True), graph)
        session = open_graph(graph, graph.name, threads=0)
        outputs = [output.name for output in session.get_outputs()]
        names = [name for name in outputs if name.endswith(PEAK_SUFFIX)]
        dims = checkpoint.config.dims
        most_frames = round(dims.max_window_s * FRAMES_PER_SECOND)
        for clip in bundled_clips():
            mel = log_mel(clip, dims.n_mels)[np.newaxis, :, :most_frames]
            n_odd_frames = mel.shape[-1] % FRAMES_PER_POSITION
            mel = mel[..., : mel.shape[-1] - n_odd_frames]
            with running(graph.name):
                results = session.run(names, {"mel": mel})
            for name, values in zip(names, results, strict=True):
                key = name.removesuffix(PEAK_SUFFIX)
                peaks[key] = np.maximum(peaks.get(key, np.float32(0)), values)
    return peaks
