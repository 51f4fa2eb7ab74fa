"""Windows of speech: the recordings that they are drawn from, and the rows made of them."""

from __future__ import annotations

import hashlib
import logging
import math
import random
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from whisper_hailo.audio import AUDIO_SUFFIXES, open_audio
from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import AudioError, ModelError, display_path
from whisper_hailo.core.files import list_files
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
        n_speakers: speakers that the layout tells apart.
        listing_sha256: hash of every path, size and time: changes when the folder does.
    """

    folder: Path
    files: tuple[str, ...]
    n_speakers: int
    listing_sha256: str


def find_sources(folder: Path, seed: int) -> Sources:
    """List the recordings below a folder.

    A speaker is the number that LibriSpeech's file names begin with, or else the folder that a
    file lies in.
    """
    if not folder.is_dir():
        raise AudioError(
            f"{display_path(folder)} is no folder; give one with recordings of speech to --audio"
        )
    listing = hashlib.sha256()
    speakers: dict[str, list[str]] = {}
    for path in _audio_files(folder):
        name = path.relative_to(folder).as_posix()
        status = path.stat()
        line = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
        listing.update(line.encode(errors="surrogateescape"))
        speakers.setdefault(_speaker(path, folder), []).append(name)
    if not speakers:
        raise AudioError(
            f"{display_path(folder)} holds no file that looks like audio "
            f"({' '.join(AUDIO_SUFFIXES)}); give a folder with recordings of speech"
        )
    return Sources(folder, _turns(speakers, seed), len(speakers), listing.hexdigest())


def window_order(name: str, n_windows: int, seed: int) -> list[int]:
    """In which order the windows of one file are drawn: shuffled by the seed and the name."""
    order = list(range(n_windows))
    random.Random(f"{seed}:{name}").shuffle(order)  # noqa: S311 - a sample, no secret
    return order


def _audio_files(folder: Path) -> Iterator[Path]:
    def tell(path: Path, why: str) -> None:
        logger.warning("%s cannot be looked into (%s); what is in it is left out", path, why)

    for path in list_files(folder, tell):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in AUDIO_SUFFIXES and path.is_file() and not hidden:
            yield path


def _speaker(path: Path, folder: Path) -> str:
    if match := _LIBRISPEECH.match(path.stem):
        return f"librispeech {match.group(1)}"
    return path.parent.relative_to(folder).as_posix()


def _turns(speakers: dict[str, list[str]], seed: int) -> tuple[str, ...]:
    """Return one file of each speaker, then the next of each, and so on."""
    rng = random.Random(seed)  # noqa: S311 - a sample, no secret
    names = sorted(speakers)
    rng.shuffle(names)
    queues = [rng.sample(speakers[name], len(speakers[name])) for name in names]
    turns = zip_longest(*queues)
    return tuple(name for turn in turns for name in turn if name is not None)


MIN_SPEECH_S: Final = 0.5
"""A recording's last window may be shorter than the others, but not by so much."""

SILENCE: Final = 1e-3
"""Windows whose loudest sample lies below it (-60 dB) teach the statistics nothing."""


def quota_per_turn(n_windows: int, n_files: int) -> int:
    """Return windows of a file per turn: one turn is enough if files are long."""
    return max(1, math.ceil(n_windows / n_files))


def draw(
    path: Path, name: str, plan: WindowPlan, seed: int, turn: tuple[int, int]
) -> Iterator[tuple[int, FloatArray]]:
    """Yield the windows that one file gives in one turn.

    `name` is the recording's path in the folder, which its own shuffling depends on; `turn` is the
    number of the turn and the windows per turn.

    Yields:
        number of the window in the file and its `(n_samples,)` float32 audio, in their order.
    """
    number, quota = turn
    with open_audio(path) as stream:
        n_windows = _count(stream.duration_s, plan)
        wanted: set[int] | None = None
        if n_windows is not None:
            order = window_order(name, n_windows, seed)
            wanted = set(order[number * quota : (number + 1) * quota])
            if not wanted:
                return
        last = (number + 1) * quota - 1 if wanted is None else max(wanted)
        for index, audio in enumerate(stream.blocks(plan.content_samples)):
            is_drawn = index >= number * quota if wanted is None else index in wanted
            if is_drawn and is_usable(audio):
                yield index, audio
            if index >= last:
                return


def _count(duration_s: float | None, plan: WindowPlan) -> int | None:
    """Return windows of a recording, `None` where its header does not say how long it is."""
    if duration_s is None:
        return None
    return max(1, math.ceil(duration_s * SAMPLE_RATE_HZ / plan.content_samples))


def is_usable(audio: FloatArray) -> bool:
    """Return whether audio is long and loud enough to calibrate with."""
    long_enough = audio.size >= MIN_SPEECH_S * SAMPLE_RATE_HZ
    return long_enough and bool(np.max(np.abs(audio)) >= SILENCE)


class RowMaker(Protocol):
    """Turns the audio of a window into one row per input of the chip."""

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """Return a row `(height, width, channels)` per input, of `(n_samples,)` float32 audio."""


def net_name(spec: ModelSpec, form: HailoForm) -> str:
    """Return name of the network in the compiler: letters, digits and underscores."""
    return re.sub(r"\W", "_", f"{spec.name}_{Path(form.file).stem}", flags=re.ASCII)


class EncoderRows:
    """Log-mel of the window, `(1, n_frames, n_mels)`."""

    def __init__(self, spec: ModelSpec, plan: WindowPlan) -> None:
        self._spec = spec
        self._plan = plan

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """Return the window's log-mel, its margin silent."""
        return (np.ascontiguousarray(self.mel(audio).T)[np.newaxis],)

    def mel(self, audio: FloatArray) -> FloatArray:
        """`(n_mels, n_frames)` of the whole window."""
        padded = pad_or_trim(audio, self._plan.window_samples)
        return log_mel(padded, self._spec.dims.n_mels)


class DecoderRows:
    """Audio features `(1, n_positions, d_model)` and embeddings `(length, 1, d_model)`.

    The tokens are those that our own decoder hears in the window; ids after them are 0, and
    position rows are added, as the host of a HEF does it.

    Args:
        form: the decoder's Hailo form.
        language: what is spoken, or translated from.
        stack: closes the model at the end.
    """

    def __init__(
        self,
        directory: Path,
        spec: ModelSpec,
        form: HailoForm,
        plan: WindowPlan,
        *,
        language: str,
        stack: ExitStack,
    ) -> None:
        options = DecodingOptions(language=language)
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        self._prefix = tokenizer.prefix(language, options.task)
        self._table = _asset(directory / form.assets["token_embedding"])
        self._positions = _asset(directory / form.assets["position_rows"])
        self._length = self._positions.shape[0]
        self._mel = EncoderRows(spec, plan)
        self._encoder = stack.enter_context(OnnxEncoder(directory, spec))
        self._decoder = stack.enter_context(CachedDecoder(directory, spec))
        self._padding = options.anti_repetition.padding(spec.dims, self._decoder.silence_keys)
        self._loop = DecodingLoop(self._decoder, spec.tokens, options)
        self._eot = spec.tokens.eot

    def rows(self, audio: FloatArray) -> tuple[FloatArray, ...]:
        """Return the window's features, and what the chip's decoder gets at its last step."""
        features = self._encoder.encode(self._mel.mel(audio)[np.newaxis])
        state = self._decoder.start(features, (self._padding,))
        decoded = self._loop.run(state, [DecodingTask(self._prefix)])[0]
        heard = (*self._prefix, *decoded.tokens, self._eot)[: self._length]
        ids = np.zeros(self._length, dtype=np.int64)
        ids[: len(heard)] = heard
        embeddings = self._table[ids] + self._positions
        return features, embeddings[:, np.newaxis]


def _asset(path: Path) -> FloatArray:
    """Return an array of the host, mapped from its file."""
    try:
        array: FloatArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{display_path(path)} cannot be read ({error}); convert the checkpoint again with "
            "--hailo"
        ) from error
    return array


_EPOCH = (1980, 1, 1, 0, 0, 0)
_ZIP64_BYTES = 1 << 31


def add_file(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Copy a file into an archive, a block at a time."""
    large = path.stat().st_size >= _ZIP64_BYTES
    with path.open("rb") as source, archive.open(_info(name), "w", force_zip64=large) as target:
        shutil.copyfileobj(source, target, 1 << 20)


def add_text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    """Write a text into an archive."""
    archive.writestr(_info(name), text.encode())


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=_EPOCH)
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info
