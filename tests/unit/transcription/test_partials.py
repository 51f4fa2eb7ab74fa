"""Buffers of running audio: words out of tokens, and drafts that change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import write_checkpoint
from tests.near_ties import counted_near_ties
from tests.shared import converted
from tests.unit.sounds import DATA
from tests.unit.spoken_words import word
from tests.unit.transcription.watched import Watched
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.spec import ModelSpec, SpecialTokens
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Word
from whisper_hailo.decoding.options import PRESETS, DecodingOptions
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.partials import join_words, words_of_text
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.transcriber import Transcriber

STEP = 12_800
"""Samples by which a buffer grows: words break in other places than where a second ends."""
OPTIONS = DecodingOptions(anti_repetition=PRESETS["conservative"], max_new_tokens=30)


@pytest.fixture(scope="module")
def micro() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", quantize="none", threads=1) as transcriber:
        yield transcriber


class Plain:
    """A tokenizer for a vocabulary without one."""

    def __init__(self, special: SpecialTokens) -> None:
        self.special = special

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(f" {token}" for token in tokens)

    def prefix(self, language: str, task: str, *, timestamps: bool = False) -> tuple[int, ...]:
        return (self.special.sot,)


@pytest.fixture(scope="module")
def toy(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transcriber]:
    """A small model of random weights, which says anything but what was said."""
    model = converted(shared, write_checkpoint(tmp_path_factory.mktemp("toy") / "checkpoint"))
    spec = ModelSpec.load(model)
    encoder = OnnxEncoder(model, spec, threads=1)
    decoder = CachedDecoder(model, spec, threads=1)
    tokenizer: Any = Plain(spec.tokens)
    parts = Pipeline(encoder, decoder, tokenizer, WindowPlan.make(spec.dims))
    with Transcriber(parts) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    return load_audio(DATA / "micro" / "seen" / "seen-000.ogg")


def test_hearing_a_buffer_gives_the_text_of_transcribing_it(
    micro: Transcriber, speech: FloatArray
) -> None:
    heard = micro.transcribe_running(speech, OPTIONS)
    assert heard.text == micro.transcribe(speech, OPTIONS).text
    assert heard.passes == len(heard.tokens) + 1
    assert heard.timings.decode_ms > 0


@pytest.mark.slow
def test_what_is_held_back_is_the_end_and_the_same_with_drafts(
    micro: Transcriber, speech: FloatArray
) -> None:
    draft, n_held_back, n_sure = Draft(), 0, 0
    for end in range(8000, speech.size, STEP):
        whole = micro.transcribe_running(speech[:end], OPTIONS).tokens
        with counted_near_ties("none") as ties:
            plain = micro.transcribe_running(speech[:end], OPTIONS, hold_back_s=0.3)
        drafted = micro.transcribe_running(speech[:end], OPTIONS, draft, hold_back_s=0.3)
        assert plain.tokens == whole[: len(plain.tokens)]
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
        n_held_back += len(plain.tokens) < len(whole)
        draft = Draft(plain.tokens)
    assert n_held_back > 0
    assert n_sure > 3, "that no near-tie excuses"
    assert micro.transcribe_running(speech, OPTIONS, hold_back_s=20.0).tokens == ()
    kept = draft.tokens[:2]
    settled = micro.transcribe_running(speech, OPTIONS, Draft(kept, len(kept)), hold_back_s=20.0)
    assert settled.tokens == kept, "what is settled is never held back"


def test_a_growing_buffer_gives_the_same_text_with_and_without_drafts(
    micro: Transcriber, speech: FloatArray
) -> None:
    draft, passes, plain_passes, n_sure = Draft(), 0, 0, 0
    for end in range(8000, speech.size + STEP, STEP):
        with counted_near_ties("none") as ties:
            plain = micro.transcribe_running(speech[:end], OPTIONS)
            drafted = micro.transcribe_running(speech[:end], OPTIONS, draft)
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
        draft = Draft(drafted.tokens)
        passes, plain_passes = passes + drafted.passes, plain_passes + plain.passes
    assert passes < plain_passes
    assert n_sure > 3, "that no near-tie excuses"


def test_random_weights_and_random_drafts(toy: Transcriber, speech: FloatArray) -> None:
    rng, n_sure = np.random.default_rng(5), 0
    for _ in range(25):
        audio = speech[: int(rng.integers(400, speech.size))]
        with counted_near_ties("none") as ties:
            plain = toy.transcribe_running(audio, OPTIONS)
        draft = list(plain.tokens)
        for _ in range(rng.integers(4)):
            at = int(rng.integers(len(draft) + 1))
            draft[at : at + int(rng.integers(3))] = rng.integers(0, 99, rng.integers(3)).tolist()
        drafted = toy.transcribe_running(audio, OPTIONS, Draft(tuple(draft)))
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
    assert n_sure > 12, "that no near-tie excuses"


def test_settled_tokens_are_kept(micro: Transcriber, speech: FloatArray) -> None:
    other = micro.transcribe_running(load_audio(DATA / "micro" / "seen" / "seen-001.ogg"), OPTIONS)
    fixed = other.words[0].tokens
    heard = micro.transcribe_running(speech, OPTIONS, Draft(other.tokens, len(fixed)))
    assert heard.tokens[: len(fixed)] == fixed
    assert heard.words[0].text.startswith(other.words[0].text)


def test_a_trimmed_window_encodes_less(micro: Transcriber, speech: FloatArray) -> None:
    watched = Watched(micro.encoder)
    eared = micro.with_parts(encoder=watched)  # type: ignore[arg-type]
    short = speech[:SAMPLE_RATE_HZ]
    full, trimmed = (
        eared.transcribe_running(short, OPTIONS, trim_window=trims) for trims in (False, True)
    )
    assert watched.shapes == [(1, 80, 2000), (1, 80, 300)], "a second, and silence"
    assert full.text
    assert trimmed.text


def test_what_exceeds_the_window_is_not_heard(micro: Transcriber, speech: FloatArray) -> None:
    long = np.tile(speech, 6)
    n_heard = round(micro.content_s * SAMPLE_RATE_HZ)
    assert (
        micro.transcribe_running(long, OPTIONS).tokens
        == micro.transcribe_running(long[:n_heard], OPTIONS).tokens
    )


def pieces(*texts: str) -> list[Word]:
    return [word(text, (index,), index + 0.25, index + 1.0) for index, text in enumerate(texts)]


def test_marks_belong_to_the_word_before() -> None:
    words = join_words(pieces(" It", " is", ",", " - ", " 5", "€"), "en", [0.5, 1, 0.5, 1, 1, 0.5])
    assert [word.text for word in words] == [" It", " is,", " - ", " 5€"]
    assert [word.tokens for word in words] == [(0,), (1, 2), (3,), (4, 5)]
    assert [word.probability for word in words] == [0.5, 0.75, 1.0, 0.75]
    assert (words[1].start_s, words[1].end_s) == (1.25, 3.0)


def test_languages_without_blanks_keep_characters_apart() -> None:
    assert [word.text for word in join_words(pieces("你", "好"), "zh")] == ["你", "好"]


def test_word_times_grow_and_stay_in_the_buffer(micro: Transcriber, speech: FloatArray) -> None:
    heard = micro.transcribe_running(speech, OPTIONS, word_times=True)
    assert heard.text == micro.transcribe_running(speech, OPTIONS).text
    times = [time for word in heard.words for time in (word.start_s, word.end_s)]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert 0 < times[-1] <= speech.size / SAMPLE_RATE_HZ  # type: ignore[operator]


def test_words_of_plain_text() -> None:
    assert [word.text for word in words_of_text(" a  b\n")] == [" a", " b"]


class Encoding:
    """An encoder that counts."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.n_calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode(self, mel: FloatArray) -> FloatArray:
        self.n_calls += 1
        encoded: FloatArray = self.encoder.encode(mel)
        return encoded


def test_what_was_encoded_once_is_transcribed_and_translated(
    micro: Transcriber, speech: FloatArray
) -> None:
    counted: Any = Encoding(micro.encoder)
    both = Transcriber(replace(micro._parts, encoder=counted))
    phrase = load_audio(DATA / "micro" / "phrases" / "phrases-009.ogg")
    heard = both.transcribe_running(phrase, OPTIONS, translate=True)
    n_alone = counted.n_calls
    assert (heard.language, heard.translation) == ("de", "Happy birthday, Anna.")
    assert heard.text == micro.transcribe_running(phrase, OPTIONS).text
    assert heard.text != heard.translation
    assert both.transcribe_running(phrase, OPTIONS).translation is None, "nobody asked for it"
    assert counted.n_calls == 2 * n_alone, "the second text takes no pass of the encoder"
    assert both.transcribe_running(speech, OPTIONS, translate=True).translation is None
