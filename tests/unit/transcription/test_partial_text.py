"""The words of a buffer as they are shown, from what a window was decoded as."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.shapes import TOY_TOKENS
from tests.unit.spoken_words import word
from tests.unit.transcription.made_up_words import TOKENIZER
from tests.unit.transcription.test_decoder_engine import Rows
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import Segment, Word
from whisper_hailo.decoding.decoded import Decoded, Drafted
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.partials import (
    PartialBuffer,
    join_words,
    partial_text,
    translation_options,
)
from whisper_hailo.transcription.window import Context, Encoded, WindowResult

EOT = TOY_TOKENS.eot
WINDOW = Window(np.zeros(16_000, np.float32), 0.0)
DRAFTED = Drafted((0.5, 0.75, 1.0), n_fixed=1, n_passes=2, guess=(5, 6))


def heard(
    tokens: tuple[int, ...],
    drafted: Drafted | None = DRAFTED,
    *,
    silent: bool = False,
    words: tuple[Word, ...] = (),
) -> WindowResult:
    decoded = Decoded(tokens, -0.1, 0.0, runaway=True, drafted=drafted)
    return WindowResult(WINDOW, decoded, (), 1.0, silent=silent, language="en", words=words)


def test_a_buffer_s_text_says_what_it_took() -> None:
    text = partial_text(heard((1, 2, 3)), TOKENIZER)
    assert [one.text for one in text.words] == [" w1", " w2", " w3"]
    assert [one.tokens for one in text.words] == [(1,), (2,), (3,)]
    assert [one.probability for one in text.words] == [0.5, 0.75, 1.0]
    assert (text.language, text.runaway) == ("en", True)
    assert (text.passes, text.guess) == (2, (5, 6))


def test_without_a_draft_no_word_has_a_probability() -> None:
    text = partial_text(heard((1, 2), None), TOKENIZER)
    assert [(one.text, one.probability) for one in text.words] == [(" w1", None), (" w2", None)]
    assert (text.passes, text.guess) == (0, ())


def test_words_with_times_are_taken_as_they_are() -> None:
    timed = (word(" one", (1,), 0.25, 0.5), word(" two", (2, 3), 0.5, 0.75))
    text = partial_text(heard((1, 2, 3), words=timed), TOKENIZER)
    assert [(one.start_s, one.end_s) for one in text.words] == [(0.25, 0.5), (0.5, 0.75)]
    assert [one.probability for one in text.words] == [0.5, 0.875]


@pytest.mark.parametrize(
    ("drafted", "kept"), [(DRAFTED, [1]), (None, []), (Drafted((), 2, 1), [1, 2])]
)
def test_of_silence_only_what_is_settled_stays(drafted: Drafted | None, kept: list[int]) -> None:
    silent = heard((1, 2, 3, TOY_TOKENS.no_speech or 0, EOT), drafted, silent=True)
    assert silent.kept_tokens(EOT) == kept
    spoken = heard((1, 2, 3, TOY_TOKENS.no_speech or 0, EOT), drafted)
    assert spoken.kept_tokens(EOT) == [1, 2, 3], "control tokens are no text"


def test_an_engine_that_gives_text_alone_gives_words_without_times() -> None:
    decoded = Decoded((), 0.0, 0.0, runaway=True)
    segments = tuple(Segment(0.0, 1.0, text, (), 0.0, 0.0) for text in ("one two", "three"))
    text = partial_text(WindowResult(WINDOW, decoded, segments, 1.0, language="de"), TOKENIZER)
    assert [one.text for one in text.words] == [" one", " two", " three"]
    assert (text.language, text.runaway) == ("de", True)


def test_a_mark_without_a_time_leaves_its_word_s_end() -> None:
    pieces = [word(" so", (1,), 0.5, 1.0), word(".", (2,)), word("”", (3,), 1.0, 1.25)]
    (first,) = join_words(pieces[:2], "en")
    assert (first.text, first.start_s, first.end_s) == (" so.", 0.5, 1.0)
    (whole,) = join_words(pieces, "en", [0.25, 0.5, 0.75])
    assert (whole.end_s, whole.probability) == (1.25, 0.5)
    words = join_words(
        [word(" a", (1, 2)), word(" b", (3,)), word(".", (4,))], "en", [1.0, 0.5, 0.2, 0.4]
    )
    assert [one.probability for one in words] == pytest.approx([0.75, 0.3])
    (alone,) = join_words([word(".", (2,))], "en")
    assert (alone.text, alone.start_s, alone.end_s) == (".", None, None)


def test_running_audio_is_no_recording_s_first_window_and_ends_with_its_window() -> None:
    context = Context("en")
    audio = np.arange(20, dtype=np.float32)
    draft = Draft((1, 2), 1)
    request = PartialBuffer(audio, draft, word_times=True, hold_back_s=0.5).request(context, 16)
    assert request.window.audio.tolist() == list(range(16))
    assert (request.window.start_s, context.n_windows) == (0.0, 1)
    assert (request.draft, request.word_times, request.hold_back_s) == (draft, True, 0.5)


def test_what_is_translated_was_said_in_one_language_and_is_shown_nothing_of_it() -> None:
    options = DecodingOptions(
        "auto", detect_each_window=True, prompts=PromptOptions(hotwords="Wien"), max_new_tokens=9
    )
    translating = translation_options(options, "de")
    assert translating == DecodingOptions("de", task="translate", max_new_tokens=9)


@pytest.mark.parametrize(
    ("aligns", "asked", "n_words"), [(True, True, 2), (True, False, 0), (False, True, 0)]
)
def test_words_of_running_audio_have_times_where_asked_for_and_known(
    aligns: bool, asked: bool, n_words: int
) -> None:
    engine = DecoderEngine(Rows(aligns=aligns), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = PartialBuffer(WINDOW.audio, Draft(), asked).request(engine.context(), 16_000)
    features = np.ones((1, 1, 1), np.float32)
    (found,) = run_steps(engine.steps(Encoded(features, StageClock()), [request]))
    assert len(found.words) == n_words
