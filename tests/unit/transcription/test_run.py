"""Runs: what recordings share, their segments one by one, and their transcript so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.engine import PLAN, Encoder, Interpreter, noise
from tests.fakes.results import SETTINGS
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.run import Segments, TranscriptionRun
from whisper_hailo.transcription.stages import Stages
from whisper_hailo.transcription.window import Context

LONG = LongOptions(strategy="consecutive", skip_silence=False)


@dataclass
class Listener(Interpreter):
    """Says the start of each window, in a recording of some language."""

    language: str = "en"

    def context(self) -> Context:
        return Context(self.language)


@dataclass
class FakePipeline:
    """The stages of made-up parts; keeps what it is asked to describe."""

    encoder: Encoder = field(default_factory=Encoder)
    language: str = "en"
    load_ms: float = 7.0
    plan = PLAN
    encode_ahead = False
    tokenizer = None
    described: list[tuple[Any, ...]] = field(default_factory=list)

    def resolve_long(self, options: DecodingOptions, long: LongOptions | None) -> Any:
        del options
        return long or LONG

    def resolve_batch_size(self, batch_size: int | None) -> int:
        return batch_size or 3

    def stages(self, options: DecodingOptions, long: LongOptions) -> Stages:
        del options, long
        listener = Listener(self.encoder, language=self.language)
        return Stages(self.encoder, listener, self.plan)  # type: ignore[arg-type]

    def settings(self, *described: Any) -> Any:
        self.described.append(described)
        return SETTINGS


def segments_of(pipeline: FakePipeline, audio: FloatArray) -> Segments:
    run = TranscriptionRun(pipeline, DecodingOptions(), batch_size=1)  # type: ignore[arg-type]
    return Segments(run, run.recording(audio))


def test_segments_come_while_later_audio_waits() -> None:
    pipeline = FakePipeline()
    segments = segments_of(pipeline, noise(6))
    assert next(segments).text == "0"
    assert len(pipeline.encoder.threads) == 1
    assert [segment.text for segment in segments.transcript.segments] == ["0"]
    rest = [segment.text for segment in segments]
    assert [segment.text for segment in segments.transcript.segments] == ["0", *rest]
    assert segments.transcript.duration_s == 6.0


def test_segments_before_a_failure_are_kept() -> None:
    """A chip that goes away in the second hour does not cost the first."""
    segments = segments_of(FakePipeline(Encoder(fail_at=3)), noise(8))
    with pytest.raises(DeviceError):
        list(segments)
    assert [segment.text for segment in segments.transcript.segments] == ["0", "1"]


def test_segments_closed_encode_no_more() -> None:
    pipeline = FakePipeline()
    segments = segments_of(pipeline, noise(8))
    next(segments)
    segments.close()
    n_encoded = len(pipeline.encoder.threads)
    assert list(segments) == []
    assert len(pipeline.encoder.threads) == n_encoded


def test_segments_language_is_unknown_until_detected() -> None:
    segments = segments_of(FakePipeline(language="auto"), noise(2))
    assert segments.language is None
    assert segments.language_probs == {}
    assert segments_of(FakePipeline(language="de"), noise(2)).language == "de"


def test_transcript_describes_what_was_used() -> None:
    """Not what was asked for: `auto` and defaults are resolved."""
    pipeline = FakePipeline()
    options = DecodingOptions()
    run = TranscriptionRun(pipeline, options)  # type: ignore[arg-type]
    transcript = run.transcript(run.recording(noise(1)))
    assert pipeline.described == [(options, LONG, 3)]
    assert transcript.settings is SETTINGS
    assert transcript.timings.load_ms == 7.0
    assert transcript.segments == ()


def test_recordings_of_a_run_share_turns_only_with_each_other() -> None:
    pipeline = FakePipeline()
    kind: Any = lambda *given, **named: SimpleNamespace(given=given, **named)  # noqa: E731
    first = TranscriptionRun(pipeline, DecodingOptions())  # type: ignore[arg-type]
    other = TranscriptionRun(pipeline, DecodingOptions())  # type: ignore[arg-type]
    one_client = [first.recording_of(kind, noise(1), priority=n) for n in (0, -1)]
    assert one_client[0].share is one_client[1].share
    assert one_client[0].share is not other.recording_of(kind, noise(1)).share
    assert [recording.priority for recording in one_client] == [0, -1]
