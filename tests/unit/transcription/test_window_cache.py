"""What tells a window from others, and what comes back of one that was decoded before."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.engine import (
    PLAN,
    Chip,
    Encoder,
    Interpreter,
    RecordingEncoder,
    noise,
    recording_of,
    texts,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.audio.windows import Window
from whisper_hailo.core.errors import OutputError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray, Segment, Transcript
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions, PromptOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.schedule import RecordingList, Schedule
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo.transcription.window import Context, WindowRequest, WindowResult
from whisper_hailo.transcription.window_cache import (
    CachedWindow,
    WindowCache,
    window_key,
)
from whisper_hailo_lab.clip_archives import unpack_clips

AUDIO = np.linspace(-0.5, 0.5, 1600, dtype=np.float32)


def request(
    window: Window | None = None, context: Context | None = None
) -> WindowRequest:
    return WindowRequest(window or Window(AUDIO, 3.5), context or Context("en", (7, 8)))


def test_window_key_depends_on_audio_place_and_prompt() -> None:
    louder = AUDIO.copy()
    louder[-1] += 0.01
    different = [
        request(),
        request(Window(louder, 3.5)),
        request(Window(AUDIO[:-1], 3.5)),
        request(Window(AUDIO, 3.75)),
        request(Window(AUDIO, 3.5, needs_words=True)),
        request(context=Context("en", (7, 9))),
        request(context=Context("en")),
    ]
    assert len({window_key(entry) for entry in different}) == len(different)
    assert window_key(request()) == window_key(
        request(context=Context("de", (7, 8), n_windows=9))
    )


def test_window_key_without_sequence_ignores_previous_text() -> None:
    """It is not shown to them, whatever came of other windows meanwhile."""
    first, second = (Context("en", ids, sequential=False) for ids in ((7, 8), (9,)))
    assert window_key(request(context=first)) == window_key(request(context=second))


RESULT = WindowResult(
    Window(AUDIO, 3.5),
    Decoded((1, 2), -0.3, 0.1, runaway=True),
    (Segment(3.5, 3.6, "said", (1, 2), -0.3, 0.1),),
    0.06,
    ends_alone=True,
    silent=True,
    end_s=3.55,
    language="de",
)


def test_cached_window_gives_its_result_again() -> None:
    context = Context("auto", language_probs={"de": 0.9})
    entry = CachedWindow.of(request(context=context), RESULT)
    again = entry.again(request(context=Context("auto")))
    assert again.window.audio is AUDIO
    assert replace(again, window=RESULT.window) == RESULT


def test_cached_window_counts_as_detection() -> None:
    """What is decoded behind them weighs as much as in a run that was not interrupted."""
    context, replayed = (Context("auto", detects=True) for _ in range(2))
    for probs in ({"en": 0.4, "de": 0.3}, {"en": 0.45, "de": 0.4}):
        context.detect(probs)
        CachedWindow.of(request(context=context), RESULT).again(
            request(context=replayed)
        )
    assert replayed.language == "auto"
    assert replayed.language_probs == context.language_probs
    last = {"de": 0.49, "en": 0.2}
    assert replayed.detect(last) == context.detect(last)
    assert replayed.language_probs == context.language_probs


class Known(dict[str, CachedWindow]):
    """A memory."""

    def recall(self, key: str) -> CachedWindow | None:
        return self.get(key)

    def remember(self, batch: Sequence[CachedWindow]) -> None:
        self.update({entry.key: entry for entry in batch})


@pytest.mark.parametrize("kind", [Encoder, Chip])
def test_cached_windows_go_through_no_stage(kind: type[Encoder]) -> None:
    """By itself or not; of a batch all windows are known, or all are decoded together again."""
    encoder = kind()
    memory = Known()
    stages = Stages(encoder, Interpreter(encoder), PLAN)  # type: ignore[arg-type]

    def transcribe(*sources: FloatArray) -> list[list[str]]:
        recordings = RecordingList([recording_of(source) for source in sources])
        done = Schedule(recordings, stages, batch_size=2, cache=memory).run()
        return texts(done)

    first = noise(1)
    second = noise(1, seed=1)
    heard = transcribe(first)
    assert heard == [["0"]]
    assert transcribe(first) == heard
    assert len(encoder.threads) == 1
    assert transcribe(first, second) == heard * 2
    n_encoded = len(encoder.threads)
    assert n_encoded > 1, "one was not known"
    assert transcribe(second, first) == heard * 2
    assert len(encoder.threads) == n_encoded


def test_remember_of_infinite_number_writes_nothing(tmp_path: Path) -> None:
    """JSON has no such numbers: a run that goes on decodes that window again."""
    path = tmp_path / "j.jsonl"
    entry = CachedWindow.of(request(), RESULT)
    broken = replace(entry, key="broken", advance_s=math.nan)
    with WindowCache(path, "a", go_on=True) as cache:
        cache.remember([broken])
        assert not path.exists()
        for key in ("first", "second"):
            cache.remember([replace(entry, key=key)])
        cache.remember([broken])
    with WindowCache(path, "a", go_on=True) as cache:
        assert cache.kept
        assert cache.known_s == 3.6
        assert cache.recall("second") == replace(entry, key="second")
        assert cache.recall("broken") is None


def test_remember_syncs_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the first windows: most recordings are done with them, and leave nothing."""
    flushed: list[int] = []
    path = tmp_path / "j.jsonl"
    monkeypatch.setattr("os.fsync", lambda _: flushed.append(path.stat().st_size))
    entry = CachedWindow.of(request(), RESULT)
    sizes = []
    with WindowCache(path, "a", go_on=True) as cache:
        for key in ("first", "second", "third"):
            cache.remember([replace(entry, key=key)])
            sizes.append(path.stat().st_size)
    assert flushed == sizes[1:]
    with WindowCache(path, "a", go_on=True) as cache:
        cache.remember([replace(entry, key="fourth")])
    assert len(flushed) == 3, "what is gone on with is flushed at once"


@pytest.mark.parametrize(("asked_language", "language"), [("auto", "de"), ("fr", "fr")])
def test_cached_window_restores_the_language(
    asked_language: str, language: str
) -> None:
    entry = CachedWindow.of(
        request(context=Context("de", language_probs={"de": 0.9})), RESULT
    )
    context = Context(asked_language)
    entry.again(request(context=context))
    assert context.language == language
    assert context.n_windows == 1
    assert context.language_probs == ({"de": 0.9} if asked_language == "auto" else {})


def known(key: str, *ends_s: float) -> CachedWindow:
    """With a segment for each of these ends."""
    segments = tuple(Segment(0.0, end_s, "said", (1,), -0.3, 0.1) for end_s in ends_s)
    return replace(CachedWindow.of(request(), RESULT), key=key, segments=segments)


def n_lines(path: Path) -> int:
    return len(path.read_bytes().splitlines())


def test_known_s_is_the_end_of_the_last_segment(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with WindowCache(path, "a", go_on=True) as cache:
        assert cache.known_s == 0.0
        cache.remember([known("first", 1.5, 4.5), known("second", 3.0)])
        assert n_lines(path) == 2, "the program may end now"
    with WindowCache(path, "a", go_on=True) as cache:
        assert cache.known_s == 4.5


def test_closed_cache_can_be_opened_again(tmp_path: Path) -> None:
    cache = WindowCache(tmp_path / "j.jsonl", "a", go_on=True)
    for key in ("first", "second"):
        with cache:
            cache.remember([known(key, 1.0)])
    with cache:
        assert cache.recall("first") == known("first", 1.0)
        assert cache.recall("second") == known("second", 1.0)


def test_remember_after_truncated_line_drops_it(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with WindowCache(path, "a", go_on=True) as cache:
        cache.remember([known("first", 1.0)])
    with path.open("ab") as file:
        file.write(b'{"windows": [' + b" " * 10_000)
    with WindowCache(path, "a", go_on=True) as cache:
        cache.remember([known("second", 2.0)])
    assert n_lines(path) == 3
    assert path.read_bytes().endswith(b"}\n")


def test_removed_cache_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with WindowCache(path, "a", go_on=True) as cache:
        cache.remove()
        for key in ("first", "second"):
            cache.remember([known(key, 1.0)])
            assert cache.kept
            cache.remove()
            assert not cache.kept
            assert not path.exists()
        cache.remember([known("third", 2.0)])
    with WindowCache(path, "a", go_on=True) as cache:
        assert cache.recall("first") is None
        assert cache.recall("third") == known("third", 2.0)


PLAIN = DecodingOptions()
SEEKING = DecodingOptions(
    timestamps=True,
    prompts=PromptOptions(initial_prompt="Hello.", condition_on_previous_text=True),
)
BEGUN = DecodingOptions(prompts=PromptOptions(prefix="Well, then"))
PLANS = [
    (PLAIN, "overlap", 2),
    (PLAIN, "consecutive", 1),
    (BEGUN, "consecutive", 1),
    (SEEKING, "seek", 1),
]


@pytest.fixture(scope="module")
def long() -> FloatArray:
    """Four short sentences with two seconds between them."""
    pause = np.zeros(2 * SAMPLE_RATE_HZ, np.float32)
    clips = [
        load_audio(unpack_clips() / "seen" / f"seen-{n}.ogg")
        for n in ("073", "051", "021", "143")
    ]
    return np.concatenate([part for clip in clips for part in (clip, pause)])


def watched(micro: Transcriber) -> tuple[Transcriber, RecordingEncoder]:
    encoder = RecordingEncoder(micro.encoder)
    return replace(micro, encoder=encoder, encode_ahead=False), encoder  # type: ignore[arg-type]


def text_of(transcript: Transcript) -> Transcript:
    return replace(
        transcript,
        timings=replace(
            transcript.timings,
            **dict.fromkeys(
                (
                    "load_ms",
                    "mel_ms",
                    "encode_ms",
                    "cross_kv_ms",
                    "decode_ms",
                    "total_ms",
                ),
                0.0,
            ),
        ),
    )


@dataclass(frozen=True)
class Straight:
    """One of `PLANS`, and what it gives where nothing interrupts it."""

    arguments: dict[str, Any]
    transcript: Transcript
    n_windows: int


@pytest.fixture(scope="module", params=PLANS, ids=lambda plan: plan[1])
def straight(
    request: pytest.FixtureRequest, micro_of_10_s: Transcriber, long: FloatArray
) -> Straight:
    options, strategy, batch_size = request.param
    cut = LongOptions(strategy=strategy)
    arguments = {"options": options, "long": cut, "batch_size": batch_size}
    whole, windows = watched(micro_of_10_s)
    return Straight(arguments, whole.transcribe(long, **arguments), len(windows.shapes))


@pytest.mark.parametrize(
    "n_segments", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 100))]
)
def test_resumed_run_gives_the_same_text(
    micro_of_10_s: Transcriber,
    long: FloatArray,
    tmp_path: Path,
    straight: Straight,
    n_segments: int,
) -> None:
    """Whatever a plan of windows and a recording know of what was before."""
    path = tmp_path / "not" / "there" / "j.jsonl"  # folders are made
    with WindowCache(path, "a", go_on=True) as cache:
        begun = micro_of_10_s.segments(long, **straight.arguments, cache=cache)
        n_given = len(list(islice(begun, n_segments)))
        begun.close()
    again, encoder = watched(micro_of_10_s)
    with WindowCache(path, "a", go_on=True) as cache:
        assert (cache.known_s > 0) is (n_given > 0)
        rest = again.segments(long, **straight.arguments, cache=cache)
        assert len(list(rest)) == len(straight.transcript.segments)
    assert text_of(rest.transcript) == text_of(straight.transcript)
    assert len(encoder.shapes) < straight.n_windows, "something was known"
    if n_segments > len(straight.transcript.segments):
        assert not encoder.shapes


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_truncated_line_ends_the_cache(
    micro_of_10_s: Transcriber, long: FloatArray, tmp_path: Path
) -> None:
    path = tmp_path / "j.jsonl"
    arguments: dict[str, Any] = {
        "long": LongOptions(skip_silence=False),
        "batch_size": 1,
    }
    straight = micro_of_10_s.transcribe(long, PLAIN, **arguments)
    with WindowCache(path, "a", go_on=True) as cache:
        list(micro_of_10_s.segments(long, PLAIN, **arguments, cache=cache))
    header, first, second, *others = lines(path)
    assert others
    for torn in (second[:-9], second[:-1], b"{}\n" + second):
        content = header + first + torn
        path.write_bytes(content)
        with WindowCache(path, "a", go_on=True) as cache:
            again, encoder = watched(micro_of_10_s)
            segments = again.segments(long, PLAIN, **arguments, cache=cache)
            assert [s.text for s in segments] == [s.text for s in straight.segments]
        assert len(encoder.shapes) == len(others) + 1
        assert lines(path)[:2] == [header, first]
        assert [json.loads(line) for line in lines(path)]


@pytest.mark.parametrize(("settings", "go_on"), [("other", True), ("a", False)])
def test_cache_of_other_settings_is_ignored(
    micro_of_10_s: Transcriber,
    long: FloatArray,
    tmp_path: Path,
    settings: str,
    go_on: bool,
) -> None:
    path = tmp_path / "j.jsonl"
    with WindowCache(path, "a", go_on=True) as cache:
        list(micro_of_10_s.segments(long, PLAIN, cache=cache))
    with WindowCache(path, settings, go_on=go_on) as cache:
        assert cache.known_s == 0
        assert not cache.kept
        list(micro_of_10_s.segments(long, PLAIN, cache=cache))
    assert json.loads(lines(path)[0])["unfinished"] == settings


def test_removed_cache_leaves_no_file(
    tmp_path: Path, micro_of_10_s: Transcriber, long: FloatArray
) -> None:
    path = tmp_path / "folder" / "j.jsonl"
    with WindowCache(path, "a", go_on=True) as cache:
        assert not path.exists()
        next(micro_of_10_s.segments(long, PLAIN, cache=cache))
        assert path.exists()
        cache.remove()
    assert not path.exists()


def test_identity_differs_with_options_and_model(micro_of_10_s: Transcriber) -> None:
    identity = micro_of_10_s.identity(PLAIN)
    assert identity == micro_of_10_s.identity(DecodingOptions(), LongOptions())
    others = {
        micro_of_10_s.identity(DecodingOptions(language="de")),
        micro_of_10_s.identity(PLAIN, LongOptions(overlap_s=3)),
        micro_of_10_s.identity(PLAIN, batch_size=1),
    }
    assert identity not in others
    assert len(others) == 3


def test_window_cache_knows_how_far_it_has_come(tmp_path: Path) -> None:
    """Of what it remembers, too, not only of what an earlier run left."""
    path = tmp_path / "a.part.jsonl"
    for known_s in (0.0, 3.6):
        with WindowCache(path, "mine", go_on=True) as cache:
            assert cache.known_s == known_s
            cache.remember([CachedWindow.of(request(), RESULT)])
            assert cache.known_s == 3.6


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there")
def test_full_disk_fails_once_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.part.jsonl"
    cache = WindowCache(path, "settings", go_on=False)
    with path.open("wb"):
        pass
    cache._file = open("/dev/full", "wb")  # noqa: SIM115 - the cache closes it
    with pytest.raises(OutputError, match=os.strerror(errno.ENOSPC)):
        cache.remember([])
    cache.close()
    assert not path.exists()
