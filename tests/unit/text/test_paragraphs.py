from itertools import pairwise

import pytest

from whisper_hailo.core.types import Segment, Speaker
from whisper_hailo.text.paragraphs import ParagraphWriter

SENTENCE = "It was a calm day and nobody had seen the ships that were to come here."
N_SHORT = 4
"""Sentences of 71 letters and a space: less than 300 columns, one more is not."""


def make_segments(
    *texts: str,
    pause_s: float = 0.0,
    language: str = "en",
    speakers: tuple[Speaker | None, ...] = (),
) -> list[Segment]:
    """Return segments of 4 s with the same pause before each."""
    segments = []
    start_s = 0.0
    for index, text in enumerate(texts):
        speaker = speakers[index] if speakers else None
        segments.append(
            Segment(
                start_s, start_s + 4, text, (), 0, 0, language=language, speaker=speaker
            )
        )
        start_s += 4 + pause_s
    return segments


def write(segments: list[Segment]) -> str:
    writer = ParagraphWriter()
    parts = [part for segment in segments for part in writer.write(segment)]
    return "".join([*parts, *writer.finish()])


def test_paragraph_joins_segments() -> None:
    assert (
        write(make_segments("One two.", "Three,", "four.")) == "One two. Three, four.\n"
    )


@pytest.mark.parametrize(("pause_s", "is_new"), [(2.9, False), (3.0, True)])
def test_paragraph_ends_at_a_long_pause(pause_s: float, is_new: bool) -> None:
    gap = "\n\n" if is_new else " "
    assert write(make_segments("One,", "two.", pause_s=pause_s)) == f"One,{gap}two.\n"


@pytest.mark.parametrize(
    ("n_sentences", "pause_s", "n_paragraphs"),
    [(N_SHORT, 0.8, 1), (N_SHORT + 2, 0.8, 2), (N_SHORT + 2, 0.7, 1)],
)
def test_paragraph_long_enough_ends_at_a_shorter_pause(
    n_sentences: int, pause_s: float, n_paragraphs: int
) -> None:
    text = write(make_segments(*[SENTENCE] * n_sentences, pause_s=pause_s))
    assert len(text.split("\n\n")) == n_paragraphs


def test_paragraph_without_pauses_ends_with_a_sentence() -> None:
    text = write(make_segments(*[SENTENCE, "and so"] * 20))
    paragraphs = text.split("\n\n")
    assert len(paragraphs) > 1
    assert all(part.strip().endswith("here.") for part in paragraphs[:-1])


def test_paragraph_without_full_stops_is_bounded() -> None:
    text = write(make_segments(*["no end in sight here " * 4] * 100))
    assert max(map(len, text.split("\n\n"))) < 1600


def test_paragraph_of_chinese_ends_at_pauses() -> None:
    """Small models write no full stops in it, and there are no spaces."""
    phrase = "今天的天气非常好" * 3
    text = write(make_segments(*[phrase] * 14, pause_s=0.9, language="zh"))
    assert phrase * 7 == text.split("\n\n")[0]


def test_paragraph_of_an_english_translation_has_spaces() -> None:
    assert write(make_segments("One.", "Two.", language="zh")) == "One. Two.\n"


def test_paragraph_has_one_speaker_and_language() -> None:
    segments = make_segments("One.", "Two.", "Three.", speakers=(0, 0, "Anna"))
    assert write(segments) == "Speaker 1: One. Two.\n\nAnna: Three.\n"
    mixed = make_segments("One.", language="en") + make_segments("Zwei.", language="de")
    assert write(mixed) == "One.\n\nZwei.\n"


def test_paragraph_is_written_once_complete() -> None:
    writer = ParagraphWriter()
    segments = make_segments(*[SENTENCE] * 20, pause_s=1.0)
    counts = [len(list(writer.write(segment))) for segment in segments]
    assert sum(counts) == 3
    assert all(first + second <= 1 for first, second in pairwise(counts))


def test_paragraph_without_segments_is_empty() -> None:
    assert write([]) == write(make_segments("")) == ""
