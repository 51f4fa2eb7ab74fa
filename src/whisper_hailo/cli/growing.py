"""The results of one input while they come: text on a terminal, files that grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final

from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.progress import Progress, clock
from whisper_hailo.cli.sink import Sink, unfinished
from whisper_hailo.cli.stdout import emit
from whisper_hailo.cli.verbosity import note
from whisper_hailo.core.closing import Closing
from whisper_hailo.core.files import unwritable
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.names import shown
from whisper_hailo.core.types import Segment
from whisper_hailo.text.outputs import JSON, render
from whisper_hailo.transcription.memory import Journal
from whisper_hailo.transcription.run import Segments

_INTERVAL_S: Final = 2.0
"""Files are written anew so often at most: an hour of audio has thousands of segments."""


class Growing(Closing):
    """Takes the segments of one input.

    Args:
        entry: the input.
        sink: where its results go.
        identity: gives that of the run, for those that go on with it.
    """

    def __init__(self, entry: Input, sink: Sink, identity: Callable[[], str]) -> None:
        self._entry = entry
        self._sink = sink
        self._last_s = -_INTERVAL_S
        self._told = False
        kept = sink.journal(entry)
        self.journal = None if kept is None else Journal(kept, identity(), go_on=sink.goes_on)
        self.progress = Progress(shown(Path(entry.name).name))

    def open(self) -> Growing:
        """Look for what an earlier run left."""
        if self.journal is not None:
            self.journal.open()
            known_s = self.journal.known_s
            self.progress.skip(known_s)
            if known_s:
                note(f"{shown(self._entry.name)}: goes on after {clock(known_s)}")
        return self

    def follow(self, segments: Segments) -> None:
        """Print what comes, or have the files grow; at the end hand over the whole result."""
        coming = self._each(segments)
        if self._sink.prints_parts:
            for part in self._sink.printed(self._entry, coming):
                self.progress.close()
                emit(part)
        else:
            deque(coming, maxlen=0)
        self._tell_language(segments)
        self.progress.close()
        self._sink.put(self._entry, segments.transcript, printed=self._sink.prints_parts)
        if self.journal is not None:
            self.journal.remove()
        for _, target in self._sink.written(self._entry):
            unfinished(target).unlink(missing_ok=True)

    def _each(self, segments: Segments) -> Iterator[Segment]:
        for segment in segments:
            self._tell_language(segments)
            yield segment
            now_s = monotonic()
            if now_s - self._last_s >= _INTERVAL_S:
                self._last_s = now_s
                self._grow(segments)

    def _grow(self, segments: Segments) -> None:
        for fmt, target in self._sink.written(self._entry):
            if fmt == JSON:
                continue  # not to be read before its last bracket
            path = unfinished(target)
            with unwritable(path, self._sink.advice):
                text = render(segments.transcript, fmt, self._sink.layout)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def _tell_language(self, segments: Segments) -> None:
        probs = segments.language_probs
        if self._told or len(probs) < 2:
            return
        self._told = True
        code, probability = next(iter(probs.items()))
        self.progress.close()
        note(f"{shown(self._entry.name)}: {language_name(code)} ({probability:.0%})")

    def close(self) -> None:
        """Leave what there is to a run that goes on."""
        self.progress.close()
        if self.journal is not None:
            self.journal.close()
            if self.journal.kept:
                note(f"{shown(self._entry.name)}: what was decoded is kept; --resume goes on")
