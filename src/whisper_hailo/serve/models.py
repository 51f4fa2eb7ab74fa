"""The models of a server: their names, their options, and the memory that they share."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, Self

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closing
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.decoding.options import DecodingOptions, SearchOptions
from whisper_hailo.live.engine import TOKENS_PER_SECOND
from whisper_hailo.serve.errors import BusyError, UnknownModelError
from whisper_hailo.serve.request import MAX_HOTWORDS_LETTERS, Caller, Choices
from whisper_hailo.serve.worker import EngineCaptions, State, Worker
from whisper_hailo.transcription.longform.plan import LongOptions

logger = logging.getLogger(__name__)

WHISPER_1: Final = "whisper-1"
_OPENAI_MODEL: Final = re.compile(r"gpt-4o(-mini)?-transcribe(-\d{4}-\d\d-\d\d)?")

_MAX_HINTS: Final = 1000
"""More do not fit in any model's prompt."""

_LOADED_PER_WEIGHT: Final = 1.3
"""Memory of a loaded model per byte of its weights: base takes 167 MiB, its weights 128."""

_BITS: Final = {"int8": 8, "int4": 4}


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """One of the models that requests can choose.

    Attributes:
        other_names: further names that clients may use.
        created_s: when it was added, in seconds since 1970.
    """

    worker: Worker
    languages: tuple[str, ...]
    other_names: tuple[str, ...] = ()
    created_s: int = field(default_factory=lambda: int(time.time()))

    @property
    def name(self) -> str:
        return self.worker.name

    def options(self, choices: Choices) -> tuple[DecodingOptions, LongOptions]:
        """Return the options of one request."""
        return self.worker.defaults.with_choices(self._with_hints(choices))

    def captions(self, choices: Choices, caller: Caller, deadline_s: float) -> EngineCaptions:
        """Return the engine of a live stream: greedy and bounded, as the command `caption`."""
        options, _ = self.options(choices)
        limits = replace(options.limits, max_per_second=TOKENS_PER_SECOND)
        search = SearchOptions()
        options = replace(options, search=search, limits=limits, timestamps=False, words=None)
        return EngineCaptions(self.worker, options, caller, deadline_s)

    def _with_hints(self, choices: Choices) -> Choices:
        """Return the choices with hints as hotwords, if the decoder supports hotwords."""
        names = [hint for hint in choices.hints if hint.isprintable() and "<|" not in hint]
        total = accumulate(len(name) + len(", ") for name in names[:_MAX_HINTS])
        names = names[: sum(letters <= MAX_HOTWORDS_LETTERS for letters in total)]
        if choices.hotwords or not names:
            return choices
        expected = ", ".join(names)
        default = self.worker.defaults.options
        prompts = replace(default.prompts, hotwords=expected)
        try:
            self.worker.transcriber.check(replace(default, prompts=prompts))
        except OptionError:
            return choices
        return replace(choices, hotwords=expected)


class ModelRegistry(Closing):
    """The models of a server, by the names that requests give; the first is the default."""

    def __init__(self, models: Sequence[ServedModel], aliases: Sequence[str] = ()) -> None:
        self.models = tuple(models)
        self.default = self.models[0]
        self._listed = {model.name: model for model in self.models}
        if len(self._listed) < len(self.models):
            names = ", ".join(model.name for model in self.models)
            raise OptionError(f"--model is given twice for one name ({names}); leave one out")
        for alias in (WHISPER_1, *aliases):
            self._listed.setdefault(alias, self.default)
        self._known = dict(self._listed)
        for model in self.models:
            for name in model.other_names:
                self._known.setdefault(name, model)

    @property
    def listed(self) -> dict[str, ServedModel]:
        """Models by the names that `/v1/models` lists."""
        return dict(self._listed)

    def find(self, name: str | None) -> ServedModel:
        """Return the model that a request names; the default without a name.

        Names of OpenAI's newer models mean the default: clients such as Home Assistant's have no
        setting for them.
        """
        if not name or (name not in self._known and _OPENAI_MODEL.fullmatch(name)):
            return self.default
        if name not in self._known:
            known = ", ".join(self._listed)
            raise UnknownModelError(f"model {name[:80]!r} is not served, expected one of: {known}")
        return self._known[name]

    def open(self) -> Self:
        """Load the default model; the others are loaded when they are first asked for."""
        for model in self.models:
            model.worker.open()
        return self

    def close(self) -> None:
        """Give up what is not done, and free all models."""
        for model in self.models:
            model.worker.give_up()
        for model in self.models:
            model.worker.close()

    @property
    def states(self) -> dict[str, State]:
        return {model.name: model.worker.state for model in self.models}

    @property
    def is_alive(self) -> bool:
        return all(model.worker.is_alive for model in self.models)

    def close_queues(self) -> None:
        """Take no further request."""
        for model in self.models:
            model.worker.queue.close()

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Return whether all requests and live streams end in time."""
        deadline_s = time.monotonic() + timeout_s
        return all(
            model.worker.queue.wait_until_empty(max(0.0, deadline_s - time.monotonic()))
            for model in self.models
        )

    @property
    def n_unfinished(self) -> int:
        return sum(model.worker.queue.n_unfinished for model in self.models)


class ModelMemory:
    """Keeps loaded models within a limit, and has idle ones released for others."""

    def __init__(self, max_mib: int | None = None) -> None:
        self._max_mib = max_mib
        self._changed = threading.Condition()
        self._loaded: dict[Worker, int] = {}

    def check(self, worker: Worker) -> None:
        """Refuse a model that does not fit even alone."""
        needed = estimate_loaded_mib(worker.spec)
        if self._max_mib is not None and needed > self._max_mib:
            raise OptionError(
                f"model {worker.name} takes about {needed} MiB, --max-memory is {self._max_mib}; "
                "raise it or choose a smaller model"
            )

    @contextmanager
    def hold(self, worker: Worker) -> Iterator[None]:
        """Hold the memory of a model, which is loaded within the block.

        Idle models are released first, the one that was used least recently before others.
        """
        needed = estimate_loaded_mib(worker.spec)
        with self._changed:
            while not self._fits(needed):
                idle = sorted(self._loaded, key=lambda other: other.queue.used_s)
                if not any(other.queue.release() for other in idle):
                    in_use = ", ".join(other.name for other in self._loaded)
                    raise BusyError(
                        f"model {worker.name} takes about {needed} MiB, --max-memory is "
                        f"{self._max_mib} and in use by {in_use}; try again soon"
                    )
                self._changed.wait()
            self._loaded[worker] = needed
        try:
            yield
        finally:
            with self._changed:
                del self._loaded[worker]
                self._changed.notify_all()

    def _fits(self, needed: int) -> bool:
        return self._max_mib is None or sum(self._loaded.values()) + needed <= self._max_mib


def estimate_loaded_mib(spec: ModelSpec) -> int:
    """Return about how many MiB a model takes when it is loaded, from its dimensions."""
    dims, d_model = spec.dims, spec.dims.d_model
    encoder = dims.n_encoder_layers * 12 * d_model**2
    encoder += 3 * dims.n_mels * d_model + 3 * d_model**2 + dims.n_audio_ctx * d_model
    decoder = dims.n_decoder_layers * 16 * d_model**2 + dims.n_vocab * d_model
    encoder_bits, decoder_bits = (
        _BITS.get(quantization, 32)
        for quantization in (spec.encoder_quantization, spec.quantization)
    )
    weights = (encoder * encoder_bits + decoder * decoder_bits) // 8
    return round(_LOADED_PER_WEIGHT * weights) >> 20
