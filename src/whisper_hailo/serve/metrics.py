"""What the server counts and times, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, Final, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import outcome_of
from whisper_hailo.serve.request import Priority

if TYPE_CHECKING:
    from whisper_hailo.serve.jobs import Job, JobQueue, Outcome

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_STATES: Final = ("loading", "ready", "released", "broken", "closed")


class Metrics:
    """Counters, gauges and histograms of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        how: dict[str, Any] = {"namespace": "whisper_hailo", "registry": self.registry}
        counter: Callable[..., Counter] = partial(Counter, **how)
        gauge = self._gauge = cast("Callable[..., Gauge]", partial(Gauge, **how))
        histogram: Callable[..., Histogram] = partial(Histogram, buckets=_SECONDS, **how)
        self._requests = counter("requests", "Requests by API and outcome.", ("api", "outcome"))
        self._errors = counter("errors", "Failures by kind.", ("kind",))
        self._audio = counter("audio_seconds", "Audio transcribed.")
        self._stage = counter("stage_seconds", "Time of the stages.", ("stage",))
        self._looks = counter("looks", "Looks of live streams, by outcome.", ("outcome",))
        text = "From asking to the first window."
        self._wait = histogram("wait_seconds", text, ("priority",))
        self._took = histogram("request_seconds", "From asking to the last word.")
        self._rtfx = gauge("rtfx", "Audio seconds per second of the last request.")
        self._state = gauge("state", "1 for the state of a model.", ("model", "state"))
        self._queues: list[JobQueue] = []
        for name, text, attribute in (
            ("unfinished", "Requests not done.", "n_unfinished"),
            ("queue_depth", "Requests not begun.", "n_waiting"),
            ("live_streams", "Live streams under way.", "n_live"),
        ):
            gauge(name, text).set_function(partial(self._sum, attribute))
        self._celsius: list[Callable[[], float | None]] = []

    def _sum(self, attribute: str) -> int:
        return sum(getattr(queue, attribute) for queue in self._queues)

    def watch(self, queue: JobQueue, celsius: Callable[[], float | None] | None) -> None:
        """Report a model's queue, and the temperature of its chip, where there is one."""
        self._queues.append(queue)
        if celsius is not None:
            if not self._celsius:
                gauge = self._gauge("chip_celsius", "Temperature of the chip.")
                gauge.set_function(self._chip_celsius)
            self._celsius.append(celsius)

    def _chip_celsius(self) -> float:
        """Return the temperature by the first model that is loaded."""
        known = (celsius() for celsius in self._celsius)
        return next((now for now in known if now is not None), nan)

    def state(self, model: str, state: str) -> None:
        for other in _STATES:
            self._state.labels(model, other).set(other == state)

    def failed(self, error: BaseException) -> None:
        """Count a request that failed by the kind of its error."""
        self._errors.labels(outcome_of(error)).inc()

    def done(self, job: Job, outcome: Outcome | None, now_s: float) -> None:
        """Count a job that is over; `outcome` is `None` where it failed."""
        recording = job.recording
        became = outcome_of(recording.failure)
        if job.is_partial:
            self._looks.labels(became).inc()
        else:
            self._requests.labels(job.caller.api, became).inc()
        if recording.begun_s:
            priority = Priority(recording.priority).name.lower()
            self._wait.labels(priority).observe(recording.begun_s - job.asked_s)
        if outcome is not None:
            for stage, ms in asdict(outcome.timings).items():
                if stage != "load_ms":
                    self._stage.labels(stage.removesuffix("_ms")).inc(ms / 1000)
        if isinstance(outcome, Transcript) and not job.is_partial:
            took_s = now_s - job.asked_s
            self._took.observe(took_s)
            self._audio.inc(outcome.duration_s)
            self._rtfx.set(outcome.duration_s / max(took_s, 1e-6))

    def heard(self, api: str, seconds: float, failure: Exception | None) -> None:
        """Count an item of a live stream that is over."""
        self._requests.labels(api, outcome_of(failure)).inc()
        self._audio.inc(seconds)

    def page(self) -> bytes:
        return generate_latest(self.registry)
