"""A talk of which every word is known, told to the page's server as a captioner would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from whisper_hailo.live.events import CaptionWord, Completed, Partial
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import Controls
from whisper_hailo.serve.routes.captions.access import PageAddress
from whisper_hailo.serve.routes.captions.view import WebView

SENTENCES: Final = (
    "Good evening, and welcome to everybody who is here in the room, and to all who follow us from "
    "home.",
    "Tonight we talk about captions: who reads them, why they are late, and what can be done.",
    "Most people who switch captions on can hear perfectly well.",
    "They are in a loud place, or they listen in their third language, or somebody sleeps next "
    "door.",
    "But for one person in six captions are how they take part at all.",
    "So the words have to be there when the joke is told, not when everybody has stopped laughing.",
)
EACH_S: Final = 4.0
BEGAN_S: Final = 1_763_841_600.0
"""On the wall: 2025-11-22, 20:00 UTC."""


def words_of(text: str, begin_s: float | None = None) -> tuple[CaptionWord, ...]:
    """Words of a text; from `begin_s` on a quarter of a second each."""
    words = []
    for index, word in enumerate(text.split()):
        at_s = None if begin_s is None else begin_s + 0.25 * index
        end_s = None if at_s is None else at_s + 0.25
        words.append(CaptionWord(f" {word}", 0.95, at_s, end_s))
    return tuple(words)


def said(
    index: int,
    text: str,
    start_s: float | None = None,
    *,
    words: Sequence[CaptionWord] | None = None,
    language: str = "en",
    **further: Any,
) -> Completed:
    """The final text of a segment, which begins where those before it end.

    Args:
        index: its id.
        text: of it.
        start_s: where it begins.
        words: instead of those of the text.
        language: in which it was said.
        further: fields of the event.
    """
    start_s = EACH_S * index if start_s is None else start_s
    end_s = start_s + EACH_S
    told = tuple(words_of(text, start_s) if words is None else words)
    return Completed(
        segment_id=index,
        start_s=start_s,
        end_s=end_s,
        words=told,
        reason="silence",
        heard_s=end_s,
        at_s=end_s,
        language=language,
        wall_s=BEGAN_S + start_s,
        **further,
    )


def saying(
    index: int, settled: str, unsettled: str = "", start_s: float | None = None
) -> Partial:
    """What is being said."""
    start_s = EACH_S * index if start_s is None else start_s
    settled_words = words_of(settled)
    unsettled_words = words_of(unsettled)
    end_s = start_s + 1.0
    return Partial(
        segment_id=index,
        start_s=start_s,
        end_s=end_s,
        committed=settled_words,
        tentative=unsettled_words,
        heard_s=end_s,
        at_s=end_s,
        language="en",
        wall_s=BEGAN_S + start_s,
    )


def give(view: WebView, sentences: Sequence[str] = SENTENCES, begin: int = 0) -> int:
    """A talk; the id of the segment behind it."""
    for index, text in enumerate(sentences, begin):
        view.put(said(index, text))
    return begin + len(sentences)


@contextmanager
def stage(
    *,
    port: int = 0,
    browser: BrowserSource | None = None,
    controls: Controls | None = None,
    statistics: Callable[[], CaptionStatistics] = CaptionStatistics,
    **options: Any,
) -> Iterator[WebView]:
    """The page's server, at a place with options."""
    place = PageAddress(port=port, **options)
    with WebView(statistics, place, browser=browser, controls=controls) as view:
        yield view
