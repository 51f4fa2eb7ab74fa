"""Each setting on each recording: tokens, time, repetitions, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.around import EncoderAround
from whisper_hailo_lab.cures.grid import CureSetting, first_difference
from whisper_hailo_lab.data.datasets import Sample
from whisper_hailo_lab.report.canvas import bars, draw_chart
from whisper_hailo_lab.report.table import Table, number, table_of
from whisper_hailo_lab.score import evaluate

_NGRAM = 3


@dataclass(frozen=True, slots=True)
class CureRow:
    """What one setting did on all recordings.

    Attributes:
        name: of the setting.
        pad_to: padding target; `None` is the full context.
        repetition_penalty: 1 is off.
        eot_boost: 0 is off.
        no_repeat_ngram: 0 is off.
        zero_rows: padded with real zeros.
        vad: only where someone speaks.
        n_windows: segments with text, of `n_runaway` of them the budget ran out.
        tokens: generated in all.
        audio_s: seconds heard.
        encode_ms: encoder, in all.
        decode_ms: cross keys and values and decoder, in all.
        repetition_rate: share of the words' three-word runs that were there before in their text.
        wer: corpus WER in per cent after the normaliser; `None` without references.
        differs_at: id of the first recording whose text is not the baseline's.
        expected: its text by the baseline; `got`: by this setting.
    """

    name: str
    pad_to: int | None
    repetition_penalty: float
    eot_boost: float
    no_repeat_ngram: int
    zero_rows: bool
    vad: bool
    n_windows: int
    n_runaway: int
    tokens: int
    audio_s: float
    encode_ms: float
    decode_ms: float
    repetition_rate: float
    wer: float | None
    differs_at: str | None
    expected: str | None
    got: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class ZeroRows(EncoderAround):
    """An encoder whose features are followed by rows of zeros, as the study's simulation had it.

    Args:
        encoder: the real one; opened and closed by its owner.
        pad_to: positions in all; longer features stay as they are.
    """

    def __init__(self, encoder: Encoder, pad_to: int) -> None:
        super().__init__(encoder)
        self._pad_to = pad_to

    def encode(self, mel: FloatArray) -> FloatArray:
        """Features `(batch, max(n_positions, pad_to), d_model)`."""
        features = self._encoder.encode(mel)
        missing = max(0, self._pad_to - features.shape[1])
        return np.pad(features, ((0, 0), (0, missing), (0, 0)))


def compare(
    transcriber: Transcriber,
    samples: Sequence[Sample],
    settings: Sequence[CureSetting],
    options: DecodingOptions,
    *,
    step: Callable[[str], None],
) -> list[CureRow]:
    """Run every setting; the first one is what the others are compared with.

    Args:
        transcriber: open, without encoding ahead, so that times are of one thing at a time.
        samples: recordings; texts are scored where every one has a reference.
        settings: at least one.
        options: what they have in common.
        step: told the name of the setting that begins.
    """
    transcriber.transcribe(samples[0].audio, settings[0].options(options))  # warm-up
    rows: list[CureRow] = []
    baseline: list[str] = []
    for setting in settings:
        step(setting.name)
        run = _with_zeros(transcriber, setting)
        transcripts = [
            run.transcribe(sample.audio, setting.options(options), long=setting.long())
            for sample in samples
        ]
        baseline = baseline or [transcript.text for transcript in transcripts]
        rows.append(_row(setting, samples, transcripts, baseline))
    return rows


def _with_zeros(transcriber: Transcriber, setting: CureSetting) -> Transcriber:
    if not setting.zero_rows:
        return transcriber
    encoder = ZeroRows(transcriber.encoder, setting.anti_repetition.pad_to or 0)
    return replace(transcriber, encoder=encoder)


def _row(
    setting: CureSetting,
    samples: Sequence[Sample],
    transcripts: Sequence[Transcript],
    baseline: list[str],
) -> CureRow:
    texts = [transcript.text for transcript in transcripts]
    segments = [segment for transcript in transcripts for segment in transcript.segments]
    at = first_difference(baseline, texts)
    anti_repetition = setting.anti_repetition
    return CureRow(
        name=setting.name,
        pad_to=anti_repetition.pad_to,
        repetition_penalty=anti_repetition.repetition_penalty,
        eot_boost=anti_repetition.eot_boost,
        no_repeat_ngram=setting.no_repeat_ngram,
        zero_rows=setting.zero_rows,
        vad=setting.vad,
        n_windows=len(segments),
        n_runaway=sum(segment.runaway for segment in segments),
        tokens=sum(len(segment.tokens) for segment in segments),
        audio_s=sum(transcript.duration_s for transcript in transcripts),
        encode_ms=sum(t.timings.encode_ms for t in transcripts),
        decode_ms=sum(t.timings.cross_kv_ms + t.timings.decode_ms for t in transcripts),
        repetition_rate=repetition_rate([segment.text for segment in segments]),
        wer=_wer(samples, texts),
        differs_at=None if at is None else samples[at].id,
        expected=None if at is None else baseline[at],
        got=None if at is None else texts[at],
    )


def _wer(samples: Sequence[Sample], texts: Sequence[str]) -> float | None:
    if not all(sample.reference.strip() for sample in samples):
        return None
    pairs = zip((sample.reference for sample in samples), texts, strict=True)
    return 100 * evaluate(pairs, language=samples[0].language).words.rate


def repetition_rate(texts: Sequence[str]) -> float:
    """Share in [0, 1] of the runs of three words that were there before in the same text."""
    n_all = n_repeated = 0
    for text in texts:
        words = text.casefold().split()
        runs = [tuple(words[i : i + _NGRAM]) for i in range(len(words) - _NGRAM + 1)]
        n_all += len(runs)
        n_repeated += len(runs) - len(set(runs))
    return n_repeated / n_all if n_all else 0.0


def table(rows: Sequence[CureRow]) -> Table:
    """A line per setting; times are per second of audio."""
    return table_of(
        rows,
        ("setting", lambda row: row.name),
        ("tokens", lambda row: str(row.tokens)),
        ("decode ms/s", lambda row: f"{row.decode_ms / row.audio_s:.2f}"),
        ("encode ms/s", lambda row: f"{row.encode_ms / row.audio_s:.2f}"),
        ("repeated %", lambda row: f"{100 * row.repetition_rate:.1f}"),
        ("WER %", lambda row: number(row.wer)),
        ("runaway", lambda row: f"{row.n_runaway} of {row.n_windows}"),
        ("first difference", lambda row: row.differs_at or "none"),
    )


def chart(rows: Sequence[CureRow]) -> str:
    """Bars of decoding time, repetitions and errors per setting, as SVG."""
    panels: list[tuple[str, list[float]]] = [
        ("decoding, ms per second of audio", [row.decode_ms / row.audio_s for row in rows]),
        ("repeated runs of three words, %", [100 * row.repetition_rate for row in rows]),
    ]
    rates = [row.wer for row in rows if row.wer is not None]
    if len(rates) == len(rows):
        panels.append(("word error rate, %", rates))
    else:
        panels.append(("tokens", [float(row.tokens) for row in rows]))

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        for ax, (title, values) in zip(axes, panels, strict=True):
            bars(ax, [row.name for row in rows], values, title, labelled=ax is axes[0])

    return draw_chart("cures", "The cures compared", draw, (1, len(panels)), len(rows)).svg
