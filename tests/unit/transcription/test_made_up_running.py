"""Audio that goes on, over parts that are made up: what is encoded, decoded and told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.shapes import TINY, TOY_TOKENS
from tests.unit.transcription.made_up_words import TOKENIZER
from tests.unit.transcription.test_made_up_parts import Levels, Open, noise
from whisper_hailo.audio.windows import WindowPlan
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.draft_decoder import Costs, DraftStats
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.draft_model import DraftModel
from whisper_hailo.transcription.pipeline import Pipeline
from whisper_hailo.transcription.transcriber import Transcriber

ENGLISH, GERMAN = TOY_TOKENS.languages["en"], TOY_TOKENS.languages["de"]
AUTO = DecodingOptions("auto")


class Hears(Levels):
    """Hears a number, however loud it is."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def encode(self, mel: FloatArray) -> FloatArray:
        super().encode(mel)
        return np.full((len(mel), 1, 1), self.number, np.float32)


def made(number: int) -> Transcriber:
    """Of a window of 2 s, of which one is audio; German where the number is odd."""
    return Transcriber(Pipeline(Hears(number), Open(), TOKENIZER, WindowPlan.make(TINY, 2)))  # type: ignore[arg-type]


@pytest.fixture
def german() -> Iterator[Transcriber]:
    with made(3) as opened:
        yield opened


def fed(transcriber: Transcriber) -> list[list[int]]:
    """Prompts that the decoder was given."""
    decoder: Any = transcriber.parts["decoder"]
    return [rows[0] for rows in decoder.fed if len(rows[0]) > 1]


def test_a_buffer_is_transcribed_and_translated_from_one_encoding(german: Transcriber) -> None:
    options = replace(AUTO, prompts=PromptOptions())
    heard = german.transcribe_running(noise(0.5), options, translate=True)
    assert (heard.text, heard.language, heard.translation) == ("w3 w3", "de", "w3 w3")
    assert german.encoder is not None
    assert german.encoder.shapes == [(1, 80, 200)]  # type: ignore[attr-defined]
    said, translated = fed(german)
    assert said == [TOY_TOKENS.sot, GERMAN, TOY_TOKENS.transcribe, TOY_TOKENS.no_timestamps]
    assert translated == [TOY_TOKENS.sot, GERMAN, TOY_TOKENS.translate, TOY_TOKENS.no_timestamps]
    assert heard.timings.encode_ms > 0
    assert heard.timings.total_ms >= heard.timings.encode_ms + heard.timings.decode_ms


def test_what_is_settled_of_a_text_is_no_part_of_its_translation(german: Transcriber) -> None:
    heard = german.transcribe_running(noise(0.5), AUTO, Draft((5,), n_fixed=1), translate=True)
    assert heard.text == "w5 w3 w3"
    assert heard.translation == "w3 w3"


@pytest.mark.parametrize(("number", "asks"), [(3, False), (2, True)])
def test_nothing_is_translated_that_is_english_or_that_nobody_asks_for(
    number: int, *, asks: bool
) -> None:
    with made(number) as transcriber:
        heard = transcriber.transcribe_running(noise(0.5), AUTO, translate=asks)
        assert heard.translation is None
        assert len(fed(transcriber)) == 1


def test_where_nothing_is_said_there_is_nothing_to_translate(german: Transcriber) -> None:
    heard = german.transcribe_running(noise(0.5), AUTO, hold_back_s=9.0, translate=True)
    assert (heard.words, heard.translation) == ((), None)
    assert len(fed(german)) == 1


@pytest.mark.parametrize(("trims", "n_frames"), [(False, 400), (True, 300), (None, 300)])
def test_a_window_is_trimmed_unless_asked_otherwise(trims: bool | None, n_frames: int) -> None:
    """Two seconds of silence stay behind the audio, whatever the margin."""
    with made(2) as transcriber:
        plan = WindowPlan(window_s=4.0, margin_s=0.25)
        own = Transcriber(replace(transcriber._parts, plan=plan))
        own.transcribe_running(noise(0.5), AUTO, trim_window=trims)
        assert transcriber.encoder.shapes[-1] == (1, 80, n_frames)  # type: ignore[union-attr]


def test_an_encoder_of_one_length_gets_whole_windows() -> None:
    with made(2) as transcriber:
        encoder: Any = transcriber.encoder
        encoder.n_frames = 300
        plan = WindowPlan(window_s=3.0, margin_s=0.25)
        whole = Transcriber(replace(transcriber._parts, plan=plan))
        whole.transcribe_running(noise(0.1), AUTO)
        assert encoder.shapes == [(1, 80, 300)]
        with pytest.raises(OptionError, match="takes 300 frames only"):
            whole.transcribe_running(noise(0.1), AUTO, trim_window=True)


def test_times_of_words_are_found_where_asked_for(german: Transcriber) -> None:
    plain = german.transcribe_running(noise(1.0), AUTO)
    timed = german.transcribe_running(noise(1.0), AUTO, word_times=True)
    assert [word.start_s for word in plain.words] == [None, None]
    assert [word.text for word in timed.words] == [" w3", " w3"]
    assert all(word.start_s is not None for word in timed.words)


class Part(Levels):
    """Notes whether it is open."""

    def __init__(self, log: list[str], name: str) -> None:
        super().__init__()
        self.log, self.called = log, name

    def open(self) -> Part:
        self.log.append(f"open {self.called}")
        return self

    def close(self) -> None:
        self.log.append(f"close {self.called}")


def test_all_parts_are_opened_and_closed_those_of_a_draft_model_too() -> None:
    log: list[str] = []
    names = ("encoder", "decoder", "draft encoder", "draft decoder")
    encoder, decoder, draft_encoder, draft_decoder = (Part(log, name) for name in names)
    draft = DraftModel("toy", draft_encoder, draft_decoder, DraftStats(Costs(0.1, 0.1)))  # type: ignore[arg-type]
    plan = WindowPlan.make(TINY, 10)
    parts = Pipeline(encoder, decoder, TOKENIZER, plan, draft=draft)  # type: ignore[arg-type]
    transcriber = Transcriber(parts)
    assert tuple(transcriber.parts) == names
    with transcriber:
        assert log == [f"open {name}" for name in names]
        log.clear()
    assert log == [f"close {name}" for name in reversed(names)]
    shared = Transcriber(replace(parts, draft=replace(draft, encoder=None)))
    assert tuple(shared.parts) == ("encoder", "decoder", "draft decoder")
    assert tuple(Transcriber(replace(parts, encoder=None, draft=None)).parts) == ("decoder",)


def test_what_was_never_opened_can_be_closed() -> None:
    log: list[str] = []
    parts = Pipeline(
        Part(log, "encoder"), Part(log, "decoder"), TOKENIZER, WindowPlan.make(TINY, 10)
    )  # type: ignore[arg-type]
    Transcriber(parts).close()
    assert log == []


def test_where_a_part_cannot_be_opened_those_before_it_are_closed() -> None:
    log: list[str] = []
    broken: Any = SimpleNamespace(__enter__=None)
    parts = Pipeline(Part(log, "encoder"), broken, TOKENIZER, WindowPlan.make(TINY, 10))  # type: ignore[arg-type]
    with pytest.raises(TypeError), Transcriber(parts):
        pass
    assert log == ["open encoder", "close encoder"]
