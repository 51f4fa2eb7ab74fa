"""The service behind all routes: its models, transcripts of recordings, live captions."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.options import SearchOptions
from whisper_hailo.live.recognizer import TOKENS_PER_SECOND
from whisper_hailo.serve.audio import AudioDecoders
from whisper_hailo.serve.errors import UnknownModelError
from whisper_hailo.serve.live_recognizer import LiveRecognizer
from whisper_hailo.serve.metrics import Metrics
from whisper_hailo.serve.model_memory import ModelMemory
from whisper_hailo.serve.options import RELEASE_AFTER_S, LimitOptions, ListenOptions
from whisper_hailo.serve.quota import Quota
from whisper_hailo.serve.request import Caller, Choices, RequestDefaults
from whisper_hailo.serve.served_model import ModelState, ServedModel, length_s
from whisper_hailo.serve.ticket import EventChannel, Ticket
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.transcription.longform.windows_ahead import OpenedAudio
from whisper_hailo.transcription.transcriber import Transcriber

WHISPER_1: Final = "whisper-1"

_OPENAI_MODEL: Final = re.compile(r"gpt-.*(transcribe|whisper).*|whisper.*")
"""Names of OpenAI's models that transcribe: new ones come every year, old ones are shut down."""


class TranscriptionService(Closing):
    """The models of a server, for the routes of one event loop.

    Attributes:
        models: the models; the first is the default.
        listed: models by the names that `/v1/models` lists.
        quota: of HTTP, realtime included.
        wyoming_quota: of Wyoming, which has no keys: who has none takes nothing from who does.
        decoders: decode what clients send.
        speaker_finder: tells speakers apart; loaded when it is first asked for.
        memory: that of the models and the speaker models.
        ending: set when the server is to end.

    Raises:
        OptionError: two models have the same name.
    """

    def __init__(
        self,
        models: Sequence[ServedModel],
        metrics: Metrics,
        limits: LimitOptions,
        aliases: Sequence[str] = (),
        speaker_models: Path | None = None,
        *,
        memory: ModelMemory | None = None,
    ) -> None:
        self.models = tuple(models)
        self.default = self.models[0]
        self.listed = {model.name: model for model in self.models}
        if len(self.listed) < len(self.models):
            names = ", ".join(model.name for model in self.models)
            raise OptionError(
                f"--model gives two models the same name ({names}); leave one out"
            )
        for alias in (WHISPER_1, *aliases):
            self.listed.setdefault(alias, self.default)
        self._models_by_name: dict[str, ServedModel] = {}
        # Reversed, because the first of two models with the same further name has it.
        for model in reversed(self.models):
            for name in model.other_names:
                self._models_by_name[name] = model
        self._models_by_name |= self.listed
        self.metrics = metrics
        self.limits = limits
        self.quota = Quota(limits)
        self.wyoming_quota = Quota(limits.for_wyoming())
        self.decoders = AudioDecoders(limits)
        self.speaker_finder = SpeakerFinder(speaker_models)
        self.memory = memory or ModelMemory()
        self.ending = asyncio.Event()

    def find_model(self, name: str | None) -> ServedModel:
        """Return the model that a request names; the default without a name.

        Names of OpenAI's models mean the default: many clients have no setting for them. A hub id
        means the model that is served under its own name: `Systran/faster-whisper-base` is `base`.

        Raises:
            UnknownModelError: no model has that name.
        """
        if not name:
            return self.default
        if name in self._models_by_name:
            return self._models_by_name[name]
        own_name = _own_name(name)
        if own_name in self._models_by_name:
            return self._models_by_name[own_name]
        if _OPENAI_MODEL.fullmatch(name):
            return self.default
        names = ", ".join(self.listed)
        raise UnknownModelError(
            f"model {name[:80]!r} is not served, expected one of: {names}"
        )

    def open(self) -> Self:
        """Load the default model; the others are loaded when they are first asked for."""
        for model in self.models:
            model.open()
        return self

    def stop(self) -> None:
        """Accept no further request; those under way are finished."""
        self.quota.is_closed = True
        self.wyoming_quota.is_closed = True
        for model in self.models:
            model.queue.close()

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until all requests are done; return whether they are."""
        deadline_s = time.monotonic() + timeout_s
        for model in self.models:
            left_s = max(0.0, deadline_s - time.monotonic())
            if not model.queue.wait_until_empty(left_s):
                return False
        return True

    def close(self) -> None:
        """Cancel what is not done, and release all models."""
        # All first: a model that is closed waits for its thread.
        for model in self.models:
            model.cancel_all()
        for model in self.models:
            model.close()
        self.speaker_finder.close()

    @property
    def state(self) -> ModelState:
        """State of the default model, or that the server ends."""
        return ModelState.ENDING if self.quota.is_closed else self.default.state

    def is_idle(self) -> bool:
        """Return whether no model has anything to do."""
        return not any(model.queue.unfinished for model in self.models)

    def make_recognizer(self, choices: Choices, caller: Caller) -> LiveRecognizer:
        """Return the recogniser of a live stream: greedy and bounded, as the command `caption`.

        Raises:
            OptionError: the model does not support what the client chose.
            UnknownModelError: no model has the name that the client chose.
        """
        model = self.find_model(choices.model)
        options, _ = model.defaults.with_choices(choices)
        options = replace(
            options,
            search=SearchOptions(),
            limits=replace(options.limits, max_per_second=TOKENS_PER_SECOND),
            timestamps=False,
            word_timestamps=False,
        )
        return LiveRecognizer(model, options, caller, self.limits.deadline_s)

    def submit(
        self,
        audio: FloatArray | OpenedAudio,
        choices: Choices,
        caller: Caller,
        *,
        is_early: bool = False,
    ) -> Ticket:
        """Transcribe `(n_samples,)` at 16 kHz, or audio that is still decoded.

        It goes after all else if more may be said (`is_early`).

        Raises:
            OptionError: the model does not support what the client chose.
            UnknownModelError: no model has the name that the client chose.
            BusyError: the server ends.
        """
        events = EventChannel()
        try:
            model = self.find_model(choices.model)
            job = model.submit(audio, choices, caller, events.emit, is_early=is_early)
        except BaseException:
            if isinstance(audio, OpenedAudio):
                audio.close()
            raise
        return Ticket(
            model,
            job,
            events,
            duration_s=length_s(audio),
            deadline_s=self.limits.deadline_s,
        )


def make_service(
    models: Sequence[tuple[Transcriber, RequestDefaults]],
    listen: ListenOptions,
    limits: LimitOptions,
) -> TranscriptionService:
    """Return a service; neither it nor the transcribers are open.

    Raises:
        OptionError: a model does not fit into the memory, or two have the same name.
    """
    metrics = Metrics()
    memory = ModelMemory(limits.max_memory_mib)
    served: list[ServedModel] = []
    for name, (transcriber, defaults) in zip(listen.model, models, strict=True):
        is_first = not served
        release_after_s = limits.release_after_s
        # Unless the user says so, the default model stays: its next client does not wait for it.
        if release_after_s is None and not is_first:
            release_after_s = RELEASE_AFTER_S
        model = ServedModel(
            transcriber,
            defaults,
            metrics,
            memory,
            other_names=(name, transcriber.encoder.spec.source.name),
            batch_size=limits.batch_size,
            release_after_s=release_after_s,
            log_text=listen.log_text,
            loads_at_once=is_first,
        )
        memory.check_limit(model)
        served.append(model)
    return TranscriptionService(
        served,
        metrics,
        limits,
        listen.alias,
        listen.speaker_models,
        memory=memory,
    )


def _own_name(hub_id: str) -> str:
    """Return what a model is called here by its hub id: `openai/whisper-base` is `base`."""
    name = hub_id.rpartition("/")[2]
    return name.removeprefix("faster-").replace("whisper-", "", 1)
