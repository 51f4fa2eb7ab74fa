"""Captions of recordings, as fast as they can be read."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import soundfile

from whisper_hailo import Transcriber
from whisper_hailo.audio.vad import make_detector
from whisper_hailo.core.types import SAMPLE_RATE_HZ, FloatArray
from whisper_hailo.live.captioner import Captioner
from whisper_hailo.live.events import Completed
from whisper_hailo.live.recognizer import WhisperRecognizer, caption_defaults
from whisper_hailo.live.sources.file import FileSource
from whisper_hailo.live.stream import CaptionStream
from whisper_hailo_lab.accuracy.setups import AccuracySetup
from whisper_hailo_lab.accuracy.transcribe import TranscriptText
from whisper_hailo_lab.data.speech import SpeechRecording


def caption_text(
    transcriber: Transcriber,
    setup: AccuracySetup,
    recording: SpeechRecording,
    audio: FloatArray,
) -> TranscriptText:
    """Caption one recording as `whisper-hailo caption FILE` does; only final text counts."""
    is_given = setup.language == "given" and recording.has_speech
    options = caption_defaults(transcriber.default_anti_repetition)
    if is_given:
        options = replace(options, language=recording.language)
    engine = WhisperRecognizer(transcriber, options)
    with tempfile.TemporaryDirectory(prefix="captions-") as folder:
        path = Path(folder) / "recording.wav"
        soundfile.write(path, audio, SAMPLE_RATE_HZ, "FLOAT")
        with FileSource(path) as source:
            events = list(
                CaptionStream(source, Captioner(engine, make_detector())).events()
            )
    completed = [
        event for event in events if isinstance(event, Completed) and event.text
    ]
    languages = [event.language for event in completed if event.language]
    return TranscriptText(
        text=" ".join(event.text for event in completed),
        language=languages[0] if languages else options.language,
        segments=tuple((event.start_s, event.end_s, event.text) for event in completed),
    )
