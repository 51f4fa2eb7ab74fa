"""The segments of one recording, as they come."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from whisper_hailo.core.languages import AUTO_LANGUAGE
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.transcription.recording import Recording
from whisper_hailo.transcription.run import TranscriptionRun
from whisper_hailo.transcription.sources import Listed


class Segments(Iterator[Segment]):
    """Gives each segment when it is final; the work is done while they are asked for.

    Args:
        run: what transcribes.
        recording: not begun yet.
    """

    def __init__(self, run: TranscriptionRun, recording: Recording) -> None:
        self._run = run
        self._recording = recording
        self._segments = _steps(run, recording)

    def __next__(self) -> Segment:
        """The next one.

        Raises:
            AudioError: the recording cannot be read on; the segments before that were given.
            StopIteration: it is done.
        """
        return next(self._segments)

    def close(self) -> None:
        """End the work and give the file back; there are no more segments."""
        self._segments.close()

    @property
    def language(self) -> str | None:
        """Code; `None` until it was found out."""
        language = self._recording.context.likeliest_language
        return None if language == AUTO_LANGUAGE else language

    @property
    def language_probs(self) -> dict[str, float]:
        """Code to probability, likeliest first; empty where it was told, or is not known yet."""
        return self._recording.context.language_probs

    @property
    def transcript(self) -> Transcript:
        """What there is so far: of the whole recording when all segments have come."""
        return self._run.transcript(self._recording)


def _steps(run: TranscriptionRun, recording: Recording) -> Generator[Segment, None, None]:
    """A function, which knows nothing of who asks: it ends as soon as nobody does."""
    n_given = 0
    for _ in run.schedule(Listed([recording])).steps():
        new = recording.segments[n_given:]
        n_given += len(new)
        yield from new
    if recording.failure is not None:
        raise recording.failure
