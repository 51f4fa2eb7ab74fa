"""Windows of speech: the recordings that they are drawn from, and the rows made from them."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from whisper_hailo.audio import AUDIO_SUFFIXES, open_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import AudioError, ModelError, display_path
from whisper_hailo.core.paths import is_hidden, list_files
from whisper_hailo.core.spec import HailoForm, ModelSpec
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer

logger = logging.getLogger(__name__)

_LIBRISPEECH = re.compile(r"(\d+)-\d+-\d+$")


@dataclass(frozen=True, slots=True)
class Sources:
    """The recordings of a folder.

    Attributes:
        files: paths in the folder, speakers taking turns, both shuffled by the seed.
        n_speakers: number of speakers that the folder's layout shows.
        listing_sha256: hash of every path, size and time, which changes when the folder does.
    """

    folder: Path
    files: tuple[str, ...]
    n_speakers: int
    listing_sha256: str


def find_sources(folder: Path, seed: int) -> Sources:
    """List the recordings below a folder.

    A speaker is the number that LibriSpeech's file names begin with, or else the file's folder.

    Raises:
        AudioError: no folder, or one without audio files.
    """
    if not folder.is_dir():
        raise AudioError(
            f"{display_path(folder)} is not a folder; give one with recordings of speech to --audio"
        )
    listing = hashlib.sha256()
    speakers: dict[str, list[str]] = {}
    for path in _audio_files(folder):
        name = path.relative_to(folder).as_posix()
        status = path.stat()
        line = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
        listing.update(line.encode(errors="surrogateescape"))
        speakers.setdefault(_speaker_of(name), []).append(name)
    if not speakers:
        raise AudioError(
            f"{display_path(folder)} holds no file that looks like audio "
            f"({' '.join(AUDIO_SUFFIXES)}); give a folder with recordings of speech"
        )
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    order = sorted(speakers)
    rng.shuffle(order)
    queues = [
        rng.sample(speakers[speaker], len(speakers[speaker])) for speaker in order
    ]
    files: list[str] = []
    for turn in zip_longest(*queues):
        files += [name for name in turn if name is not None]
    return Sources(folder, tuple(files), len(speakers), listing.hexdigest())


def _speaker_of(name: str) -> str:
    folder, _, file = name.rpartition("/")
    match = _LIBRISPEECH.match(Path(file).stem)
    return folder if match is None else f"librispeech {match[1]}"


def _audio_files(folder: Path) -> Iterator[Path]:
    def warn(path: Path, reason: str) -> None:
        logger.warning("%s cannot be read (%s); skipping its contents", path, reason)

    for path in list_files(folder, warn):
        is_audio = path.suffix.lower() in AUDIO_SUFFIXES and path.is_file()
        if is_audio and not is_hidden(path, folder):
            yield path


def no_speech_error(sources: Sources, first_problem: str = "") -> AudioError:
    """Return the error of recordings that give no window."""
    reason = f" ({first_problem})" if first_problem else ""
    return AudioError(
        f"{display_path(sources.folder)} has {len(sources.files)} audio files and no usable "
        f"speech{reason}; give recordings of half a second or more that are not silent"
    )


MIN_SPEECH_S: Final = 0.5
"""A recording's last window may be shorter than the others, but not by so much."""

SILENCE: Final = 1e-3
"""Windows whose loudest sample is below it (-60 dB) add nothing to the statistics."""


def draw(
    path: Path, name: str, plan: WindowPlan, seed: int, turn: tuple[int, int]
) -> Iterator[tuple[int, FloatArray]]:
    """Yield the windows that one file gives in one turn.

    `name` is the recording's path in the folder, by which its windows are shuffled; `turn` is the
    number of the turn and of the windows in it.

    Yields:
        number of the window in the file and its `(n_samples,)` float32 audio, in their order.
    """
    number, quota = turn
    first = number * quota
    drawn: Collection[int] = range(first, first + quota)
    with open_audio(path) as stream:
        # In order where the header does not say how long the recording is.
        if stream.duration_s is not None:
            n_samples = stream.duration_s * SAMPLE_RATE_HZ
            n_windows = max(1, math.ceil(n_samples / plan.content_samples))
            order = window_order(name, n_windows, seed)
            drawn = set(order[first : first + quota])
        if not drawn:
            return
        last = max(drawn)
        for index, audio in enumerate(stream.blocks(plan.content_samples)):
            if index in drawn and is_usable(audio):
                yield index, audio
            if index >= last:  # what follows need not be decoded
                return


def window_order(name: str, n_windows: int, seed: int) -> list[int]:
    """Return the order in which windows of a file are drawn, shuffled by the seed and the name."""
    order = list(range(n_windows))
    random.Random(f"{seed}:{name}").shuffle(order)  # noqa: S311 - a sample, no secret
    return order


def is_usable(audio: FloatArray) -> bool:
    """Return whether audio is long and loud enough to calibrate with."""
    if audio.size < MIN_SPEECH_S * SAMPLE_RATE_HZ:
        return False
    return bool(np.max(np.abs(audio)) >= SILENCE)


def net_name(spec: ModelSpec, form: HailoForm) -> str:
    """Return the network's name in the compiler: letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{spec.name}_{Path(form.file).stem}", flags=re.ASCII)


@contextmanager
def open_greedy_decoder(
    directory: Path, spec: ModelSpec, options: DecodingOptions, prefix: tuple[int, ...]
) -> Iterator[Callable[[FloatArray], tuple[FloatArray, tuple[int, ...]]]]:
    """Open a model directory's own encoder and cached decoder.

    Yields:
        function of the mel `(n_mels, n_frames)` of a window: its audio features
        `(1, n_positions, d_model)`, and its tokens: `prefix`, the text, end-of-transcript.
    """
    with (
        OnnxEncoder(directory, spec) as encoder,
        CachedDecoder(directory, spec) as decoder,
    ):
        padding = options.anti_repetition.padding(spec.dims, decoder.silence_keys)
        loop = DecodingLoop(decoder, spec.tokens, options)

        def decode(mel: FloatArray) -> tuple[FloatArray, tuple[int, ...]]:
            features = encoder.encode(mel[np.newaxis])
            state = decoder.start(features, (padding,))
            (decoded,) = loop.run(state, [DecodingTask(prefix)])
            return features, (*prefix, *decoded.tokens, spec.tokens.eot)

        yield decode


RowMaker: TypeAlias = Callable[[FloatArray], tuple[FloatArray, ...]]
"""Turns `(n_samples,)` audio of a window into a row `(height, width, channels)` per chip input."""


@contextmanager
def open_row_maker(
    directory: Path, spec: ModelSpec, form: HailoForm, plan: WindowPlan, language: str
) -> Iterator[RowMaker]:
    """Open the models that make the rows of a form.

    An encoder's row is the log-mel `(1, n_frames, n_mels)` of the window, its margin silent. A
    decoder's rows are audio features `(1, n_positions, d_model)`, and embeddings `(length, 1,
    d_model)` of the tokens that our own decoder gives: ids after them are 0, and position rows are
    added, as the host of a HEF does it.
    """

    def make_mel(audio: FloatArray) -> FloatArray:
        return log_mel(pad_or_trim(audio, plan.window_samples), spec.dims.n_mels)

    def make_encoder_row(audio: FloatArray) -> tuple[FloatArray, ...]:
        channels_last = np.ascontiguousarray(make_mel(audio).T)
        return (channels_last[np.newaxis],)

    if form.part == "encoder":
        yield make_encoder_row
        return
    options = DecodingOptions(language=language)
    tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
    prefix = tokenizer.prefix(language, options.task)
    table = _host_array(directory / form.assets["token_embedding"])
    positions = _host_array(directory / form.assets["position_rows"])
    with open_greedy_decoder(directory, spec, options, prefix) as decode:

        def make_decoder_rows(audio: FloatArray) -> tuple[FloatArray, ...]:
            features, tokens = decode(make_mel(audio))
            length = len(positions)
            ids = np.zeros(length, dtype=np.int64)
            ids[: len(tokens)] = tokens[:length]
            embeddings = table[ids] + positions
            return features, embeddings[:, np.newaxis]

        yield make_decoder_rows


def _host_array(path: Path) -> FloatArray:
    """Return an array of the host, mapped from its file."""
    try:
        array: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error}); convert the checkpoint again with "
            "--hailo"
        ) from error
    return array


def add_file(archive: zipfile.ZipFile, name: str, content: Path | str) -> None:
    """Add a file, a block at a time, or a text; the same content gives the same bytes."""
    info = zipfile.ZipInfo(name)  # dated 1980, whenever it is made
    info.external_attr = 0o644 << 16
    info.create_system = 3  # Unix, whatever packs it
    if isinstance(content, str):
        archive.writestr(info, content.encode())
        return
    info.file_size = content.stat().st_size  # large ones need ZIP64
    with content.open("rb") as source, archive.open(info, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)
