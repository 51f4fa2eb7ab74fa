"""Padding and other countermeasures against repetition, one setting at a time in one process.

For each setting: tokens, times, repetitions and errors on the same recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from whisper_hailo.core.protocols import Encoder
from whisper_hailo.core.types import FloatArray, Transcript
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.compare.padding_grid import PaddingSetting
from whisper_hailo_lab.data.datasets import Sample
from whisper_hailo_lab.report.canvas import draw_bars, draw_chart
from whisper_hailo_lab.score import score_texts
from whisper_hailo_lab.tables import Table, make_table
from whisper_hailo_lab.wrappers import EncoderWrapper

RUN_WORDS: Final = 3
"""Words of a run that counts as repeated."""


@dataclass(frozen=True, slots=True)
class PaddingRow:
    """What one setting did on all recordings.

    Attributes:
        name: the setting.
        pad_to: padding target in positions; `None` is the full context.
        repetition_penalty: 1 is off.
        eot_boost: 0 is off.
        no_repeat_ngram: 0 is off.
        zero_rows: whether the padding was real rows of zeros.
        vad: whether only speech was transcribed.
        n_windows: segments with text.
        n_runaway: segments whose tokens ran out.
        tokens: tokens of all segments.
        audio_s: duration of all recordings.
        encode_ms: time of the encoder for all recordings.
        decode_ms: time of cross keys and values and of the decoder for all recordings.
        repetition_rate: share in [0, 1] of the runs of words that their text had before.
        wer: corpus WER in per cent after the normaliser; `None` without references.
        differs_at: first recording whose text differs from the baseline's.
        expected: text of that recording by the baseline.
        got: text of that recording by this setting.
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
        """Return the row as JSON."""
        return asdict(self)

    @property
    def encode_ms_per_s(self) -> float:
        """Time of the encoder per second of audio."""
        return self.encode_ms / self.audio_s

    @property
    def decode_ms_per_s(self) -> float:
        """Time of decoding per second of audio."""
        return self.decode_ms / self.audio_s

    @property
    def repeated_percent(self) -> float:
        """The repetition rate in per cent."""
        return 100 * self.repetition_rate


class ZeroRows(EncoderWrapper):
    """An encoder that appends rows of zeros to its features, as the study's simulation did.

    Args:
        encoder: the wrapped encoder; its owner opens and closes it.
        pad_to: positions in all; longer features stay as they are.
    """

    def __init__(self, encoder: Encoder, pad_to: int) -> None:
        super().__init__(encoder)
        self._pad_to = pad_to

    def encode(self, mel: FloatArray) -> FloatArray:
        """Return features `(batch, max(n_positions, pad_to), d_model)`."""
        features = self._encoder.encode(mel)
        n_missing = max(0, self._pad_to - features.shape[1])
        return np.pad(features, ((0, 0), (0, n_missing), (0, 0)))


def compare_padding(
    transcriber: Transcriber,
    samples: Sequence[Sample],
    settings: Sequence[PaddingSetting],
    options: DecodingOptions,
    *,
    announce: Callable[[str], None],
) -> list[PaddingRow]:
    """Transcribe the recordings with each setting; the first setting is the baseline.

    Args:
        transcriber: open, and not encoding ahead, so that one thing is timed at a time.
        samples: at least one recording; texts are scored if each has a reference.
        settings: at least one.
        options: decoding options that the settings have in common.
        announce: called with the name of each setting before it runs.
    """
    transcriber.transcribe(
        samples[0].audio, settings[0].decoding_options(options)
    )  # warm-up
    rows: list[PaddingRow] = []
    baseline: list[str] = []
    for setting in settings:
        announce(setting.name)
        runner = _with_zero_rows(transcriber, setting)
        decoding = setting.decoding_options(options)
        transcripts = [
            runner.transcribe(sample.audio, decoding, long=setting.long_options())
            for sample in samples
        ]
        if not baseline:
            baseline = [transcript.text for transcript in transcripts]
        rows.append(_make_row(setting, samples, transcripts, baseline))
    return rows


def _with_zero_rows(transcriber: Transcriber, setting: PaddingSetting) -> Transcriber:
    if not setting.zero_rows:
        return transcriber
    encoder = ZeroRows(transcriber.encoder, setting.anti_repetition.pad_to or 0)
    return replace(transcriber, encoder=encoder)


def _make_row(
    setting: PaddingSetting,
    samples: Sequence[Sample],
    transcripts: Sequence[Transcript],
    baseline: list[str],
) -> PaddingRow:
    texts = [transcript.text for transcript in transcripts]
    segments = [
        segment for transcript in transcripts for segment in transcript.segments
    ]
    timings = [transcript.timings for transcript in transcripts]
    index = find_difference(baseline, texts)
    return PaddingRow(
        name=setting.name,
        pad_to=setting.anti_repetition.pad_to,
        repetition_penalty=setting.anti_repetition.repetition_penalty,
        eot_boost=setting.anti_repetition.eot_boost,
        no_repeat_ngram=setting.no_repeat_ngram,
        zero_rows=setting.zero_rows,
        vad=setting.vad,
        n_windows=len(segments),
        n_runaway=sum(segment.runaway for segment in segments),
        tokens=sum(len(segment.tokens) for segment in segments),
        audio_s=sum(transcript.duration_s for transcript in transcripts),
        encode_ms=sum(stage.encode_ms for stage in timings),
        decode_ms=sum(stage.cross_kv_ms + stage.decode_ms for stage in timings),
        repetition_rate=repetition_rate([segment.text for segment in segments]),
        wer=_word_error_percent(samples, texts),
        differs_at=None if index is None else samples[index].id,
        expected=None if index is None else baseline[index],
        got=None if index is None else texts[index],
    )


def find_difference(baseline: Sequence[str], texts: Sequence[str]) -> int | None:
    """Return the first index at which two lists of equal length differ, if they do."""
    for index, text in enumerate(texts):
        if text != baseline[index]:
            return index
    return None


def _word_error_percent(
    samples: Sequence[Sample], texts: Sequence[str]
) -> float | None:
    references = [sample.reference for sample in samples]
    if not all(reference.strip() for reference in references):
        return None
    pairs = zip(references, texts, strict=True)
    return 100 * score_texts(pairs, language=samples[0].language).words.rate


def repetition_rate(texts: Sequence[str]) -> float:
    """Return the share in [0, 1] of the runs of three words that the same text had before."""
    n_runs = 0
    n_repeated = 0
    for text in texts:
        words = text.casefold().split()
        starts = range(len(words) - RUN_WORDS + 1)
        runs = [tuple(words[start : start + RUN_WORDS]) for start in starts]
        n_runs += len(runs)
        n_repeated += len(runs) - len(set(runs))
    return n_repeated / n_runs if n_runs else 0.0


def padding_table(rows: Sequence[PaddingRow]) -> Table:
    """Return a row for each setting; times are per second of audio."""
    return make_table(
        rows,
        (
            ("setting", "{name}"),
            ("tokens", "{tokens}"),
            ("decode ms/s", "{decode_ms_per_s:.2f}"),
            ("encode ms/s", "{encode_ms_per_s:.2f}"),
            ("repeated %", "{repeated_percent:.1f}"),
            ("WER %", "{wer:.1f}"),
            ("runaway", "{n_runaway} of {n_windows}"),
            ("first difference", lambda row: row.differs_at or "none"),
        ),
    )


def padding_chart(rows: Sequence[PaddingRow]) -> str:
    """Return bars of decoding time, repetitions, and errors or tokens as SVG."""
    panels: list[tuple[str, list[float]]] = [
        ("decoding, ms per second of audio", [row.decode_ms_per_s for row in rows]),
        ("repeated runs of three words, %", [row.repeated_percent for row in rows]),
    ]
    rates = [row.wer for row in rows if row.wer is not None]
    if len(rates) == len(rows):
        panels.append(("word error rate, %", rates))
    else:
        panels.append(("tokens", [float(row.tokens) for row in rows]))
    names = [row.name for row in rows]

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        for ax, (title, values) in zip(axes, panels, strict=True):
            draw_bars(ax, names, values, title, labelled=ax is axes[0])

    title = "Settings against repetition"
    return draw_chart(
        "padding",
        title,
        draw,
        (1, len(panels)),
        len(rows),
    ).svg
