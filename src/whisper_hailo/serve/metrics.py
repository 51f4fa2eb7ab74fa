"""What the server counts and times, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import outcome_of
from whisper_hailo.serve.request import Priority

if TYPE_CHECKING:
    from whisper_hailo.serve.jobs import Job, JobQueue, Outcome

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_NO_PARTS: Final = ("load_ms", "total_ms")
"""Timings that are no part of a request's time: that of the model, and the sum of all parts."""

_STATES: Final = ("loading", "ready", "released", "broken", "closed")


# A series beside each counter, which says when the server started.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counters, gauges and histograms of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        shared: dict[str, Any] = {
            "namespace": "whisper_hailo",
            "registry": self.registry,
        }
        counter: Callable[..., Counter] = partial(Counter, **shared)
        self._make_gauge = cast("Callable[..., Gauge]", partial(Gauge, **shared))
        histogram: Callable[..., Histogram] = partial(
            Histogram, buckets=_SECONDS, **shared
        )
        self._requests = counter(
            "requests", "Requests by API and outcome.", ("api", "outcome")
        )
        self._errors = counter("errors", "Failures by kind.", ("kind",))
        self._audio = counter("audio_seconds", "Audio transcribed.")
        self._untranscribed = counter(
            "untranscribed_seconds", "Speech that gave no text, by reason.", ("reason",)
        )
        self._stage = counter("stage_seconds", "Time by stage.", ("stage",))
        self._windows = counter(
            "windows", "Windows decoded, by priority.", ("priority",)
        )
        self._partials = counter(
            "looks", "Partials of live streams, by outcome.", ("outcome",)
        )
        self._wait = histogram(
            "wait_seconds", "Time from the request to its first window.", ("priority",)
        )
        self._took = histogram(
            "request_seconds", "Time from the request to its last word."
        )
        self._rtfx = self._make_gauge(
            "rtfx", "Audio seconds per second of the last request."
        )
        self._state = self._make_gauge(
            "state", "1 for the state of a model.", ("model", "state")
        )
        self._queues: list[JobQueue] = []
        self._watch_sum("unfinished", "Unfinished requests.", "n_unfinished")
        self._watch_sum(
            "queue_depth", "Requests that wait for their first window.", "n_waiting"
        )
        self._watch_sum("live_streams", "Live streams under way.", "n_live")
        self._chips: list[Callable[[], float | None]] = []

    def _watch_sum(self, name: str, text: str, attribute: str) -> None:
        """Add a gauge of the sum of an attribute of all queues."""

        def sum_queues() -> int:
            return sum(getattr(queue, attribute) for queue in self._queues)

        self._make_gauge(name, text).set_function(sum_queues)

    def watch_queue(self, queue: JobQueue) -> None:
        """Report the queue of a model."""
        self._queues.append(queue)

    def watch_chip(self, celsius: Callable[[], float | None]) -> None:
        """Report the temperature of a model's chip; `celsius` is `None` while it is not open."""
        if not self._chips:  # servers without a chip have no such gauge
            gauge = self._make_gauge("chip_celsius", "Temperature of the chip.")
            gauge.set_function(self._chip_celsius)
        self._chips.append(celsius)

    def _chip_celsius(self) -> float:
        """Return the temperature by the first model that is loaded; NaN if none is."""
        for read_celsius in self._chips:
            celsius = read_celsius()
            if celsius is not None:
                return celsius
        return nan

    def set_state(self, model: str, state: str) -> None:
        """Report the state of a model."""
        for other in _STATES:
            self._state.labels(model, other).set(other == state)

    def count_failure(self, error: BaseException) -> None:
        """Count a request that failed by the kind of its error."""
        self._errors.labels(outcome_of(error)).inc()

    def count_window(self, priority: int) -> None:
        """Count a decoded window."""
        self._windows.labels(Priority(priority).name.lower()).inc()

    def record_job(self, job: Job, outcome: Outcome | None, now_s: float) -> None:
        """Count and time a job that is over; `outcome` is `None` if it failed."""
        recording = job.recording
        label = outcome_of(recording.failure)
        if job.is_partial:
            self._partials.labels(label).inc()
        else:
            self._requests.labels(job.caller.api, label).inc()
        if recording.begun_s:
            priority = Priority(recording.priority).name.lower()
            self._wait.labels(priority).observe(recording.begun_s - job.asked_s)
        if outcome is not None:
            for stage, ms in asdict(outcome.timings).items():
                if stage not in _NO_PARTS:
                    self._stage.labels(stage.removesuffix("_ms")).inc(ms / 1000)
        if isinstance(outcome, Transcript) and not job.is_partial:
            took_s = now_s - job.asked_s
            self._took.observe(took_s)
            self._audio.inc(outcome.duration_s)
            for speech in outcome.untranscribed:
                self._untranscribed.labels(speech.reason).inc(
                    speech.end_s - speech.start_s
                )
            self._rtfx.set(outcome.duration_s / max(took_s, 1e-6))

    def record_item(self, api: str, seconds: float, failure: Exception | None) -> None:
        """Count an item of a live stream that is over."""
        self._requests.labels(api, outcome_of(failure)).inc()
        self._audio.inc(seconds)

    def render_page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
