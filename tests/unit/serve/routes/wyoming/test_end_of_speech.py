"""The end of a spoken command, found in a live stream."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info

from tests.fakes.micro_service import (
    DEMO,
    DEMO_TEXT,
    PHRASES,
    MicroService,
    caller,
)
from tests.fakes.speech_clients import (
    heard,
    read_pcm,
    say,
    wyoming_server,
)
from whisper_hailo.audio import load_audio
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.serve.audio import PcmFormat, SampleStream
from whisper_hailo.serve.request import Choices, Priority
from whisper_hailo.serve.routes.wyoming import end_of_speech
from whisper_hailo.serve.routes.wyoming.end_of_speech import EndOfSpeechDetector

CHUNK = 1024
PAUSE = bytes(3 * 2 * SAMPLE_RATE_HZ)


class Tonal:
    """A speech detector that takes tones for speech, and nothing else."""

    def reset(self) -> None:
        """Nothing is remembered."""

    def probability(self, frame: FloatArray) -> float:
        spectrum = np.abs(np.fft.rfft(frame)) ** 2
        return float(spectrum.max() > 0.3 * spectrum.sum() > 0)


def tone(seconds: float, level: float) -> FloatArray:
    time = np.arange(round(seconds * SAMPLE_RATE_HZ)) / SAMPLE_RATE_HZ
    return (level * np.sin(2 * np.pi * 500 * time)).astype(np.float32)


def noise(seconds: float, level: float = 0.01) -> FloatArray:
    samples = np.random.default_rng(0).normal(0, level, round(seconds * SAMPLE_RATE_HZ))
    return samples.astype(np.float32)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def listen(
    audio: FloatArray, silence_s: float = 0.7, speed: float = 1.0
) -> tuple[EndOfSpeechDetector, float | None]:
    """Push audio at a multiple of its speed; return where in it the command ended."""
    clock = Clock()
    detector = EndOfSpeechDetector(silence_s, Tonal(), clock)
    for begin in range(0, audio.size, CHUNK):
        clock.now_s += CHUNK / SAMPLE_RATE_HZ / speed
        if detector.push(audio[begin : begin + CHUNK]):
            return detector, (begin + CHUNK) / SAMPLE_RATE_HZ
    return detector, None


@pytest.mark.parametrize("silence_s", [0.25, 0.7, 1.25])
def test_detector_ends_after_silence(silence_s: float) -> None:
    _, end_s = listen(np.concatenate([noise(1), tone(2, 0.3), noise(3)]), silence_s)
    assert end_s == pytest.approx(3 + silence_s, abs=0.1)


def test_detector_shorter_pause_does_not_end_command() -> None:
    _, end_s = listen(
        np.concatenate([tone(1, 0.3), noise(0.5), tone(1, 0.3), noise(3)])
    )
    assert end_s == pytest.approx(2.5 + 0.7, abs=0.1)


@pytest.mark.parametrize(("background_db", "is_found"), [(20.0, True), (3.0, False)])
def test_detector_quiet_background_speech_is_ignored(
    background_db: float, is_found: bool
) -> None:
    television = tone(4, 0.3 * 10 ** (-background_db / 20))
    _, end_s = listen(np.concatenate([noise(0.5), tone(2, 0.3), television]))
    assert (end_s is not None and end_s < 3.8) is is_found


def test_detector_bounds_leave_out_earlier_sounds() -> None:
    click = np.concatenate([tone(0.06, 0.5), np.zeros(SAMPLE_RATE_HZ, np.float32)])
    before = np.concatenate([click, tone(1, 0.01)])
    audio = np.concatenate([before, tone(2, 0.3), noise(2)])
    detector, end_s = listen(audio)
    assert end_s is not None
    times_s = np.arange(audio.size)[slice(*detector.bounds())] / SAMPLE_RATE_HZ
    begin_s = before.size / SAMPLE_RATE_HZ
    assert begin_s - 0.5 <= times_s[0] <= begin_s - 0.3
    assert begin_s + 2.2 <= times_s[-1] <= begin_s + 2.7


def test_detector_faster_than_speech_finds_no_end() -> None:
    audio = np.concatenate([tone(1, 0.3), noise(2), tone(1, 0.3)])
    assert listen(audio, speed=100)[1] is None
    long = np.concatenate([audio, np.zeros(60 * SAMPLE_RATE_HZ, np.float32)])
    assert listen(long, speed=100)[1] is None


def test_detector_late_burst_of_silence_ends_command() -> None:
    """A network that stalled delivers a second of silence at once."""
    clock = Clock()
    detector = EndOfSpeechDetector(0.7, Tonal(), clock)
    clock.now_s = 1.0
    assert not detector.push(tone(1, 0.3))
    clock.now_s = 2.0
    assert detector.push(noise(1))


def test_detector_without_speech_ends_after_10_s() -> None:
    audio = noise(20)
    detector, end_s = listen(audio)
    assert end_s == pytest.approx(10, abs=0.1)
    assert detector.bounds() == (0, 0)


def test_detector_endless_speech_ends_after_30_s() -> None:
    assert listen(tone(40, 0.3))[1] == pytest.approx(30, abs=0.1)


def test_detector_minute_of_speech_is_no_command() -> None:
    detector = EndOfSpeechDetector(0.7, Tonal(), Clock())
    detector.push(tone(29, 0.3))
    assert detector.is_command
    detector.push(tone(32, 0.3))
    assert not detector.is_command


@pytest.mark.parametrize(
    ("level", "is_more"), [(0.3, True), (0.003, False)], ids=["speech", "television"]
)
def test_detector_answered_finds_only_the_speaker(
    level: float, *, is_more: bool
) -> None:
    detector, end_s = listen(np.concatenate([tone(2, 0.3), noise(1)]))
    assert end_s is not None
    detector.note_answer()
    assert not detector.push(noise(1))
    assert not detector.has_more_speech
    assert not detector.push(tone(1, level))
    assert detector.has_more_speech is is_more


def test_detector_pause_is_known_before_the_end() -> None:
    """After the silence that is kept, and not any more once the command goes on."""
    audio = np.concatenate([tone(1, 0.5), noise(0.5, 0), tone(0.5, 0.5), noise(0.5, 0)])
    clock = Clock()
    states = []
    detector = EndOfSpeechDetector(0.7, Tonal(), clock)
    for begin in range(0, audio.size, CHUNK):
        clock.now_s += CHUNK / SAMPLE_RATE_HZ
        assert not detector.push(audio[begin : begin + CHUNK])
        states.append((detector.is_pausing, detector.bounds()))
    pauses = [bounds for is_pausing, bounds in states if is_pausing]
    ends = sorted({end / SAMPLE_RATE_HZ for _, end in pauses})
    assert ends == pytest.approx([1.3, 2.3], abs=0.1)
    assert [is_pausing for is_pausing, _ in states].index(
        True
    ) * CHUNK > 1.25 * SAMPLE_RATE_HZ


@pytest.mark.parametrize(
    ("before", "behind", "speed", "is_lone"),
    [
        (noise(1), noise(1), 1.0, True),
        (noise(1), noise(1), 4.0, False),
        (noise(1), np.concatenate([noise(0.4), tone(0.5, 0.005)]), 1.0, False),
        (np.concatenate([tone(0.5, 0.005), noise(0.6)]), noise(1), 1.0, False),
    ],
    ids=["silence", "a file", "quiet speech behind", "quiet speech before"],
)
def test_detector_lone_command_has_silence_around_it(
    before: FloatArray, behind: FloatArray, speed: float, *, is_lone: bool
) -> None:
    detector, _ = listen(np.concatenate([before, tone(2, 0.3), behind]), 5.0, speed)
    assert detector.is_lone_command() is is_lone


def test_detector_without_speech_is_no_lone_command() -> None:
    assert not listen(noise(2))[0].is_lone_command()


def test_sample_stream_gives_mono_at_16_khz() -> None:
    assert not PcmFormat(16_000, 3, 1).can_stream
    stereo = np.stack([tone(1, 0.2), tone(1, 0.4)], axis=1)
    data = (stereo * 32768).astype("<i2").tobytes()
    assert np.allclose(SampleStream(16_000, 2).push(data), tone(1, 0.3), atol=1e-3)
    samples = SampleStream(32_000, 2)
    halved = np.concatenate([samples.push(data) for _ in range(10)])
    assert halved.size == pytest.approx(5 * SAMPLE_RATE_HZ, rel=0.1)


async def begin(client: AsyncTcpClient, data: bytes, **asked: Any) -> None:
    """Send a recording that has no end."""
    await client.write_event(Transcribe(**asked).event())
    await client.write_event(AudioStart(16_000, 2, 1).event())
    await go_on(client, data)


async def go_on(client: AsyncTcpClient, data: bytes) -> None:
    """Send more of a recording."""
    for start in range(0, len(data), 2 * CHUNK):
        chunk = AudioChunk(16_000, 2, 1, audio=data[start : start + 2 * CHUNK])
        await client.write_event(chunk.event())


async def answer(client: AsyncTcpClient) -> list[Event]:
    events: list[Event] = []
    while not events or events[-1].type not in {"transcript-stop", "error"}:
        event = await client.read_event()
        assert event is not None
        events.append(event)
    return events


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take audio for live, however fast it comes."""
    monkeypatch.setattr(end_of_speech, "LIVE_SHARE", 1e-9)
    monkeypatch.setattr(end_of_speech, "_MAX_AHEAD_S", np.inf)


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_session_answers_before_the_client_stops(micro: MicroService) -> None:
    async def ask() -> list[str]:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            texts = []
            for sensitivity in ("default", "relaxed"):
                await begin(
                    client, read_pcm(PHRASES[0]) + PAUSE, vad_sensitivity=sensitivity
                )
                texts.append(heard(await answer(client)))
                # As one that did not wait for it.
                await client.write_event(AudioStop().event())
            return texts

    alone = asyncio.run(micro.text(load_audio(PHRASES[0])))
    assert asyncio.run(ask()) == [alone, alone]


@pytest.fixture
def early(micro: MicroService, monkeypatch: pytest.MonkeyPatch) -> list[FloatArray]:
    """Return the audio of all texts that are begun early."""
    submit = micro.service.submit
    begun: list[FloatArray] = []

    def noted(audio: FloatArray, *of: Any, is_early: bool = False) -> Any:
        if is_early:
            begun.append(audio)
        return submit(audio, *of, is_early=is_early)

    monkeypatch.setattr(micro.service, "submit", noted)
    return begun


def command_in(data: bytes) -> FloatArray:
    """Return the command that is found in samples."""
    samples = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    detector = EndOfSpeechDetector(0.7)
    for start in range(0, samples.size, CHUNK):
        detector.push(samples[start : start + CHUNK])
    return samples[slice(*detector.bounds())]


@pytest.mark.slow
@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("pause_s", [0.0, 0.5])
@pytest.mark.parametrize("stops", [False, True])
def test_session_early_text_is_begun_once_in_a_pause(
    micro: MicroService, early: list[FloatArray], pause_s: float, *, stops: bool
) -> None:
    """It is used if the command ends there, and dropped if it goes on."""
    silence = bytes(2 * round(pause_s * SAMPLE_RATE_HZ))
    speech = read_pcm(PHRASES[0])
    data = speech + silence + speech if pause_s else speech
    data += bytes(2 * SAMPLE_RATE_HZ) if stops else PAUSE

    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await begin(client, data, vad_sensitivity="relaxed" if stops else "default")
            if stops:
                await client.write_event(AudioStop().event())
            return heard(await answer(client))

    def counted(name: str, **labels: str) -> float:
        return (
            micro.metrics.registry.get_sample_value("whisper_hailo_" + name, labels)
            or 0.0
        )

    made = {"api": "wyoming", "outcome": "done"}
    n_before = counted("requests_total", **made)
    before_s = counted("audio_seconds_total")
    text = asyncio.run(ask())
    command = command_in(data)
    assert counted("requests_total", **made) == n_before + 1
    assert counted("audio_seconds_total") == pytest.approx(
        before_s + command.size / SAMPLE_RATE_HZ
    )
    lengths = [audio.size for audio in early]
    assert lengths == sorted(set(lengths))
    assert np.array_equal(early[-1], command)
    assert text == asyncio.run(micro.text(command))
    assert not micro.model.queue.unfinished


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_session_beside_other_work_begins_no_early_text(
    micro: MicroService, early: list[FloatArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro.service, "is_idle", lambda: False)

    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await begin(client, read_pcm(PHRASES[0]) + PAUSE, vad_sensitivity="default")
            return heard(await answer(client))

    assert asyncio.run(ask()) == asyncio.run(
        micro.text(command_in(read_pcm(PHRASES[0]) + PAUSE))
    )
    assert not early


@pytest.mark.slow
def test_submit_early_has_batch_priority_until_wanted(micro: MicroService) -> None:
    async def ask() -> tuple[bool, str, Priority, Priority]:
        audio = load_audio(PHRASES[0])
        early = micro.service.submit(audio, Choices(), caller("early"), is_early=True)
        is_idle = micro.service.is_idle()
        before = early.job.recording.priority
        text = (await early.result(Priority.INTERACTIVE)).text
        return is_idle, text, Priority(before), Priority(early.job.recording.priority)

    is_idle, text, before, after = asyncio.run(ask())
    assert not is_idle
    assert text == asyncio.run(micro.text(load_audio(PHRASES[0])))
    assert before == Priority.BATCH
    assert after == Priority.INTERACTIVE


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_session_without_speech_gets_empty_text(micro: MicroService) -> None:
    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await begin(
                client, bytes(11 * 2 * SAMPLE_RATE_HZ), vad_sensitivity="default"
            )
            return heard(await answer(client))

    assert asyncio.run(ask()) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("finds_end", [False, True], ids=["by default", "endpointing"])
@pytest.mark.parametrize("n_repeats", [1, 5], ids=["a minute", "longer"])
def test_session_dictation_with_pauses_is_heard_whole(
    micro: MicroService, n_repeats: int, *, finds_end: bool
) -> None:
    """Three pauses of 3 s; a server that answers early answers again, with all of it."""
    first = read_pcm(PHRASES[0]) + PAUSE
    more = (read_pcm(PHRASES[1]) + PAUSE + first) * n_repeats

    async def ask() -> str:
        async with (
            wyoming_server(micro, finds_end=finds_end) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await begin(client, first)
            if finds_end:
                assert heard(await answer(client))
            await go_on(client, more)
            await client.write_event(AudioStop().event())
            return heard(await answer(client))

    whole = np.frombuffer(first + more, "<i2").astype(np.float32) / 32768
    assert asyncio.run(ask()) == asyncio.run(micro.text(whole))


@pytest.mark.slow
@pytest.mark.usefixtures("live")
def test_session_silence_after_answer_gets_no_second(micro: MicroService) -> None:
    async def ask() -> list[str]:
        async with (
            wyoming_server(micro, finds_end=True) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await begin(client, read_pcm(PHRASES[0]) + PAUSE)
            texts = [heard(await answer(client))]
            chunk = AudioChunk(16_000, 2, 1, audio=PAUSE)
            await client.write_event(chunk.event())
            await client.write_event(AudioStop().event())
            return [*texts, heard(await say(client, read_pcm(DEMO)))]

    alone = asyncio.run(micro.text(load_audio(PHRASES[0])))
    assert asyncio.run(ask()) == [alone, DEMO_TEXT]


@pytest.mark.slow
def test_session_file_with_pause_is_transcribed_whole(micro: MicroService) -> None:
    data = read_pcm(DEMO) + PAUSE + read_pcm(PHRASES[0])

    async def ask() -> str:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            return heard(await say(client, data))

    whole = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    text = asyncio.run(ask())
    assert text == asyncio.run(micro.text(whole))
    assert len(text) > len(DEMO_TEXT)


@pytest.mark.slow
@pytest.mark.parametrize("finds_end", [True, False])
def test_describe_says_who_finds_the_end(micro: MicroService, finds_end: bool) -> None:
    async def ask() -> Info:
        async with (
            wyoming_server(micro, finds_end=finds_end) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return Info.from_event(event)

    assert asyncio.run(ask()).asr[0].requires_external_vad is not finds_end


@pytest.mark.slow
def test_session_sensitivity_of_wrong_type_is_refused(micro: MicroService) -> None:
    async def ask() -> Event:
        async with (
            wyoming_server(micro) as port,
            AsyncTcpClient("127.0.0.1", port) as client,
        ):
            await client.write_event(Event("transcribe", {"vad_sensitivity": ["x"]}))
            return (await answer(client))[-1]

    assert asyncio.run(ask()).data["code"] == "malformed"
