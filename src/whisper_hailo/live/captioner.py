"""From a stream of audio to events: segments, partials while they run, final texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import perf_counter
from typing import Final

from whisper_hailo.audio.vad import FRAME_SAMPLES, SpeechDetector
from whisper_hailo.core.errors import DeviceError
from whisper_hailo.core.types import SAMPLE_RATE_HZ, BufferText, BufferWord, FloatArray
from whisper_hailo.decoding.search.verify_draft import Draft
from whisper_hailo.decoding.words import ends_sentence
from whisper_hailo.live.commit_policy import CommitPolicy, RunningText, caption_words
from whisper_hailo.live.engine import CaptionEngine
from whisper_hailo.live.events import (
    Away,
    Back,
    Cleared,
    Completed,
    Event,
    Lost,
    Marker,
    Moment,
    Partial,
    Reason,
    Settings,
    Started,
    StreamClock,
)
from whisper_hailo.live.listener import RunningSegment, SegmentListener
from whisper_hailo.live.options import CaptionOptions
from whisper_hailo.live.segmenter import FrameBuffer, Segmenter, Signal, cut_place
from whisper_hailo.live.sources.source import Voices
from whisper_hailo.live.statistics import CaptionStatistics

logger = logging.getLogger(__name__)

_REST: Final = 3.0
"""New audio before a partial, in times of what the last one took: a third of a core is for
partials, so that a slow machine has fewer of them before its final text is late."""

_OFTEN: Final = 10
"""So many slow partials are a slow machine; fewer may be another program."""

_LEAST_HEARD_S: Final = 0.1
"""Less audio than this says nothing and is no partial."""


class Captioner:
    """Turn audio into caption events; `now` is a monotonic clock in seconds.

    Attributes:
        statistics: of everything so far.

    Raises:
        OptionError: segments are longer than the engine takes.
    """

    def __init__(
        self,
        engine: CaptionEngine,
        detector: SpeechDetector,
        options: CaptionOptions | None = None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        options = options or CaptionOptions()
        self._longest = round(options.longest_s(engine.content_s) * SAMPLE_RATE_HZ)
        self._segmenter = Segmenter(detector, options)
        self._clock = StreamClock(now)
        self._frames = FrameBuffer()
        self._running: RunningSegment | None = None
        self._n_segments = 0
        self._partial_took_s = 0.0
        self._n_thin = 0
        self._away_s = 0.0  # how far the stream had come when its source went away,
        self._n_torn = 0  # what it gave of the next frame,
        self._is_paused = False  # and whether that was wanted
        self.statistics = CaptionStatistics()
        self._listener = SegmentListener(engine, options, self.statistics)

    def feed(
        self, audio: FloatArray, captured_s: float | None = None, voices: Voices | None = None
    ) -> Iterator[Event]:
        """Take audio of any length; make at most one partial, of all of it.

        Args:
            audio: `(n_samples,)` float32 at 16 kHz mono, following what was fed before.
            captured_s: when its last sample was captured, by the captioner's clock, from which
                latencies are measured; `None` for audio that is not live.
            voices: `(n_samples,)` speakers, where channels are speakers.
        """
        if captured_s is not None:
            self._clock.note_capture(captured_s, self._n_come + audio.size)
        for frame, speaker in self._frames.push(audio, voices):
            yield from self._frame(frame, speaker)
        if self._running is not None and self._is_due(self._running):
            yield from self._partial(self._running)

    def lose(self, n_samples: int) -> Iterator[Event]:
        """Complete the running segment and continue behind `n_samples` of lost audio."""
        if self._running is not None:
            yield from self._end(self._running, "loss")
        start_s, n_lost = self.heard_s, self._skip(n_samples)
        if not self.statistics.n_lost_samples:
            logger.warning(
                "%.2f s of sound could not wait and were lost: computing is too far behind (told "
                "once; events and lost_s tell of all)",
                n_lost / SAMPLE_RATE_HZ,
            )
        self.statistics.n_lost_samples += n_lost
        yield Lost(start_s, self.heard_s, **self._moment(start_s))

    def leave(self, why: str, *, paused: bool = False) -> Iterator[Event]:
        """Complete the running segment: the source is disconnected, or a user paused it."""
        if self._running is not None:
            yield from self._end(self._running, "away")
        self._away_s, self._n_torn = self.heard_s, self._frames.drop()
        self._is_paused = paused
        self.statistics.n_away += not paused
        yield Away(self._away_s, why, paused=paused, **self._moment(self._away_s))

    def come_back(self, n_samples: int) -> Iterator[Event]:
        """Continue behind the `n_samples` for which the source was away."""
        n_skipped = self._skip(n_samples + self._n_torn)
        if self._is_paused:
            self.statistics.n_paused_samples += n_skipped
        else:
            self.statistics.n_away_samples += n_skipped
        moment = self._moment(self._away_s)
        yield Back(self._away_s, self.heard_s, paused=self._is_paused, **moment)

    def _skip(self, n_samples: int) -> int:
        """Skip samples and the incomplete frame; return their number."""
        n_samples += self._frames.drop()
        self._segmenter.skip(n_samples)
        return n_samples

    def finish(self) -> Iterator[Event]:
        """Complete the running segment at the end of the stream."""
        rest = self._frames.rest()
        if rest is not None:
            yield from self._frame(*rest)
        if self._running is not None:
            yield from self._end(self._running, "end")

    @property
    def settings(self) -> dict[str, float | str]:
        """Return the settings that users change while captions run, by name."""
        return {"language": self._listener.language, **self._listener.options.changeable}

    def change(self, settings: dict[str, object]) -> Settings:
        """Change settings; another language applies from the next segment on.

        Raises:
            OptionError: one of them is refused; nothing is changed.
        """
        options = self._listener.options.changed(
            {name: value for name, value in settings.items() if name != "language"}
        )
        if "language" in settings:
            self._listener.language = str(settings["language"])
        self._listener.options = options
        self._segmenter.set(options)
        return Settings(self.heard_s, self.settings, **self._moment(self.heard_s))

    def mark(self, label: str) -> Marker:
        """Return a marker at the current place of the stream."""
        return Marker(self.heard_s, label, **self._moment(self.heard_s))

    def clear(self) -> Cleared:
        """Return the event that clears what is shown."""
        return Cleared(self.heard_s, **self._moment(self.heard_s))

    def _frame(self, frame: FloatArray, speaker: int | None) -> Iterator[Event]:
        self.statistics.n_stream_samples += frame.size
        signal = self._segmenter.push(frame, speaker)
        if signal is Signal.STARTED:
            yield self._start()
        elif self._running is None:
            return
        elif signal is Signal.ENDED and self._may_end(self._running):
            yield from self._end(self._running, "silence")
        elif signal is Signal.TURNED:
            yield from self._turn(self._running)
        elif self._segmenter.n_samples >= self._longest:
            yield from self._cut(self._running)

    def _may_end(self, running: RunningSegment) -> bool:
        """Return whether the silence is long enough for the text.

        Half a second within a sentence is a hesitation, and half a sentence is recognised worse.
        """
        known = running.text.known
        is_whole = not known or ends_sentence(known[-1].text)
        return is_whole or self._segmenter.silent_s >= self._listener.options.sentence_silence_s

    def _end(self, running: RunningSegment, reason: Reason) -> Iterator[Completed]:
        yield from self._complete(running, self._segmenter.n_samples, reason)
        self._segmenter.end()

    def _start(self, carried: Draft | None = None) -> Started:
        if carried is None:
            self._listener.begin()
        self._running = RunningSegment(
            self._n_segments,
            RunningText(CommitPolicy.of(self._listener.options)),
            self._segmenter.start,
            carried=carried,
            speaker=self._segmenter.speaker,
        )
        self._n_segments += 1
        start_s = self._running.start / SAMPLE_RATE_HZ
        speaker = self._running.speaker
        return Started(self._running.segment_id, start_s, speaker=speaker, **self._moment(start_s))

    def _is_due(self, running: RunningSegment) -> bool:
        new = self._segmenter.n_samples - running.shown
        enough = self._segmenter.n_samples >= _LEAST_HEARD_S * SAMPLE_RATE_HZ
        rest = round(_REST * self._partial_took_s * SAMPLE_RATE_HZ)
        return self._due > 0 and max(self._due, rest) <= new and enough

    def _partial(self, running: RunningSegment) -> Iterator[Partial]:
        """Transcribe the running segment again; skip this partial if the device fails."""
        n_samples = self._segmenter.n_samples
        self._count_skipped(running, n_samples)
        begin_s = self._clock.now()
        try:
            result = self._listener.transcribe_partial(running, self._segmenter.audio)
        except DeviceError as error:
            logger.warning("a partial was skipped: %s", error)
            running.shown = n_samples
            self._note_skipped(running, 1)
            return
        self._note_partial(self._clock.now() - begin_s)
        running.text.update(result, n_samples / SAMPLE_RATE_HZ, may_stay=running.is_decided)
        start_s, end_s = (at / SAMPLE_RATE_HZ for at in (running.start, running.start + n_samples))
        tentative = [one.word for one in running.text.tentative]
        event = Partial(
            running.segment_id,
            start_s,
            end_s,
            caption_words(running.text.committed, start_s, end_s),
            caption_words(tentative, start_s, end_s),
            n_skipped=running.n_skipped,
            language=result.language,
            speaker=running.speaker,
            **self._moment(start_s),
        )
        self._note_first_text(running, event.text)
        yield event

    def _note_partial(self, took_s: float) -> None:
        """Note how long a partial of live audio took; warn once if there are too few for it."""
        if not self._clock.is_live:
            return  # a file's captions do not depend on the machine
        self._partial_took_s = took_s
        rest_s, least_s = _REST * took_s, self._listener.options.min_partial_s
        self._n_thin += rest_s > 2 * least_s
        if self._n_thin == _OFTEN:
            self._n_thin += 1
            logger.warning(
                "a partial takes %.2f s here, so that there is one each %.1f s instead of each "
                "%.1f s (reported once); use a smaller model or more threads",
                took_s,
                rest_s,
                least_s,
            )

    def _complete(
        self, running: RunningSegment, n_samples: int, reason: Reason
    ) -> Iterator[Completed]:
        """Transcribe a segment for the last time; of a failing device, with what is known."""
        self._count_skipped(running, n_samples)
        audio = self._segmenter.audio[:n_samples]
        failure: DeviceError | None = None
        try:
            result = self._listener.transcribe_all(running, audio)
            words = running.text.finish(result)
        except DeviceError as error:
            words, failure = running.text.known, error
            result = BufferText(words, running.language or "")
        start_s, end_s = (at / SAMPLE_RATE_HZ for at in (running.start, running.start + n_samples))
        event = Completed(
            running.segment_id,
            start_s,
            end_s,
            caption_words(words, start_s, end_s),
            reason,
            n_skipped=running.n_skipped,
            language=result.language,
            translation=result.translation,
            speaker=running.speaker,
            **self._moment(start_s),
        )
        self._note_first_text(running, event.text)
        latency_s = self._clock.since(self._segmenter.last_speech)
        if latency_s is not None and reason in ("silence", "end"):  # others are no end of speech
            self.statistics.final_latency_s.append(latency_s)
        since_s = self._clock.since(running.start + n_samples)
        self.statistics.note_delay(since_s, event.at_s - event.heard_s)
        self.statistics.note_segment(
            event.language, n_samples, len(words), running.text.n_corrected
        )
        self._running = None
        yield event
        if failure is not None:
            self._segmenter.end()  # who goes on begins another segment
            raise failure

    def _cut(self, running: RunningSegment) -> Iterator[Event]:
        """Complete the first part of a segment that is too long and go on with the rest."""
        audio = self._segmenter.audio
        words: tuple[BufferWord, ...] = ()
        with suppress(DeviceError):  # without the times of words it is cut where it is quiet
            words = self._listener.transcribe_words(running, audio).words
        place = cut_place(self._segmenter, words, running.text.settled_s)
        yield from self._complete(running, place, "length")
        place_s = place / SAMPLE_RATE_HZ
        rest = [word for word in words if (word.start_s or 0.0) >= place_s]
        self._segmenter.cut(place)
        yield self._start(Draft(tuple(token for word in rest for token in word.tokens)))

    def _turn(self, running: RunningSegment) -> Iterator[Event]:
        """Complete one speaker's words and go on with the other's; committed words stay."""
        place = max(self._segmenter.turn(), round(running.text.settled_s * SAMPLE_RATE_HZ))
        yield from self._complete(running, place, "turn")
        self._segmenter.cut(place)
        yield self._start()

    def _count_skipped(self, running: RunningSegment, n_samples: int) -> None:
        """Count the partials that were due since the last one, except the one made now."""
        if self._due:
            n_due = (n_samples - running.shown) // max(self._due, FRAME_SAMPLES)
            self._note_skipped(running, max(0, n_due - 1))

    def _note_skipped(self, running: RunningSegment, n_partials: int) -> None:
        running.n_skipped += n_partials
        self.statistics.n_skipped += n_partials

    def _note_first_text(self, running: RunningSegment, text: str) -> None:
        if text and not running.first_text:
            running.first_text = True
            latency_s = self._clock.since(running.start)
            if latency_s is not None and running.carried is None:
                self.statistics.first_latency_s.append(latency_s)

    def _moment(self, start_s: float) -> Moment:
        """Return the times of an event that begins at `start_s` of the stream."""
        return self._clock.moment(start_s, self.heard_s)

    @property
    def _due(self) -> int:
        """Return the samples after which a partial is due; 0 makes none."""
        return round(self._listener.options.min_partial_s * SAMPLE_RATE_HZ)

    @property
    def _n_come(self) -> int:
        """Return the samples of the stream so far, incomplete frames included."""
        return self._segmenter.n_heard + self._frames.n_waiting

    @property
    def heard_s(self) -> float:
        """Return how far the stream has come, in seconds."""
        return self._segmenter.n_heard / SAMPLE_RATE_HZ
