"""Drafts against decoding from scratch: the same text, how many passes, how much time.

Clips of the frozen test sets are cut and edited at random (length, loudness, noise, a gap, another
clip behind) and transcribed twice: from scratch, and with a draft made from the true text by random
edits, among them another clip's text. With 8- and 4-bit weights rounding may change a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisper_hailo import ConvertOptions, Transcriber
from whisper_hailo.audio import load_audio
from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo_lab.around import EncoderAround
from whisper_hailo_lab.clip_archives import unpack_clips

QUANTIZED: Final = ("none", "int8", "int4")
PRESET_NAMES: Final = ("conservative", "balanced", "aggressive")
BUDGET: Final = 60
"""Most tokens of a buffer."""


class Remembering(EncoderAround):
    """An encoder that is not asked twice for the same window."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        self._mel: FloatArray | None = None
        self._features: FloatArray | None = None

    def encode(self, mel: FloatArray) -> FloatArray:
        """Features of the last window again, or of another one."""
        if self._features is None or self._mel is None or not np.array_equal(mel, self._mel):
            self._mel, self._features = mel.copy(), self._encoder.encode(mel)
        return self._features


@contextmanager
def transcribers(model: str) -> Iterator[dict[str, Transcriber]]:
    """Decoders of all three kinds of weights behind one encoder, open."""
    found: dict[str, Transcriber] = {}
    encoder: Remembering | None = None
    with ExitStack() as stack:
        for quantize in QUANTIZED:
            convert = ConvertOptions(quantize, "none")
            own = Transcriber.from_model(model, convert=convert, threads=1)
            if encoder is None:
                encoder = Remembering(stack.enter_context(own.encoder))
            found[quantize] = stack.enter_context(replace(own, encoder=encoder))
        yield found


def edited_audio(clips: list[Path], rng: np.random.Generator) -> FloatArray:
    """A random buffer of up to 9 s."""
    audio = load_audio(clips[rng.integers(len(clips))])
    audio = audio[: rng.integers(1600, max(1601, audio.size))] * np.float32(rng.uniform(0.2, 1.5))
    kind = rng.integers(4)
    if kind == 1:
        audio = audio + rng.normal(0, rng.uniform(0.001, 0.05), audio.size).astype(np.float32)
    elif kind == 2:
        begin = int(rng.integers(audio.size))
        audio[begin : begin + int(rng.integers(8000))] = 0
    elif kind == 3:
        audio = np.concatenate([audio, load_audio(clips[rng.integers(len(clips))])])
    return audio[: 9 * SAMPLE_RATE_HZ]


def edited_tokens(
    tokens: tuple[int, ...], other: tuple[int, ...], rng: np.random.Generator
) -> tuple[int, ...]:
    """A draft made from the truth: changed, shortened, lengthened, or of something else."""
    draft = list(tokens)
    for _ in range(rng.integers(4)):
        at = int(rng.integers(len(draft) + 1))
        kind = rng.integers(5)
        word = int(rng.choice(other)) if other else 0
        if kind == 0:
            draft[at:at] = [word]
        elif kind == 1:
            del draft[at:]
        elif kind == 2:
            del draft[at : at + int(rng.integers(1, 4))]
        elif kind == 3:
            draft[at : at + 1] = [word]
        else:
            draft[at:] = other
    return tuple(draft)


def counted(
    transcriber: Transcriber,
    audio: FloatArray,
    options: DecodingOptions,
    other: tuple[int, ...],
    rng: np.random.Generator,
) -> tuple[Counter[str], tuple[int, ...]]:
    """One buffer both ways: what to count, and its text."""
    plain = transcriber.transcribe_running(PartialBuffer(audio), options)
    draft = Draft(edited_tokens(plain.tokens, other, rng))
    drafted = transcriber.transcribe_running(PartialBuffer(audio, draft), options)
    counts = Counter({"same" if drafted.tokens == plain.tokens else "other": 1})
    counts["passes from scratch"], counts["passes with drafts"] = plain.passes, drafted.passes
    return counts, plain.tokens


def same_texts(model: str, n_buffers: int, seed: int = 0) -> dict[str, Any]:
    """So many edited buffers for each kind of weights.

    Args:
        model: checkpoint.
        n_buffers: each with one draft.
        seed: of all edits.
    """
    rng = np.random.default_rng(seed)
    clips = sorted(unpack_clips().rglob("*.ogg"))
    counts: Mapping[str, Counter[str]] = {quantize: Counter() for quantize in QUANTIZED}
    texts: dict[str, tuple[int, ...]] = dict.fromkeys(QUANTIZED, ())
    with transcribers(model) as opened:
        for index in range(n_buffers):
            anti_repetition = PRESETS[PRESET_NAMES[index % len(PRESET_NAMES)]]
            options = DecodingOptions(
                language="en", anti_repetition=anti_repetition, max_new_tokens=BUDGET
            )
            audio = edited_audio(clips, rng)
            for quantize, transcriber in opened.items():
                found, text = counted(transcriber, audio, options, texts[quantize], rng)
                counts[quantize].update(found)
                texts[quantize] = text
    rows = {"none": "FP32", "int8": "INT8", "int4": "INT4"}
    return {
        "buffers": n_buffers,
        "rows": {rows[quantize]: dict(counts[quantize]) for quantize in QUANTIZED},
    }
