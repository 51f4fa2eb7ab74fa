"""Inputs of every form: windows of real speech, and the tokens that the model makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import AudioError, display_path
from whisper_hailo.core.files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.decoding.search.loop import DecodingLoop, DecodingTask
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_tools.calibrate.windows import Sources, draw, find_sources

SEED = 0


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of recordings.

    Attributes:
        mel: `(n_windows, n_mels, n_frames)` float32.
        used: recording and number of the window in it, for each.
    """

    mel: FloatArray
    used: tuple[tuple[str, int], ...]
    sha256: dict[str, str]

    def split(self, count: int) -> tuple[Windows, Windows]:
        """Return the first windows and the others; without others the first ones again."""
        first = replace(self, mel=self.mel[:count], used=self.used[:count])
        rest = replace(self, mel=self.mel[count:], used=self.used[count:])
        return first, rest if rest.used else first


@dataclass(frozen=True, slots=True)
class ShownTokens:
    """Tokens that the decoders are shown.

    Attributes:
        tokens: `(n_windows, length)` int64: prefix, text, end-of-transcript, zeros.
        n_prefix: forced tokens at the beginning.
        n_known: for each window, tokens before the zeros.
    """

    tokens: IntArray
    n_prefix: int
    n_known: tuple[int, ...]

    def deciding(self) -> Iterator[tuple[int, int]]:
        """Yield row and position of every place whose logits choose a token of the transcript."""
        for row, n_known in enumerate(self.n_known):
            for position in range(self.n_prefix - 1, n_known - 1):
                yield row, position


@dataclass(frozen=True, slots=True)
class ValidationInputs:
    """What every form is given.

    Attributes:
        calibration: windows that the chip's scales are chosen by: others, unless there are none.
        heard: tokens that decoders are shown, for the windows that are compared.
        decode: gives those of other windows.
    """

    windows: Windows
    calibration: Windows
    shown: ShownTokens
    decode: Callable[[FloatArray], ShownTokens]

    @property
    def mel(self) -> FloatArray:
        """`(n_windows, n_mels, n_frames)` float32 of the windows that are compared."""
        return self.windows.mel


def draw_windows(folder: Path, plan: WindowPlan, n_mels: int, count: int) -> Windows:
    """Return windows from the recordings of a folder, speakers taking turns.

    A folder that has fewer gives fewer than `count`.
    """
    sources = find_sources(folder, SEED)
    mels, used, hashes = [], [], {}
    for name, index, audio in _drawn(sources, plan):
        mels.append(log_mel(pad_or_trim(audio, plan.window_samples), n_mels))
        used.append((name, index))
        hashes[name] = sha256(folder / name)
        if len(mels) == count:
            break
    if not mels:
        raise AudioError(
            f"{display_path(folder)} has {len(sources.files)} audio files and no usable speech; "
            "give recordings of half a second or more that are not silent"
        )
    return Windows(np.stack(mels), tuple(used), hashes)


def _drawn(sources: Sources, plan: WindowPlan) -> Iterator[tuple[str, int, FloatArray]]:
    """Yield one window of every file, then a second of each, until none gives any more."""
    turn, found = 0, True
    while found:
        found = False
        for name in sources.files:
            try:
                for index, audio in draw(sources.folder / name, name, plan, SEED, (turn, 1)):
                    found = True
                    yield name, index, audio
            except AudioError:
                continue
        turn += 1


def decode_greedily(
    directory: Path, spec: ModelSpec, mel: FloatArray, length: int, language: str
) -> ShownTokens:
    """Return what the model directory's own encoder and cached decoder make of windows.

    `mel` is `(n_windows, n_mels, n_frames)` float32; a row has `length` tokens.
    """
    options = DecodingOptions(language=language)
    prefix = _prefix(directory, spec, options)[:length]
    rows = []
    with OnnxEncoder(directory, spec) as encoder, CachedDecoder(directory, spec) as decoder:
        padding = options.anti_repetition.padding(spec.dims, decoder.silence_keys)
        loop = DecodingLoop(decoder, spec.tokens, options)
        for window in mel:
            state = decoder.start(encoder.encode(window[np.newaxis]), (padding,))
            tokens = loop.run(state, [DecodingTask(prefix)])[0].tokens
            rows.append((*prefix, *tokens, spec.tokens.eot)[:length])
    shown = np.zeros((len(rows), length), np.int64)
    for index, known in enumerate(rows):
        shown[index, : len(known)] = known
    return ShownTokens(shown, len(prefix), tuple(map(len, rows)))


def _prefix(directory: Path, spec: ModelSpec, options: DecodingOptions) -> tuple[int, ...]:
    """Forced ids; a directory without a tokenizer has start-of-transcript and no more."""
    path = directory / TOKENIZER_FILE
    if TOKENIZER_FILE not in spec.files:
        return (spec.tokens.sot,)
    return Tokenizer.load(path, spec.tokens).prefix(options.language, options.task)
