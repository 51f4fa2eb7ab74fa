"""Exact token sequences of every task, and their targets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from lab.training import whisper_vocabulary as ids
from lab.training.kept_tokens import KeptTokens
from lab.training.targets import IGNORED, NOWHERE, Segment, Task, TokenRows

TOKENIZER = Path(__file__).parents[4] / "src/whisper_hailo/assets/micro/tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TOKENIZER))


@pytest.fixture(scope="module")
def build(tokenizer: Tokenizer) -> TokenRows:
    # The whole vocabulary, so that a row is an id.
    return TokenRows(KeptTokens(tuple(range(tokenizer.get_vocab_size()))))


@pytest.fixture(scope="module")
def segments(tokenizer: Tokenizer) -> list[Segment]:
    texts = ((" Hello world.", 0.304, 1.196), (" See you later.", 1.6, 2.5))
    return [
        Segment(tokenizer.encode(text).ids, start, end) for text, start, end in texts
    ]


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text).ids)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            Task(),
            "<|startoftranscript|><|en|><|transcribe|><|notimestamps|> Hello world. See you later.",
        ),
        (
            Task("de"),
            "<|startoftranscript|><|de|><|transcribe|><|notimestamps|> Hello world. See you later.",
        ),
        (
            Task("de", translate=True),
            "<|startoftranscript|><|de|><|translate|><|notimestamps|> Hello world. See you later.",
        ),
    ],
)
def test_speech_rows_without_times(
    task: Task,
    expected: str,
    tokenizer: Tokenizer,
    build: TokenRows,
    segments: list[Segment],
) -> None:
    expected_ids = ids_of(tokenizer, expected)
    tokens, targets = build.speech(task, segments)
    assert tokens == expected_ids
    end = ids_of(tokenizer, "<|endoftext|>")
    assert targets == [expected_ids[1], IGNORED, IGNORED, *expected_ids[4:], *end]


@pytest.mark.parametrize("translate", [False, True])
def test_speech_rows_with_times(
    translate: bool, tokenizer: Tokenizer, build: TokenRows, segments: list[Segment]
) -> None:
    name = "translate" if translate else "transcribe"
    expected_ids = ids_of(
        tokenizer,
        f"<|startoftranscript|><|de|><|{name}|>"
        "<|0.30|> Hello world.<|1.20|><|1.60|> See you later.<|2.50|>",
    )
    tokens, targets = build.speech(Task("de", translate, timestamps=True), segments)
    assert tokens == expected_ids
    assert targets == [
        expected_ids[1],
        IGNORED,
        *expected_ids[3:],
        *ids_of(tokenizer, "<|endoftext|>"),
    ]


def test_speech_rows_of_cut_sentence_keep_its_start(
    tokenizer: Tokenizer, build: TokenRows
) -> None:
    segments = [
        Segment(ids_of(tokenizer, " Hello world."), 0.0, 8.0),
        Segment([], 8.5, None),
    ]
    tokens, targets = build.speech(Task(timestamps=True), segments)
    assert tokens[3:] == ids_of(tokenizer, "<|0.00|> Hello world.<|8.00|><|8.50|>")
    assert targets[-2:] == ids_of(tokenizer, "<|8.50|><|endoftext|>")
    with pytest.raises(ValueError, match="end"):
        build.speech(Task(), segments)


def test_speech_rows_times_rise_to_30_s(tokenizer: Tokenizer, build: TokenRows) -> None:
    segments = [Segment([], 29.99, 30.4), Segment([], 29.5, 31.0)]
    tokens, _ = build.speech(Task(timestamps=True), segments)
    assert tokens[3:] == ids_of(tokenizer, "<|30.00|>" * 4)


def test_silence_rows_have_no_speech(tokenizer: Tokenizer, build: TokenRows) -> None:
    tokens, targets = build.silence(Task())
    prefix = "<|startoftranscript|><|en|><|transcribe|>"
    (no_speech,) = ids_of(tokenizer, "<|nospeech|>")
    (eot,) = ids_of(tokenizer, "<|endoftext|>")
    assert tokens == ids_of(tokenizer, prefix + "<|notimestamps|>")
    assert targets == [no_speech, IGNORED, IGNORED, eot]
    tokens, targets = build.silence(Task(timestamps=True), forced_start_s=0.5)
    assert tokens == ids_of(tokenizer, prefix + "<|0.50|>")
    assert targets == [no_speech, IGNORED, eot, eot]


@pytest.mark.parametrize("timestamps", [False, True])
def test_spans_give_the_time_of_each_target(
    timestamps: bool, tokenizer: Tokenizer, build: TokenRows
) -> None:
    text = tokenizer.encode(" Hello world.").ids
    spans = ((0.3, 0.7),) + ((0.7, 1.2),) * (len(text) - 1)
    segments = [Segment(text, 0.3, 1.2, spans), Segment(text, 2.0, 3.0)]
    task = Task(timestamps=timestamps)
    _, targets = build.speech(task, segments)
    spans = build.spans(task, segments)
    assert len(spans) == len(targets)
    places = {text[0]: (0.3, 0.7), text[-1]: (0.7, 1.2)}
    first = targets.index(text[0])
    assert spans[first] == places[text[0]]
    assert spans[targets.index(text[-1])] == places[text[-1]]
    assert spans[targets.index(text[0], first + 1)] == NOWHERE
    assert spans[-1] == NOWHERE
    if timestamps:
        assert spans[first - 1] == pytest.approx((0.2, 0.4))


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        (False, "<|startofprev|> Hello world. See you later."),
        (
            True,
            "<|startofprev|><|0.30|> Hello world.<|1.20|><|1.60|> See you later.<|2.50|>",
        ),
    ],
)
def test_previous_rows_have_text_and_times(
    timestamps: bool,
    expected: str,
    tokenizer: Tokenizer,
    build: TokenRows,
    segments: list[Segment],
) -> None:
    assert build.previous(segments, timestamps) == ids_of(tokenizer, expected)


BUNDLED_TOKENIZER = Path("src/whisper_hailo/assets/micro/tokenizer.json")


@pytest.fixture(scope="module")
def bundled_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(Path(__file__).parents[4] / BUNDLED_TOKENIZER))


def test_special_tokens_equal_whisper_s() -> None:
    special = ids.special_tokens()
    assert len(special) == ids.N_VOCAB - ids.EOT
    assert special["<|en|>"] == 50259
    assert special["<|su|>"] == 50357
    assert special["<|notimestamps|>"] == 50363
    assert special["<|0.00|>"] == 50364
    assert special["<|30.00|>"] == 51864


def test_bundled_tokenizer_encodes_as_whisper(bundled_tokenizer: Tokenizer) -> None:
    assert bundled_tokenizer.encode(" Hello world.").ids == [2425, 1002, 13]
    assert bundled_tokenizer.decode([2425, 1002, 13]) == " Hello world."


@pytest.mark.parametrize(
    "text", [" naïve façade", "Grüße, 東京!", "\n\n tab\there", " don't 12345"]
)
def test_bundled_tokenizer_decodes_its_encoding(
    bundled_tokenizer: Tokenizer, text: str
) -> None:
    assert bundled_tokenizer.decode(bundled_tokenizer.encode(text).ids) == text


def test_bundled_tokenizer_special_tokens_are_single_ids(
    bundled_tokenizer: Tokenizer,
) -> None:
    assert bundled_tokenizer.encode("<|startoftranscript|><|de|><|0.02|>").ids == [
        50258,
        50261,
        50365,
    ]


def test_non_speech_ids_equal_the_published_ones(bundled_tokenizer: Tokenizer) -> None:
    spans = ids.non_speech_ids(bundled_tokenizer)
    assert len(spans) == 88
    assert spans[:6] == [1, 2, 7, 8, 9, 10]
    assert spans[-6:] == [50258, 50358, 50359, 50360, 50361, 50362]
