"""Padding and anti-repetition on a variant of `micro` that repeats itself in short windows.

What `lab.training.make_ill` trained, in `tests/data/ill`, does not change when `micro` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.packed import write_packed_checkpoint
from tests.shared import converted
from whisper_hailo.core.types import Transcript
from whisper_hailo.decoding.options import (
    PRESETS,
    AntiRepetition,
    DecodingOptions,
    TokenLimits,
)
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.wrappers import ZeroRows

pytestmark = pytest.mark.slow

CLIPS = sorted((unpack_clips() / "seen").glob("*.ogg"))[:8]
BUDGET = 80
"""Twice as many tokens as any of these clips holds."""
UNPADDED = AntiRepetition(pad_to=0)


@dataclass(frozen=True, slots=True)
class Ward:
    """The ill model with 10 s windows, 500 encoder positions; what it has written is kept."""

    transcriber: Transcriber
    charts: dict[tuple[AntiRepetition, int], list[Transcript]] = field(
        default_factory=dict
    )

    def transcribe(
        self, anti_repetition: AntiRepetition, ngram: int = 0
    ) -> list[Transcript]:
        """Text of each clip."""
        if (anti_repetition, ngram) not in self.charts:
            limits = TokenLimits(no_repeat_ngram=ngram, max_per_second=None)
            options = DecodingOptions(
                anti_repetition=anti_repetition, max_new_tokens=BUDGET, limits=limits
            )
            transcripts = [self.transcriber.transcribe(clip, options) for clip in CLIPS]
            self.charts[anti_repetition, ngram] = transcripts
        return self.charts[anti_repetition, ngram]

    def hear_with_real_zeros(self, pad_to: int) -> list[Transcript]:
        """The same with zero rows that the encoder adds."""
        encoder = self.transcriber.encoder
        assert encoder is not None
        return Ward(
            replace(self.transcriber, encoder=ZeroRows(encoder, pad_to))
        ).transcribe(UNPADDED)


@pytest.fixture(scope="module")
def ward(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ward]:
    model = converted(
        shared, write_packed_checkpoint("ill", tmp_path_factory.mktemp("ill") / "ill")
    )
    with Transcriber.from_model(str(model), window_s=10, threads=1) as transcriber:
        yield Ward(transcriber)


@pytest.fixture(scope="module")
def untreated(ward: Ward) -> list[Transcript]:
    return ward.transcribe(UNPADDED)


def runaways(transcripts: list[Transcript]) -> int:
    return sum(
        any(segment.runaway for segment in each.segments) for each in transcripts
    )


def tokens_of(transcript: Transcript) -> list[int]:
    return [token for segment in transcript.segments for token in segment.tokens]


def n_tokens(transcripts: list[Transcript]) -> int:
    return sum(len(tokens_of(each)) for each in transcripts)


def test_padding_off_writes_runaways(untreated: list[Transcript]) -> None:
    assert runaways(untreated) >= 2
    assert n_tokens(untreated) > 30 * len(CLIPS)


@pytest.mark.parametrize("name", ["conservative", "balanced"])
def test_presets_with_zero_padding_halve_tokens(
    ward: Ward, untreated: list[Transcript], name: str
) -> None:
    """With zero rows, which it learned to end with."""
    cured = ward.transcribe(replace(PRESETS[name], pad_with="zeros"))
    assert runaways(cured) == 0
    assert 2 * n_tokens(cured) < n_tokens(untreated)


def test_padding_with_silence_keys_reduces_runaways(
    ward: Ward, untreated: list[Transcript]
) -> None:
    padded = ward.transcribe(PRESETS["conservative"])
    assert 4 * n_tokens(padded) < 3 * n_tokens(untreated)
    assert runaways(padded) < runaways(untreated)


def test_padding_keeps_the_first_word(ward: Ward, untreated: list[Transcript]) -> None:
    cured = ward.transcribe(PRESETS["conservative"])
    firsts = [
        (a.text.split()[0], b.text.split()[0])
        for a, b in zip(cured, untreated, strict=True)
    ]
    assert sum(a == b for a, b in firsts) > len(CLIPS) // 2


def test_padding_with_more_zeros_gives_fewer_tokens(
    ward: Ward, untreated: list[Transcript]
) -> None:
    anti_repetition = [
        AntiRepetition(pad_to, pad_with="zeros") for pad_to in (600, None)
    ]
    some, all_of_it = (n_tokens(ward.transcribe(each)) for each in anti_repetition)
    assert all_of_it < some < n_tokens(untreated)


@pytest.mark.parametrize("pad_to", [500, 600, 700, 1000, 1500])
def test_padding_keys_give_the_text_of_real_rows(ward: Ward, pad_to: int) -> None:
    anti_repetition = AntiRepetition(pad_to, pad_with="zeros")
    free = ward.transcribe(anti_repetition)
    real = ward.hear_with_real_zeros(pad_to)
    assert [tokens_of(each) for each in free] == [tokens_of(each) for each in real]


def test_padding_default_equals_1500_positions(ward: Ward) -> None:
    asked, default = (
        AntiRepetition(pad_to, pad_with="zeros") for pad_to in (1500, None)
    )
    assert [tokens_of(each) for each in ward.transcribe(asked)] == [
        tokens_of(each) for each in ward.transcribe(default)
    ]


@pytest.mark.parametrize(
    "anti_repetition", [PRESETS["aggressive"], AntiRepetition(0, eot_boost=4.0)]
)
def test_eot_boost_ends_text_sooner(
    ward: Ward, anti_repetition: AntiRepetition
) -> None:
    boosted = ward.transcribe(anti_repetition)
    without = ward.transcribe(replace(anti_repetition, eot_boost=0.0))
    for a, b in zip(boosted, without, strict=True):
        assert tokens_of(a) == tokens_of(b)[: len(tokens_of(a))]
    assert n_tokens(boosted) < n_tokens(without)
    assert runaways(boosted) <= runaways(without)


def test_no_repeat_ngram_ends_no_runaway(
    ward: Ward, untreated: list[Transcript]
) -> None:
    blocked = ward.transcribe(UNPADDED, ngram=3)
    for tokens in map(tokens_of, blocked):
        runs = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
        assert len(set(runs)) == len(runs)
    assert runaways(blocked) > 0
    assert 2 * n_tokens(blocked) > n_tokens(untreated)
