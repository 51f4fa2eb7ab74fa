"""Timing of one file: n iterations of one pair of backends, stage by stage, and their memory.

Encoder and decoder take turns here, so that each stage is timed alone. Recordings longer than
a window are cut without overlap, and silence is decoded, too: every iteration does the same work.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

import numpy as np

from whisper_hailo.audio import AudioSource, open_audio
from whisper_hailo.core.protocols import AnyDecoder, StepOutput
from whisper_hailo.core.types import (
    FRAMES_PER_SECOND,
    SAMPLE_RATE_HZ,
    FloatArray,
    IntArray,
    Settings,
    Transcript,
)
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.harness.evaluate import Progress
from whisper_hailo_lab.runs.machine import Machine, peak_rss_mib, rss_mib, this_machine
from whisper_hailo_lab.wrappers import DecoderWrapper


@dataclass(frozen=True, slots=True)
class Spread:
    """What n measurements say.

    Attributes:
        mean: their mean.
        std: population standard deviation.
        n: how many there were.
    """

    mean: float
    std: float
    min: float
    max: float
    median: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one measurement."""
        return cls(
            mean=statistics.fmean(values),
            std=statistics.pstdev(values),
            min=min(values),
            max=max(values),
            median=statistics.median(values),
            n=len(values),
        )


@dataclass(frozen=True, slots=True)
class PartMemory:
    """Growth of the process's resident memory, in MiB.

    Attributes:
        load: while a part was opened.
        warm_up: while it ran for the first times.
    """

    load: float
    warm_up: float

    @property
    def total(self) -> float:
        return self.load + self.warm_up


@dataclass(frozen=True, slots=True)
class FileTiming:
    """The result.

    Attributes:
        transcript: of the last iteration.
        iterations: how many were timed, after the warm-ups.
        stages_ms: stage to spread over the iterations; `load` was measured once.
        token_ms: per iteration, the pass of each token after the first; empty for engines that
            own their loop.
        memory: part to its memory.
        peak_mib: largest resident memory of the process.
        temperature_c: of the chip before and after; empty without one.
        machine: what it ran on.
    """

    transcript: Transcript
    iterations: int
    stages_ms: dict[str, Spread]
    token_ms: tuple[tuple[float, ...], ...]
    memory: dict[str, PartMemory]
    peak_mib: float
    temperature_c: tuple[float, ...]
    machine: Machine = field(default_factory=this_machine)

    @property
    def settings(self) -> Settings:
        return self.transcript.settings


N_WARM_UPS: Final = 3
_CUT: Final = LongOptions(strategy="consecutive", skip_silence=False)


class PassClock(DecoderWrapper):
    """Notes the milliseconds of a decoder's passes, which no other clock tells apart."""

    def __init__(self, decoder: AnyDecoder) -> None:
        super().__init__(decoder)
        self._started: Any = None
        self.forget()

    def forget(self) -> None:
        self.first_ms: list[float] = []
        self.token_ms: list[float] = []

    def start(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401
        """Begin decoding; a single token behind it is for language detection."""
        self._started = super().start(*given, **named)
        return self._started

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        *given: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        """Take a step and note its time: of a prompt, or of one token; alignment is neither."""
        begin = perf_counter()
        result = super().step(tokens, state, *given, **named)
        taken_ms = (perf_counter() - begin) * 1000.0
        if tokens.shape[1] > 1 and not named.get("alignment"):
            self.first_ms.append(taken_ms)
        elif state is not self._started and not named.get("alignment"):
            self.token_ms.append(taken_ms)
        return result


class TextClock(Tokenizer):
    """A tokenizer that notes the milliseconds in which it turned tokens into text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.backend, tokenizer.special)
        self.text_ms = 0.0

    def decode(self, tokens: Sequence[int]) -> str:
        begin = perf_counter()
        text = super().decode(tokens)
        self.text_ms += (perf_counter() - begin) * 1000.0
        return text


def time_file(
    transcriber: Transcriber,
    audio: AudioSource,
    options: DecodingOptions,
    iterations: int,
    progress: Progress | None = None,
) -> FileTiming:
    """Time one recording.

    Args:
        transcriber: not open; its parts are opened here, one after the other, and closed again.
        audio: a file, or `(n_samples,)` float32 samples at 16 kHz; reading it is not timed.
        options: language, task and cures.
        iterations: timed runs, at least one.
        progress: told after each run.
    """
    transcriber.check(options)
    with open_audio(audio) as stream:
        name, samples = stream.name, np.concatenate([*stream.blocks(SAMPLE_RATE_HZ)])
    bench = _Bench(transcriber, samples, options)
    n_all = N_WARM_UPS + iterations
    with bench:
        for done in range(n_all):
            bench.run(timed=done >= N_WARM_UPS)
            if progress is not None:
                progress(done + 1, n_all, name)
        bench.note_temperature()
    return bench.result(name, iterations)


class _Bench:
    """A transcriber whose decoder and tokenizer have clocks, and its recording."""

    def __init__(
        self, transcriber: Transcriber, samples: FloatArray, options: DecodingOptions
    ) -> None:
        self._samples = samples
        self._options = options
        self._parts: dict[str, Any] = {
            "encoder": transcriber.encoder,
            "decoder": transcriber.decoder,
        }
        self._tokenizer = TextClock(transcriber.tokenizer)
        self._decoder = PassClock(self._parts["decoder"])
        self._transcriber = replace(
            transcriber, decoder=self._decoder, tokenizer=self._tokenizer, encode_ahead=False
        )
        self._stages: dict[str, list[float]] = {}
        self._tokens: list[tuple[float, ...]] = []
        self._memory: dict[str, PartMemory] = {}
        self._temperature_c: list[float] = []
        self._last: Transcript

    def __enter__(self) -> None:
        """Open each part alone, and let the encoder, whose input is known, warm up alone."""
        load_ms = 0.0
        warm_ups: dict[str, Callable[[], object]] = {
            "encoder": self._encode_silence,
            "decoder": self._once,
        }
        try:
            for name, part in self._parts.items():
                before = _settled_rss_mib()
                begin = perf_counter()
                part.open()
                load_ms += (perf_counter() - begin) * 1000.0
                loaded = _settled_rss_mib()
                for _ in range(N_WARM_UPS):
                    warm_ups[name]()
                self._memory[name] = PartMemory(loaded - before, _settled_rss_mib() - loaded)
        except BaseException:
            self.__exit__()
            raise
        self._stages["load"] = [load_ms]
        self.note_temperature()

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._parts.values()):
            part.close()

    def _encode_silence(self) -> None:
        encoder = self._parts["encoder"]
        window_s = self._transcriber.settings(self._options).window_s
        shape = (1, encoder.spec.dims.n_mels, round(window_s * FRAMES_PER_SECOND))
        encoder.encode(np.zeros(shape, np.float32))

    def _once(self) -> Transcript:
        return self._transcriber.transcribe(self._samples, self._options, long=_CUT)

    def run(self, *, timed: bool) -> None:
        self._tokenizer.text_ms = 0.0
        if self._decoder is not None:
            self._decoder.forget()
        self._last = self._once()
        if not timed:
            return
        times = self._last.timings
        stages = {"mel": times.mel_ms, "encode": times.encode_ms, "cross K/V": times.cross_kv_ms}
        if self._decoder is not None:
            stages["first token"] = sum(self._decoder.first_ms)
            stages["further tokens"] = sum(self._decoder.token_ms)
            self._tokens.append(tuple(self._decoder.token_ms))
        stages["text"] = self._tokenizer.text_ms
        stages["decoder, all of it"] = times.cross_kv_ms + times.decode_ms
        stages["total"] = times.total_ms
        for name, ms in stages.items():
            self._stages.setdefault(name, []).append(ms)

    def note_temperature(self) -> None:
        """Ask whichever part has a chip."""
        for part in self._parts.values():
            found = _temperature_c(part)
            if found is not None:
                self._temperature_c.append(found)
                return

    def result(self, name: str, iterations: int) -> FileTiming:
        stages = {stage: Spread.of(ms) for stage, ms in self._stages.items()}
        every = [ms for tokens in self._tokens for ms in tokens]
        if every:
            stages["per token"] = Spread.of(every)
        return FileTiming(
            transcript=replace(self._last, audio=name),
            iterations=iterations,
            stages_ms=stages,
            token_ms=tuple(self._tokens),
            memory=self._memory,
            peak_mib=peak_rss_mib(),
            temperature_c=tuple(self._temperature_c),
        )


def _temperature_c(part: object) -> float | None:
    """Of the chip that a part runs on; `None` without one."""
    ask = getattr(part, "temperature_c", None)
    found = ask() if callable(ask) else ask
    return None if found is None else float(found)


def _settled_rss_mib() -> float:
    """Resident memory without what is garbage already."""
    gc.collect()
    return rss_mib()
