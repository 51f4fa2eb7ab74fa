"""Buffers of running audio: words out of tokens, and drafts that change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.checkpoints import write_checkpoint
from tests.fakes.engine import RecordingEncoder
from tests.fakes.model_sizes import TINY, TOY_TOKENS
from tests.fakes.words import TOKENIZER, word
from tests.near_ties import counted_near_ties
from tests.shared import converted
from tests.unit.transcription.test_decoder_engine import Rows
from tests.unit.transcription.test_transcriber import Levels, Open, noise
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.windows import Window, WindowPlan
from whisper_hailo.backends.onnx import CachedDecoder, OnnxEncoder
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec, SpecialTokens
from whisper_hailo.core.timing import StageClock
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Word
from whisper_hailo.decoding.decoded import Decoded, Drafted
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, PromptOptions
from whisper_hailo.decoding.search.loop import run_steps
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.transcription.decoder_engine import DecoderEngine
from whisper_hailo.transcription.partials import (
    PartialBuffer,
    join_words,
    partial_text,
    translation_options,
    words_of_text,
)
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window import Context, Encoded, WindowResult
from whisper_hailo_lab.clip_archives import unpack_clips

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

    def prefix(
        self, language: str, task: str, *, timestamps: bool = False
    ) -> tuple[int, ...]:
        return (self.special.sot,)


@pytest.fixture(scope="module")
def toy(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Transcriber]:
    """A small model of random weights, which says anything but what was said."""
    model = converted(
        shared, write_checkpoint(tmp_path_factory.mktemp("toy") / "checkpoint")
    )
    spec = ModelSpec.load(model)
    encoder = OnnxEncoder(model, spec, threads=1)
    decoder = CachedDecoder(model, spec, threads=1)
    tokenizer: Any = Plain(spec.tokens)
    with Transcriber(
        encoder, decoder, tokenizer, WindowPlan.make(spec.dims)
    ) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def speech() -> FloatArray:
    return load_audio(unpack_clips() / "seen" / "seen-000.ogg")


def test_running_text_equals_transcribed_text(
    micro: Transcriber, speech: FloatArray
) -> None:
    heard = micro.transcribe_running(PartialBuffer(speech), OPTIONS)
    assert heard.text == micro.transcribe(speech, OPTIONS).text
    assert heard.passes == len(heard.tokens) + 1
    assert heard.timings.decode_ms > 0


@pytest.mark.slow
def test_held_back_end_is_the_same_with_drafts(
    micro: Transcriber, speech: FloatArray
) -> None:
    draft = Draft()
    n_held_back = 0
    n_sure = 0
    for end in range(8000, speech.size, STEP):
        whole = micro.transcribe_running(PartialBuffer(speech[:end]), OPTIONS).tokens
        with counted_near_ties("none") as ties:
            plain = micro.transcribe_running(
                PartialBuffer(speech[:end], hold_back_s=0.3), OPTIONS
            )
        drafted = micro.transcribe_running(
            PartialBuffer(speech[:end], draft, hold_back_s=0.3), OPTIONS
        )
        assert plain.tokens == whole[: len(plain.tokens)]
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
        n_held_back += len(plain.tokens) < len(whole)
        draft = Draft(plain.tokens)
    assert n_held_back > 0
    assert n_sure > 3, "that no near-tie excuses"
    assert (
        micro.transcribe_running(
            PartialBuffer(speech, hold_back_s=20.0), OPTIONS
        ).tokens
        == ()
    )
    settled_tokens = draft.tokens[:2]
    settled = micro.transcribe_running(
        PartialBuffer(
            speech, Draft(settled_tokens, len(settled_tokens)), hold_back_s=20.0
        ),
        OPTIONS,
    )
    assert settled.tokens == settled_tokens, "what is settled is never held back"


def test_growing_buffer_gives_same_text_with_drafts(
    micro: Transcriber, speech: FloatArray
) -> None:
    draft = Draft()
    passes = 0
    plain_passes = 0
    n_sure = 0
    for end in range(8000, speech.size + STEP, STEP):
        with counted_near_ties("none") as ties:
            plain = micro.transcribe_running(PartialBuffer(speech[:end]), OPTIONS)
            drafted = micro.transcribe_running(
                PartialBuffer(speech[:end], draft), OPTIONS
            )
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
        draft = Draft(drafted.tokens)
        passes = passes + drafted.passes
        plain_passes = plain_passes + plain.passes
    assert passes < plain_passes
    assert n_sure > 3, "that no near-tie excuses"


def test_random_drafts_give_the_text_without_one(
    toy: Transcriber, speech: FloatArray
) -> None:
    rng = np.random.default_rng(5)
    n_sure = 0
    for _ in range(25):
        audio = speech[: int(rng.integers(400, speech.size))]
        with counted_near_ties("none") as ties:
            plain = toy.transcribe_running(PartialBuffer(audio), OPTIONS)
        draft = list(plain.tokens)
        for _ in range(rng.integers(4)):
            start = int(rng.integers(len(draft) + 1))
            draft[start : start + int(rng.integers(3))] = rng.integers(
                0, 99, rng.integers(3)
            ).tolist()
        drafted = toy.transcribe_running(
            PartialBuffer(audio, Draft(tuple(draft))), OPTIONS
        )
        assert drafted.tokens == plain.tokens or ties
        n_sure += not ties
    assert n_sure > 12, "that no near-tie excuses"


def test_settled_tokens_are_kept(micro: Transcriber, speech: FloatArray) -> None:
    other = micro.transcribe_running(
        PartialBuffer(load_audio(unpack_clips() / "seen" / "seen-001.ogg")), OPTIONS
    )
    fixed = other.words[0].tokens
    heard = micro.transcribe_running(
        PartialBuffer(speech, Draft(other.tokens, len(fixed))), OPTIONS
    )
    assert heard.tokens[: len(fixed)] == fixed
    assert heard.words[0].text.startswith(other.words[0].text)


def test_trimmed_window_encodes_less(micro: Transcriber, speech: FloatArray) -> None:
    watched = RecordingEncoder(micro.encoder)
    eared = replace(micro, encoder=watched)  # type: ignore[arg-type]
    short = speech[:SAMPLE_RATE_HZ]
    full, trimmed = (
        eared.transcribe_running(PartialBuffer(short), OPTIONS, trim_window=trims)
        for trims in (False, True)
    )
    assert watched.shapes == [(1, 80, 2000), (1, 80, 300)], "a second, and silence"
    assert full.text
    assert trimmed.text


def test_audio_beyond_the_window_is_ignored(
    micro: Transcriber, speech: FloatArray
) -> None:
    long = np.tile(speech, 6)
    n_heard = round(micro.content_s * SAMPLE_RATE_HZ)
    assert (
        micro.transcribe_running(PartialBuffer(long), OPTIONS).tokens
        == micro.transcribe_running(PartialBuffer(long[:n_heard]), OPTIONS).tokens
    )


def pieces(*texts: str) -> list[Word]:
    return [
        word(text, (index,), index + 0.25, index + 1.0)
        for index, text in enumerate(texts)
    ]


def test_join_words_joins_marks_to_the_word_before() -> None:
    words = join_words(
        pieces(" It", " is", ",", " - ", " 5", "€"), "en", [0.5, 1, 0.5, 1, 1, 0.5]
    )
    assert [word.text for word in words] == [" It", " is,", " - ", " 5€"]
    assert [word.tokens for word in words] == [(0,), (1, 2), (3,), (4, 5)]
    assert [word.probability for word in words] == [0.5, 0.75, 1.0, 0.75]
    assert words[1].start_s == 1.25
    assert words[1].end_s == 3.0


def test_join_words_of_unspaced_language_keeps_characters() -> None:
    assert [word.text for word in join_words(pieces("你", "好"), "zh")] == ["你", "好"]


def test_word_timestamps_rise_within_the_buffer(
    micro: Transcriber, speech: FloatArray
) -> None:
    heard = micro.transcribe_running(
        PartialBuffer(speech, word_timestamps=True), OPTIONS
    )
    assert heard.text == micro.transcribe_running(PartialBuffer(speech), OPTIONS).text
    times = [time for word in heard.words for time in (word.start_s, word.end_s)]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    assert 0 < times[-1] <= speech.size / SAMPLE_RATE_HZ  # type: ignore[operator]


def test_words_of_text_splits_at_spaces() -> None:
    assert [word.text for word in words_of_text(" a  b\n")] == [" a", " b"]


class Encoding(Closing):
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


def test_translation_uses_the_same_encoding(
    micro: Transcriber, speech: FloatArray
) -> None:
    counted: Any = Encoding(micro.encoder)
    both = replace(micro, encoder=counted)
    phrase = load_audio(unpack_clips() / "phrases" / "phrases-009.ogg")
    heard = both.transcribe_running(PartialBuffer(phrase), OPTIONS, translate=True)
    n_alone = counted.n_calls
    assert heard.language == "de"
    assert heard.translation == "Happy birthday, Anna."
    assert heard.text == micro.transcribe_running(PartialBuffer(phrase), OPTIONS).text
    assert heard.text != heard.translation
    assert (
        both.transcribe_running(PartialBuffer(phrase), OPTIONS).translation is None
    ), "nobody asked for it"
    assert counted.n_calls == 2 * n_alone, (
        "the second text takes no pass of the encoder"
    )
    assert (
        both.transcribe_running(
            PartialBuffer(speech), OPTIONS, translate=True
        ).translation
        is None
    )


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
    return WindowResult(
        WINDOW, decoded, (), 1.0, silent=silent, language="en", words=words
    )


def test_partial_text_has_passes_and_guess() -> None:
    text = partial_text(heard((1, 2, 3)), TOKENIZER)
    assert [item.text for item in text.words] == [" w1", " w2", " w3"]
    assert [item.tokens for item in text.words] == [(1,), (2,), (3,)]
    assert [item.probability for item in text.words] == [0.5, 0.75, 1.0]
    assert text.language == "en"
    assert text.runaway
    assert text.passes == 2
    assert text.guess == (5, 6)


def test_partial_text_without_draft_has_no_probabilities() -> None:
    text = partial_text(heard((1, 2), None), TOKENIZER)
    assert [(item.text, item.probability) for item in text.words] == [
        (" w1", None),
        (" w2", None),
    ]
    assert text.passes == 0
    assert text.guess == ()


def test_partial_text_keeps_aligned_words() -> None:
    timed = (word(" one", (1,), 0.25, 0.5), word(" two", (2, 3), 0.5, 0.75))
    text = partial_text(heard((1, 2, 3), words=timed), TOKENIZER)
    assert [(item.start_s, item.end_s) for item in text.words] == [
        (0.25, 0.5),
        (0.5, 0.75),
    ]
    assert [item.probability for item in text.words] == [0.5, 0.875]


@pytest.mark.parametrize(
    ("drafted", "tokens"), [(DRAFTED, [1]), (None, []), (Drafted((), 2, 1), [1, 2])]
)
def test_partial_text_of_silence_keeps_settled_tokens(
    drafted: Drafted | None, tokens: list[int]
) -> None:
    silent = heard((1, 2, 3, TOY_TOKENS.no_speech or 0, EOT), drafted, silent=True)
    assert silent.kept_tokens(EOT) == tokens
    spoken = heard((1, 2, 3, TOY_TOKENS.no_speech or 0, EOT), drafted)
    assert spoken.kept_tokens(EOT) == [1, 2, 3], "control tokens are no text"


def test_partial_text_of_plain_text_has_untimed_words() -> None:
    decoded = Decoded((), 0.0, 0.0, runaway=True)
    segments = tuple(
        Segment(0.0, 1.0, text, (), 0.0, 0.0) for text in ("one two", "three")
    )
    text = partial_text(
        WindowResult(WINDOW, decoded, segments, 1.0, language="de"), TOKENIZER
    )
    assert [item.text for item in text.words] == [" one", " two", " three"]
    assert text.language == "de"
    assert text.runaway


def test_join_words_of_untimed_mark_keeps_the_word_s_end() -> None:
    pieces = [word(" so", (1,), 0.5, 1.0), word(".", (2,)), word("”", (3,), 1.0, 1.25)]
    (first,) = join_words(pieces[:2], "en")
    assert first.text == " so."
    assert first.start_s == 0.5
    assert first.end_s == 1.0
    (whole,) = join_words(pieces, "en", [0.25, 0.5, 0.75])
    assert whole.end_s == 1.25
    assert whole.probability == 0.5
    words = join_words(
        [word(" a", (1, 2)), word(" b", (3,)), word(".", (4,))],
        "en",
        [1.0, 0.5, 0.2, 0.4],
    )
    assert [item.probability for item in words] == pytest.approx([0.75, 0.3])
    (alone,) = join_words([word(".", (2,))], "en")
    assert alone.text == "."
    assert alone.start_s is None
    assert alone.end_s is None


def test_buffer_request_is_no_first_window() -> None:
    context = Context("en")
    audio = np.arange(20, dtype=np.float32)
    draft = Draft((1, 2), 1)
    request = PartialBuffer(
        audio, draft, word_timestamps=True, hold_back_s=0.5
    ).request(context, 16)
    assert request.window.audio.tolist() == list(range(16))
    assert request.window.start_s == 0.0
    assert context.n_windows == 1
    assert request.draft == draft
    assert request.word_timestamps
    assert request.hold_back_s == 0.5


@pytest.mark.parametrize(
    ("asked", "probs", "language"),
    [
        ("auto", {"id": 0.3, "en": 0.1}, "en"),
        ("auto", {"id": 0.6, "en": 0.1}, "id"),
        ("de", {"id": 0.3, "en": 0.1}, "de"),
    ],
)
def test_previous_language_outweighs_unsure_detection(
    asked: str, probs: dict[str, float], language: str
) -> None:
    context = Context(asked)
    PartialBuffer(np.zeros(16, np.float32), Draft(), previous_language="en").request(
        context, 16
    )
    if asked == "auto":
        assert context.detect(probs) == language
    assert context.likeliest_language == language


def test_translation_options_drop_prompts_and_detection() -> None:
    options = DecodingOptions(
        "auto",
        detect_each_window=True,
        prompts=PromptOptions(hotwords="Wien"),
        max_new_tokens=9,
    )
    translating = translation_options(options, "de")
    assert translating == DecodingOptions("de", task="translate", max_new_tokens=9)


@pytest.mark.parametrize(
    ("aligns", "asked", "n_words"),
    [(True, True, 2), (True, False, 0), (False, True, 0)],
)
def test_live_words_have_times_if_asked_and_known(
    aligns: bool, asked: bool, n_words: int
) -> None:
    engine = DecoderEngine(Rows(aligns=aligns), TOKENIZER, DecodingOptions("en"), 30.0)  # type: ignore[arg-type]
    request = PartialBuffer(WINDOW.audio, Draft(), asked).request(
        engine.context(), 16_000
    )
    features = np.ones((1, 1, 1), np.float32)
    (text,) = run_steps(
        engine.decode_windows(Encoded(features, StageClock()), [request])
    )
    assert len(text.words) == n_words


ENGLISH = TOY_TOKENS.languages["en"]
GERMAN = TOY_TOKENS.languages["de"]
AUTO = DecodingOptions("auto")


class Hears(Levels):
    """Hears a number, however loud it is."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def encode(self, mel: FloatArray) -> FloatArray:
        super().encode(mel)
        return np.full((len(mel), 1, 1), self.number, np.float32)


def made(number: int, plan: WindowPlan | None = None) -> Transcriber:
    """Of a window of 2 s, of which one is audio; German where the number is odd."""
    plan = plan or WindowPlan.make(TINY, 2)
    return Transcriber(Hears(number), Open(), TOKENIZER, plan)  # type: ignore[arg-type]


@pytest.fixture
def german() -> Iterator[Transcriber]:
    with made(3) as opened:
        yield opened


def fed(transcriber: Transcriber) -> list[list[int]]:
    """Prompts that the decoder was given."""
    decoder: Any = transcriber.decoder
    return [rows[0] for rows in decoder.fed if len(rows[0]) > 1]


def test_translated_buffer_is_encoded_once(german: Transcriber) -> None:
    options = replace(AUTO, prompts=PromptOptions())
    heard = german.transcribe_running(
        PartialBuffer(noise(0.5)), options, translate=True
    )
    assert heard.text == "w3 w3"
    assert heard.language == "de"
    assert heard.translation == "w3 w3"
    assert german.encoder is not None
    assert german.encoder.shapes == [(1, 80, 200)]  # type: ignore[attr-defined]
    said, translated = fed(german)
    assert said == [
        TOY_TOKENS.sot,
        GERMAN,
        TOY_TOKENS.transcribe,
        TOY_TOKENS.no_timestamps,
    ]
    assert translated == [
        TOY_TOKENS.sot,
        GERMAN,
        TOY_TOKENS.translate,
        TOY_TOKENS.no_timestamps,
    ]
    assert heard.timings.encode_ms > 0
    assert heard.timings.total_ms >= heard.timings.encode_ms + heard.timings.decode_ms


def test_translation_ignores_the_draft(german: Transcriber) -> None:
    heard = german.transcribe_running(
        PartialBuffer(noise(0.5), Draft((5,), n_fixed=1)), AUTO, translate=True
    )
    assert heard.text == "w5 w3 w3"
    assert heard.translation == "w3 w3"


@pytest.mark.parametrize(("number", "asks"), [(3, False), (2, True)])
def test_english_text_is_not_translated(number: int, *, asks: bool) -> None:
    with made(number) as transcriber:
        heard = transcriber.transcribe_running(
            PartialBuffer(noise(0.5)), AUTO, translate=asks
        )
        assert heard.translation is None
        assert len(fed(transcriber)) == 1


def test_silence_is_not_translated(german: Transcriber) -> None:
    heard = german.transcribe_running(
        PartialBuffer(noise(0.5), hold_back_s=9.0), AUTO, translate=True
    )
    assert heard.words == ()
    assert heard.translation is None
    assert len(fed(german)) == 1


@pytest.mark.parametrize(
    ("trims", "n_frames"), [(False, 400), (True, 300), (None, 300)]
)
def test_running_window_is_trimmed_by_default(
    trims: bool | None, n_frames: int
) -> None:
    """Two seconds of silence stay behind the audio, whatever the margin."""
    with made(2, WindowPlan(window_s=4.0, margin_s=0.25)) as transcriber:
        transcriber.transcribe_running(
            PartialBuffer(noise(0.5)), AUTO, trim_window=trims
        )
        assert transcriber.encoder.shapes[-1] == (1, 80, n_frames)  # type: ignore[union-attr]


def test_fixed_encoder_gets_whole_windows() -> None:
    with made(2, WindowPlan(window_s=3.0, margin_s=0.25)) as whole:
        encoder: Any = whole.encoder
        encoder.n_frames = 300
        whole.transcribe_running(PartialBuffer(noise(0.1)), AUTO)
        assert encoder.shapes == [(1, 80, 300)]
        with pytest.raises(OptionError, match="300 frames"):
            whole.transcribe_running(PartialBuffer(noise(0.1)), AUTO, trim_window=True)


def test_running_words_are_timed_where_asked(german: Transcriber) -> None:
    plain = german.transcribe_running(PartialBuffer(noise(1.0)), AUTO)
    timed = german.transcribe_running(
        PartialBuffer(noise(1.0), word_timestamps=True), AUTO
    )
    assert [word.start_s for word in plain.words] == [None, None]
    assert [word.text for word in timed.words] == [" w3", " w3"]
    assert all(word.start_s is not None for word in timed.words)


class Part(Levels):
    """Notes whether it is open."""

    def __init__(self, log: list[str], name: str) -> None:
        super().__init__()
        self.log = log
        self.called = name

    def open(self) -> Part:
        self.log.append(f"open {self.called}")
        return self

    def close(self) -> None:
        self.log.append(f"close {self.called}")


def test_open_and_close_reach_all_parts() -> None:
    log: list[str] = []
    names = ("encoder", "decoder")
    encoder, decoder = (Part(log, name) for name in names)
    plan = WindowPlan.make(TINY, 10)
    with Transcriber(encoder, decoder, TOKENIZER, plan):  # type: ignore[arg-type]
        assert log == [f"open {name}" for name in names]
        log.clear()
    assert log == [f"close {name}" for name in reversed(names)]


def test_close_without_open_does_nothing() -> None:
    log: list[str] = []
    encoder, decoder = (Part(log, name) for name in ("encoder", "decoder"))
    Transcriber(encoder, decoder, TOKENIZER, WindowPlan.make(TINY, 10)).close()  # type: ignore[arg-type]
    assert log == []


def test_failed_open_closes_what_was_opened() -> None:
    log: list[str] = []
    broken: Any = SimpleNamespace(__enter__=None)
    transcriber = Transcriber(
        Part(log, "encoder"), broken, TOKENIZER, WindowPlan.make(TINY, 10)
    )  # type: ignore[arg-type]
    with pytest.raises(TypeError), transcriber:
        pass
    assert log == ["open encoder", "close encoder"]
