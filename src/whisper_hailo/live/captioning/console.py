"""What users change of a captioner that runs, and what is told of it."""

from __future__ import annotations

from whisper_hailo.live.captioning.listener import SegmentListener
from whisper_hailo.live.captioning.segmenter import Segmenter
from whisper_hailo.live.captioning.timeline import StreamClock
from whisper_hailo.live.events import Cleared, Marker, Settings


class Console:
    """Used on the captioner's thread, between two pieces of audio.

    Args:
        listener: of the captioner, like the others.
        segmenter: likewise.
        clock: of the captioner.
    """

    def __init__(self, listener: SegmentListener, segmenter: Segmenter, clock: StreamClock) -> None:
        self._listener = listener
        self._segmenter = segmenter
        self._clock = clock

    @property
    def settings(self) -> dict[str, float | str]:
        """What may be changed, by name."""
        return {"language": self._listener.language, **self._listener.options.changeable}

    def change(self, settings: dict[str, object]) -> Settings:
        """Hear otherwise; another language from the next segment on.

        Raises:
            OptionError: something of it may not be changed so, and nothing was.
        """
        options = self._listener.options.changed(
            {name: value for name, value in settings.items() if name != "language"}
        )
        if "language" in settings:
            self._listener.language = str(settings["language"])
        self._listener.options = options
        self._segmenter.set(options)
        at_s = self._segmenter.heard_s
        return Settings(at_s, self.settings, **self._clock.moment(at_s, at_s))

    def mark(self, label: str) -> Marker:
        """A place of the stream that somebody wants to find again."""
        at_s = self._segmenter.heard_s
        return Marker(at_s, label, **self._clock.moment(at_s, at_s))

    def clear(self) -> Cleared:
        """What is shown is to be taken away."""
        at_s = self._segmenter.heard_s
        return Cleared(at_s, **self._clock.moment(at_s, at_s))
