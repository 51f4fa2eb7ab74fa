"""Transcripts of recordings by this project, a file of JSON lines for each setup."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from whisper_hailo import Transcriber
from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo.core.types import FloatArray
from whisper_hailo_lab.accuracy.setups import (
    AccuracySetup,
    RememberingEncoder,
    open_transcriber,
)
from whisper_hailo_lab.data.speech import SpeechRecording, knows_language
from whisper_hailo_lab.runs.machine import cpu_s, package_versions, this_machine
from whisper_hailo_lab.runs.transcripts import SYSTEM, TranscriptLine, read_transcripts

logger = logging.getLogger(__name__)

PACKAGES: Final = ("whisper-hailo", "onnxruntime", "numpy", "tokenizers")
_EVERY_S: Final = 20.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, slots=True)
class TranscriptText:
    """Transcript of one recording by one setup.

    Attributes:
        text: raw text.
        language: code of the language, detected or given.
        segments: start and end in seconds, and text.
    """

    text: str
    language: str
    segments: tuple[tuple[float, float, str], ...] = ()


Work: TypeAlias = Callable[
    [Transcriber, AccuracySetup, SpeechRecording, FloatArray], TranscriptText
]
"""Function that returns the text of one recording with the settings of a setup."""


class TranscriptFile:
    """A growing file of transcripts; recordings that it already has are not transcribed again.

    Args:
        path: the file, which may exist.
        setup: settings that its lines were made with.
    """

    def __init__(self, path: Path, setup: AccuracySetup) -> None:
        self.setup = setup
        self.lines = read_transcripts(path) if path.is_file() else []
        self._known = {line.key for line in self.lines}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", encoding="utf-8")

    def needs(self, recording: SpeechRecording) -> bool:
        """Return whether a recording is still to be transcribed."""
        return (
            knows_language(self.setup.model_name, recording.language)
            and recording.key not in self._known
        )

    def append(self, line: TranscriptLine) -> None:
        """Write one line at once, so that an interrupted run goes on behind it."""
        self.lines.append(line)
        self._known.add(line.key)
        self._file.write(line.as_json() + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def transcribe_all(
    setups: Sequence[AccuracySetup],
    recordings: Sequence[SpeechRecording],
    out: Path,
    threads: int = 1,
    work: Work | None = None,
) -> dict[str, list[TranscriptLine]]:
    """Transcribe recordings with every setup.

    Setups that differ in decoding only share a transcriber and the encoder's work; the processor
    time of each counts that work as if it had run alone.

    Args:
        setups: in any order; those of one engine are done together.
        recordings: what is transcribed.
        out: folder of the files, `<setup>.jsonl`.
        threads: threads per operator.
        work: function that is called with each recording; `None` transcribes it.

    Returns:
        the lines of each setup by its name, in the order of the file.

    Raises:
        WhisperHailoError: a model cannot be had.
    """
    found: dict[str, list[TranscriptLine]] = {}
    ordered = sorted(setups, key=lambda setup: setup.engine_key)
    for _, group in groupby(ordered, key=lambda setup: setup.engine_key):
        files = [TranscriptFile(out / f"{setup.name}.jsonl", setup) for setup in group]
        with ExitStack() as stack:
            for file in files:
                stack.callback(file.close)
            if any(file.needs(recording) for file in files for recording in recordings):
                opened = open_transcriber(files[0].setup, threads)
                _fill_files(
                    files,
                    recordings,
                    work or transcribe_offline,
                    *stack.enter_context(opened),
                )
        wanted = {recording.key for recording in recordings}
        for file in files:
            found[file.setup.name] = [
                line
                for line in file.lines
                if line.key in wanted
                and knows_language(file.setup.model_name, line.language)
            ]
    return found


def _fill_files(
    files: Sequence[TranscriptFile],
    recordings: Sequence[SpeechRecording],
    work: Work,
    transcriber: Transcriber,
    encoder: RememberingEncoder | None,
) -> None:
    logged_s = time.monotonic()
    for number, recording in enumerate(recordings):
        missing = [file for file in files if file.needs(recording)]
        if not missing:
            continue
        audio = recording.load()
        for file in missing:
            begin_s = _counted_s(encoder)
            made, error = _try_work(work, transcriber, file.setup, recording, audio)
            taken_s = _counted_s(encoder) - begin_s
            file.append(make_line(file.setup, recording, made, taken_s, error))
        if encoder is not None:
            encoder.forget()
        if time.monotonic() - logged_s > _EVERY_S:
            logged_s = time.monotonic()
            logger.info(
                "%s: %d of %d", missing[0].setup.name, number + 1, len(recordings)
            )


def transcribe_offline(
    transcriber: Transcriber,
    setup: AccuracySetup,
    recording: SpeechRecording,
    audio: FloatArray,
) -> TranscriptText:
    """Transcribe one recording as `whisper-hailo transcribe` does."""
    named: dict[str, Any] = {"timestamps": setup.timestamps, **setup.options}
    if setup.language == "given" and recording.has_speech:
        named["language"] = recording.language
    transcript = transcriber.transcribe(audio, **named)
    segments = tuple(
        (round(segment.start_s, 2), round(segment.end_s, 2), segment.text)
        for segment in transcript.segments
    )
    return TranscriptText(transcript.text, transcript.language, segments)


def make_line(
    setup: AccuracySetup,
    recording: SpeechRecording,
    made: TranscriptText | None,
    seconds_cpu: float,
    error: str = "",
) -> TranscriptLine:
    """Return a line of a recording's text, or of the error that it gave instead."""
    versions = package_versions(PACKAGES)
    return TranscriptLine(
        set=recording.set,
        id=recording.id,
        language=recording.language,
        seconds=round(recording.seconds, 3),
        reference=recording.text,
        text=made.text if made is not None else "",
        language_found=made.language if made is not None else None,
        segments=made.segments if made is not None else (),
        seconds_cpu=round(seconds_cpu, 3),
        system=SYSTEM,
        model=setup.model_name,
        options=setup.as_json(),
        version=", ".join(f"{name} {version}" for name, version in versions.items()),
        machine=this_machine().label,
        error=error,
    )


def _try_work(work: Work, *arguments: Any) -> tuple[TranscriptText | None, str]:  # noqa: ANN401
    """Return what a work returns, and the message of an error of ours."""
    try:
        return work(*arguments), ""
    except WhisperHailoError as error:
        return None, str(error)


def _counted_s(encoder: RememberingEncoder | None) -> float:
    """Return processor seconds so far, with those that remembered windows saved."""
    return cpu_s() + (encoder.saved_s if encoder is not None else 0.0)
