"""What the server counts and times, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from math import nan
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from whisper_hailo.core.types import Transcript
from whisper_hailo.serve.errors import kind_of, outcome_of
from whisper_hailo.serve.request import Priority

if TYPE_CHECKING:
    from whisper_hailo.serve.jobs import Job, JobQueue, Outcome
    from whisper_hailo.serve.request import StreamItemResult

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_STATES: Final = ("loading", "ready", "released", "broken", "closed")


MetricT = TypeVar("MetricT", Counter, Gauge, Histogram)


class Metrics:
    """Counters, gauges and histograms of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        make = self._make
        self._requests = make(Counter, "requests", "Requests by API and outcome.", "api", "outcome")
        self._errors = make(Counter, "errors", "Failures by kind.", "kind")
        self._audio = make(Counter, "audio_seconds", "Audio transcribed.")
        self._stage = make(Counter, "stage_seconds", "Time of the stages.", "stage")
        self._looks = make(Counter, "looks", "Looks of live streams, by outcome.", "outcome")
        text = "From asking to the first window."
        self._wait = make(Histogram, "wait_seconds", text, "priority", buckets=_SECONDS)
        text = "From asking to the last word."
        self._took = make(Histogram, "request_seconds", text, buckets=_SECONDS)
        self._rtfx = make(Gauge, "rtfx", "Audio seconds per second of the last request.")
        self._state = make(Gauge, "state", "1 for the state of a model.", "model", "state")
        self._unfinished = make(Gauge, "unfinished", "Requests not done.")
        self._waiting = make(Gauge, "queue_depth", "Requests not begun.")
        self._live = make(Gauge, "live_streams", "Live streams under way.")

        self._queues: list[JobQueue] = []
        self._unfinished.set_function(lambda: sum(one.n_unfinished for one in self._queues))
        self._waiting.set_function(lambda: sum(one.n_waiting for one in self._queues))
        self._live.set_function(lambda: sum(one.n_live for one in self._queues))
        self._celsius: list[Callable[[], float | None]] = []

    def _make(
        self,
        kind: type[MetricT],
        name: str,
        text: str,
        *labels: str,
        **more: Any,  # noqa: ANN401 - the metric's own
    ) -> MetricT:
        return kind(f"whisper_hailo_{name}", text, labels, registry=self.registry, **more)

    def watch(self, queue: JobQueue, celsius: Callable[[], float | None] | None) -> None:
        """Report a model's queue, and the temperature of its chip, where there is one."""
        self._queues.append(queue)
        if celsius is None:
            return
        self._celsius.append(celsius)
        if len(self._celsius) == 1:

            def chip_celsius() -> float:
                """Return the temperature by the first model that is loaded."""
                known = (celsius() for celsius in self._celsius)
                return next((now for now in known if now is not None), nan)

            gauge = self._make(Gauge, "chip_celsius", "Temperature of the chip.")
            gauge.set_function(chip_celsius)

    def state(self, model: str, state: str) -> None:
        for other in _STATES:
            self._state.labels(model, other).set(other == state)

    def failed(self, error: BaseException) -> None:
        """Count a request that failed by the kind of its error."""
        self._errors.labels(kind_of(error)).inc()

    def done(self, job: Job, outcome: Outcome | None, now_s: float) -> None:
        """Count a job that is over; `outcome` is `None` where it failed."""
        became = outcome_of(job.failure)
        if job.is_partial:
            self._looks.labels(became).inc()
        else:
            self._requests.labels(job.caller.api, became).inc()
        if job.begun_s:
            priority = Priority(job.priority).name.lower()
            self._wait.labels(priority).observe(job.begun_s - job.asked_s)
        if outcome is not None:
            for stage, ms in asdict(outcome.timings).items():
                if stage != "load_ms":
                    self._stage.labels(stage.removesuffix("_ms")).inc(ms / 1000)
        if isinstance(outcome, Transcript) and not job.is_partial:
            took_s = now_s - job.asked_s
            self._took.observe(took_s)
            self._audio.inc(outcome.duration_s)
            self._rtfx.set(outcome.duration_s / max(took_s, 1e-6))

    def heard(self, item: StreamItemResult) -> None:
        self._requests.labels(item.caller.api, outcome_of(item.failure)).inc()
        self._audio.inc(item.seconds)

    def page(self) -> bytes:
        return generate_latest(self.registry)
