"""Blocks of any size in order, pauses and stalls of captions in Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, cast

import numpy as np
import pytest
import soxr

from tests.fakes.live_sources import Steps
from tests.fakes.scripted_speech import (
    Loudness,
    Speller,
    completed,
    quick,
    silence,
    speech,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.core.errors import AudioError, OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, FloatArray
from whisper_hailo.decoding.options import PRESETS, DecodingOptions, SearchOptions
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Away, Back, Completed, Event
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.recognizer import caption_defaults
from whisper_hailo.live.sources.source import (
    POLL_S,
    Block,
    Interruption,
    Pace,
    empty_block,
)
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.live.stream import (
    STALL_S,
    BlockCaptions,
    CaptionStream,
    Controls,
    Samples,
    stream,
    to_float32,
)
from whisper_hailo.transcription.partials import PartialBuffer
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.captions.event_checks import find_violations
from whisper_hailo_lab.clip_archives import unpack_clips

OPTIONS = DecodingOptions(anti_repetition=PRESETS["conservative"])
CLIP = unpack_clips() / "seen" / "seen-021.ogg"
N_PATIENT = round(STALL_S / POLL_S)
"""Empty blocks that are no stall yet, and one more."""


@pytest.fixture(scope="module")
def micro() -> Iterator[Transcriber]:
    with Transcriber.from_model("micro", threads=1) as transcriber:
        yield transcriber


@pytest.fixture(scope="module")
def audio() -> FloatArray:
    return load_audio(CLIP)


@pytest.fixture(scope="module")
def expected(micro: Transcriber, audio: FloatArray) -> str:
    """The text of the whole recording, transcribed at once."""
    return micro.transcribe(audio, OPTIONS).text


def captions(micro: Transcriber, sample_rate: int = SAMPLE_RATE_HZ) -> BlockCaptions:
    return BlockCaptions(micro, OPTIONS, sample_rate=sample_rate, detector=Loudness())


def join_texts(events: list[Event]) -> str:
    assert list(find_violations(events)) == []
    return " ".join(event.text for event in events if isinstance(event, Completed))


def blocks(audio: Samples, n_blocks: int = 17) -> Iterator[Samples]:
    return iter(np.array_split(audio, n_blocks))


def test_stream_blocks_of_any_length_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    for n_blocks in (1, 100):
        assert (
            join_texts(list(stream(blocks(audio, n_blocks), captions(micro))))
            == expected
        )


@pytest.mark.slow
def test_stream_blocks_of_integers_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    integers = np.round(audio * 32768).clip(-32768, 32767).astype(np.int16)
    assert join_texts(list(stream(blocks(integers), captions(micro)))) == expected


@pytest.mark.slow
def test_stream_blocks_of_48_khz_give_same_text(
    micro: Transcriber, audio: FloatArray, expected: str
) -> None:
    faster = soxr.resample(audio, SAMPLE_RATE_HZ, 48_000, quality="VHQ")
    events = list(stream(blocks(faster), captions(micro, 48_000)))
    assert join_texts(events) == expected
    assert events[-1].heard_s == pytest.approx(audio.size / SAMPLE_RATE_HZ, abs=0.05)


class SilentTranscriber:
    """A transcriber that gives no text."""

    content_s = 9.0
    default_anti_repetition = PRESETS["balanced"]

    def check(self, options: DecodingOptions) -> None:
        assert options == caption_defaults(PRESETS["balanced"])

    def __init__(self) -> None:
        self.buffers: list[FloatArray] = []

    def transcribe_running(
        self, buffer: PartialBuffer, *_: object, **__: object
    ) -> BufferText:
        self.buffers.append(buffer.audio)
        return BufferText(())


def captions_made(events: Iterable[Event]) -> list[tuple[str, float]]:
    return [(type(event).__name__, event.heard_s) for event in events]


@pytest.mark.parametrize(
    "block",
    [
        np.zeros((160, 2), np.float32),
        np.zeros(160, np.int8),
        np.zeros(160, np.complex64),
    ],
)
def test_block_captions_of_other_shape_or_type_raise(block: Samples) -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(AudioError, match=r"\(n_samples,\)"):
        BlockCaptions(transcriber, detector=Loudness()).feed(block)


def test_block_captions_too_long_segment_raises() -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(OptionError, match=r"max-segment .*12 s"):
        BlockCaptions(
            transcriber, None, CaptionOptions(max_segment_s=12.0), detector=Loudness()
        )


def test_block_captions_use_silero_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transcriber: Any = SilentTranscriber()
    made: list[Loudness] = []

    def silero() -> Loudness:
        made.append(Loudness())
        return made[-1]

    monkeypatch.setattr("whisper_hailo.live.stream.make_detector", silero)
    said = speech(range(4))
    assert BlockCaptions(transcriber, detector=Loudness()).feed(said)
    assert made == []
    assert BlockCaptions(transcriber).feed(said)
    assert len(made) == 1


@pytest.mark.parametrize(("rate", "n_times"), [(16_000, 1), (48_000, 3)])
def test_block_captions_keep_the_last_sample(rate: int, n_times: int) -> None:
    """40 frames and one sample are 41 frames, also through a resampler."""
    transcriber: Any = SilentTranscriber()
    said = np.full((40 * 512 + 1) * n_times, 0.5, np.float32)
    captions_made = BlockCaptions(transcriber, sample_rate=rate, detector=Loudness())
    events = list(stream(blocks(said), captions_made))
    assert list(find_violations(events)) == []
    (event,) = (event for event in events if isinstance(event, Completed))
    assert event.reason == "end"
    assert event.end_s == 41 * 512 / SAMPLE_RATE_HZ
    assert np.abs(transcriber.buffers[-1][2_000:18_000] - 0.5).max() < 1e-3
    assert transcriber.buffers[0].size == SAMPLE_RATE_HZ, "a second of noise warms up"


@pytest.mark.parametrize("kind", ["<i2", "<i4", "<f4", "<f8"])
def test_to_float32_scales_integers_to_one(kind: str) -> None:
    whole = np.array([0.0, 0.5, -0.25, -1.0])
    scale = 2.0 ** (8 * np.dtype(kind).itemsize - 1) if "i" in kind else 1.0
    np.testing.assert_array_equal(
        to_float32((scale * whole).astype(kind)), whole.astype(np.float32)
    )


def test_block_captions_unsupported_options_raise() -> None:
    transcriber: Any = SilentTranscriber()
    with pytest.raises(OptionError, match="greedily"):
        BlockCaptions(
            transcriber,
            DecodingOptions(search=SearchOptions(beam_size=3)),
            detector=Loudness(),
        )
    with pytest.raises(OptionError, match=r"--rate .*5 Hz"):
        BlockCaptions(transcriber, sample_rate=5, detector=Loudness())


class RecordingCaptioner:
    """A captioner that records its calls."""

    def __init__(self) -> None:
        self.statistics = CaptionStatistics()
        self.heard_s = 0.0
        self.calls: list[tuple[int, str, int, bool]] = []
        self.n_fed = 0

    def feed(self, audio: FloatArray, *_: Any) -> Iterator[Event]:
        self.n_fed += 1
        if audio.size:
            self.calls.append((audio.size, "none", 0, False))
        return iter(())

    def skip_lost(self, n_samples: int) -> Iterator[Event]:
        self.calls.append((0, "lost", n_samples, False))
        return iter(())

    def suspend(self, gap: Interruption) -> Iterator[Event]:
        self.calls.append((0, gap.reason, 0, gap.paused))
        return iter(())

    def resume(self, gap: Interruption) -> Iterator[Event]:
        self.calls.append((0, "", gap.n_samples, gap.paused))
        return iter(())

    def finish(self) -> Iterator[Event]:
        return iter(())


def run_paused(
    *steps: Any, monkeypatch: pytest.MonkeyPatch | None = None, **how: Any
) -> list[tuple[int, str, int, bool]]:
    """Return sizes and absences of a stream that is paused (`-`) and resumed (`+`) by steps."""
    controls = Controls()
    captioner = RecordingCaptioner()
    if monkeypatch is not None:
        monkeypatch.setattr(time, "sleep", lambda _: controls.set_paused(False))

    def wait_for_captioner() -> None:
        n_fed = captioner.n_fed
        while captioner.n_fed < n_fed + 4:  # it has taken what was given before by then
            threading.Event().wait(0.01)

    actions = {
        "-": lambda: controls.set_paused(True),
        "+": lambda: controls.set_paused(False),
        ".": wait_for_captioner,
    }
    source = Steps(
        *(actions.get(step, step) if isinstance(step, str) else step for step in steps),
        **how,
    )
    recorded: list[Block] = []
    stream = CaptionStream(source, cast(Captioner, captioner), controls=controls)
    stream.recorders.append(recorded.append)
    assert list(stream.events()) == []
    n_fed = sum(size for size, *_ in captioner.calls)
    assert sum(block.audio.size for block in recorded) == n_fed, (
        "a pause is not recorded"
    )
    return captioner.calls


def make_block(n_samples: int, **fields: Any) -> Block:
    return Block(np.ones(n_samples, np.float32), **fields)


def make_absence(why: str = "", n_samples: int = 0) -> Block:
    """Return the block of a source that went away, or is back after a number of samples."""
    return Block(np.empty(0, np.float32), interruption=Interruption(why, n_samples))


def test_stream_paused_counts_missed_samples() -> None:
    lost = make_block(30, n_lost=5)
    assert run_paused(
        make_block(10), "-", make_block(20), lost, "+", make_block(40)
    ) == [
        (10, "none", 0, False),
        (0, "paused", 0, True),
        (0, "", 55, True),
        (40, "none", 0, False),
    ]


def test_stream_absence_within_pause_follows_it() -> None:
    gone = make_absence("unplugged")
    back = make_absence(n_samples=7)
    assert run_paused(
        "-", make_block(20), gone, "+", make_block(0), back, make_block(9)
    ) == [
        (0, "paused", 0, True),
        (0, "", 20, True),
        (0, "unplugged", 0, False),
        (0, "", 7, False),
        (9, "none", 0, False),
    ]


def test_stream_pause_within_absence_ends_it_first() -> None:
    gone = make_absence("unplugged")
    back = make_absence(n_samples=7)
    assert run_paused(
        gone, "-", make_block(0), back, make_block(3), "+", make_block(9)
    ) == [
        (0, "unplugged", 0, False),
        (0, "", 0, False),
        (0, "paused", 0, True),
        (0, "", 10, True),
        (9, "none", 0, False),
    ]


def test_stream_paused_recording_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = run_paused(
        make_block(10),
        "-",
        make_block(20),
        make_block(30),
        endless=False,
        monkeypatch=monkeypatch,
    )
    assert sum(size for size, *_ in calls) == 60
    assert [n for _, why, n, _ in calls if why == ""] == [0]


def test_stream_paused_audio_is_dropped_by_a_slow_reader() -> None:
    """The pause begins and ends while the captioner computes."""
    controls = Controls()
    captioner = RecordingCaptioner()
    is_done = threading.Event()
    feed = captioner.feed

    def feed_late(audio: Any, *rest: Any) -> Iterator[Event]:
        is_done.wait(10)
        return feed(audio, *rest)

    captioner.feed = feed_late  # type: ignore[method-assign]
    source = Steps(
        make_block(10),
        lambda: controls.set_paused(True),
        make_block(20),
        lambda: controls.set_paused(False),
        make_block(30),
        is_done.set,
        endless=False,
        pace=Pace.BUFFERED,
    )
    stream = CaptionStream(source, cast(Captioner, captioner), controls=controls)
    assert list(stream.events()) == []
    assert sum(size for size, *_ in captioner.calls) == 40


def test_stream_paused_real_time_recording_is_missed() -> None:
    calls = run_paused(
        make_block(10),
        ".",
        "-",
        make_block(20),
        ".",
        "+",
        ".",
        make_block(30),
        endless=False,
        pace=Pace.BUFFERED,
    )
    assert [size for size, *_ in calls if size] == [10, 30]
    assert [n for _, why, n, _ in calls if why == ""] == [20]


def test_stream_stopped_in_a_pause_ends() -> None:
    controls = Controls()
    alive = count()
    controls.set_paused(True)

    def stop_at_third_call() -> None:
        if next(alive) == 3:
            stream.stop()

    source = Steps(make_block(10), make_block(20), endless=False)
    stream = CaptionStream(
        source, cast(Captioner, RecordingCaptioner()), stop_at_third_call, controls
    )
    assert list(stream.events()) == []
    assert 3 < next(alive) < 9


class ScriptedSource(Closing):
    """A source of given blocks."""

    name = "given"
    pace = Pace.PULL
    endless = True

    def __init__(self, *blocks: Block) -> None:
        self._blocks = blocks

    def open(self) -> ScriptedSource:
        return self

    def close(self) -> None:
        pass

    def blocks(self) -> Iterator[Block]:
        yield from self._blocks


def run_stream(*blocks: Block) -> tuple[list[Event], Captioner]:
    captioner = Captioner(Speller(), Loudness(), quick())
    stream = CaptionStream(ScriptedSource(*blocks), captioner, controls=Controls())
    events = list(stream.events())
    assert list(find_violations(events)) == []
    return events, captioner


def list_gaps(events: list[Event]) -> list[tuple[str, bool]]:
    return [
        (event.name, event.stalled)
        for event in events
        if isinstance(event, Away | Back)
    ]


QUIET = [empty_block()] * (N_PATIENT + 3)


def test_stream_stalled_source_completes_its_segment() -> None:
    """The stall comes within a frame."""
    sound = np.concatenate([speech(range(3)), silence(0.5)])
    cut = speech(range(2)).size
    assert cut % 512
    events, captioner = run_stream(
        Block(sound[:cut]), *QUIET, Block(sound[cut:]), empty_block()
    )
    assert list_gaps(events) == [("away", True), ("back", True)]
    first, *_ = completed(events)
    assert first.text == "w0 w1"
    assert first.reason == "away"
    away = next(event for event in events if isinstance(event, Away))
    back = next(event for event in events if isinstance(event, Back))
    assert away.start_s == back.end_s
    figures = captioner.statistics
    assert figures.n_stalls == 1
    assert figures.n_away == 0
    assert figures.n_away_samples == 0
    assert figures.n_stream_samples >= sound.size


def test_stream_short_gap_between_blocks_is_no_stall() -> None:
    block = Block(speech(range(2)))
    quiet = QUIET[: N_PATIENT - 1]
    events, _ = run_stream(block, *quiet, block, *quiet)
    assert list_gaps(events) == []


@pytest.mark.parametrize("paused", [True, False])
def test_stream_absent_source_does_not_stall(paused: bool) -> None:
    away = empty_block(Interruption("gone", paused=paused))
    back = empty_block(Interruption("", 512, paused=paused))
    events, _ = run_stream(Block(speech([0])), away, *QUIET, back)
    assert list_gaps(events) == [("away", False), ("back", False)]


def test_stream_stall_ends_before_an_absence() -> None:
    away = empty_block(Interruption("unplugged"))
    back = empty_block(Interruption("", 512))
    events, _ = run_stream(Block(speech([0])), *QUIET, away, back)
    assert list_gaps(events) == [
        ("away", True),
        ("back", True),
        ("away", False),
        ("back", False),
    ]
