"""Inputs of every form: windows of real speech, and the tokens that the model makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whisper_hailo.audio.log_mel import log_mel, pad_or_trim
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.errors import AudioError
from whisper_hailo.core.files import sha256
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray, IntArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import TOKENIZER_FILE, Tokenizer
from whisper_hailo_tools.calibrate.windows import (
    Sources,
    draw,
    find_sources,
    no_speech_error,
    open_greedy_decoder,
)

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
        raise no_speech_error(sources)
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
    prefix: tuple[int, ...] = (spec.tokens.sot,)  # all that is forced without a tokenizer
    if TOKENIZER_FILE in spec.files:
        tokenizer = Tokenizer.load(directory / TOKENIZER_FILE, spec.tokens)
        prefix = tokenizer.prefix(options.language, options.task)[:length]
    shown = np.zeros((len(mel), length), np.int64)
    n_known = []
    with open_greedy_decoder(directory, spec, options, prefix) as decode:
        for row, window in zip(shown, mel, strict=True):
            tokens = decode(window)[1][:length]
            row[: len(tokens)] = tokens
            n_known.append(len(tokens))
    return ShownTokens(shown, len(prefix), tuple(n_known))
