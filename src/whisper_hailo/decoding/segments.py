"""From a window's tokens to timed stretches of them, and to where the next window begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whisper_hailo.core.types import SECONDS_PER_TIMESTAMP


@dataclass(frozen=True, slots=True)
class TimedTokens:
    """Ids of one segment, timestamps among them, and its times within the window."""

    start_s: float
    end_s: float
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """A window's tokens by segments.

    Attributes:
        segments: in order of time.
        advance_s: seconds from this window's start to the next one's.
        ends_alone: the window ends with a single timestamp: nothing was said after it.
    """

    segments: tuple[TimedTokens, ...]
    advance_s: float
    ends_alone: bool


def split_at_timestamps(
    tokens: Sequence[int], begin: int | None, content_s: float, *, keeps_rest: bool = False
) -> Split:
    """Split where one segment's end meets the next one's start.

    Text after the last pair is an unfinished segment: it is left to the next window, which begins
    at that pair. Without pairs all of the window is one segment, and the next one follows it.

    Args:
        tokens: ids of the window.
        begin: id of `<|0.00|>`; `None` for models without timestamps.
        content_s: seconds of audio in the window.
        keeps_rest: the next window begins elsewhere, so that an unfinished segment is kept.

    Source: OpenAI Whisper, `transcribe`.
    """
    if begin is None:
        whole = TimedTokens(0.0, content_s, tuple(tokens))
        return Split((whole,), content_s, ends_alone=False)
    is_time = [token >= begin for token in tokens]
    ends_alone = is_time[-2:] == [False, True]
    seams = [i for i in range(1, len(tokens)) if is_time[i - 1] and is_time[i]]
    if not seams:
        later = [token for token in tokens if token > begin]
        end_s = (later[-1] - begin) * SECONDS_PER_TIMESTAMP if later else content_s
        return Split((TimedTokens(0.0, end_s, tuple(tokens)),), content_s, ends_alone)
    if ends_alone or keeps_rest:
        seams.append(len(tokens))
    parts = [tuple(tokens[a:b]) for a, b in zip([0, *seams], seams, strict=False)]
    segments = tuple(
        TimedTokens(
            start_s=max(0, part[0] - begin) * SECONDS_PER_TIMESTAMP,
            end_s=(part[-1] - begin) * SECONDS_PER_TIMESTAMP if part[-1] >= begin else content_s,
            tokens=part,
        )
        for part in parts
    )
    return Split(segments, content_s if ends_alone else segments[-1].end_s, ends_alone)
