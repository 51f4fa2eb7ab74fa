"""Times of one recording: n iterations, stage by stage, and the memory of each part.

Encoder and decoder take turns, so that each stage is timed alone. Recordings longer than a window
are cut without overlap, and silence is decoded, too, so that each iteration does the same work.
"""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

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
from whisper_hailo.core.version import __version__
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.text.tokenizer import Tokenizer
from whisper_hailo.transcription.longform.options import LongOptions
from whisper_hailo.transcription.transcriber import Transcriber
from whisper_hailo_lab.harness.evaluate import Progress
from whisper_hailo_lab.runs.machine import (
    Machine,
    cpu_s,
    peak_rss_mib,
    rss_mib,
    this_machine,
)
from whisper_hailo_lab.wrappers import DecoderWrapper

if TYPE_CHECKING:
    from whisper_hailo_lab.runs.machine import Machine
COLUMNS: Final = (
    "processor",
    "instruction sets",
    "model",
    "threads",
    "processor s a minute",
    "seconds a minute",
    "peak MiB",
    "version",
)
"""Those of the table in `docs/measurements/processors.md`."""
_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of some measurements.

    Attributes:
        mean: arithmetic mean.
        std: population standard deviation.
        min: smallest.
        max: largest.
        median: middle one.
        n: number of measurements.
    """

    mean: float
    std: float
    min: float
    max: float
    median: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the distribution of at least one measurement."""
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
    """Growth of the process's resident memory by one part, in MiB.

    Attributes:
        load: growth while the part was opened.
        warm_up: growth while it ran for the first times.
    """

    load: float
    warm_up: float

    @property
    def total(self) -> float:
        """Growth in all."""
        return self.load + self.warm_up


@dataclass(frozen=True, slots=True)
class FileTiming:
    """Times and memory of one recording.

    Attributes:
        transcript: transcript of the last iteration.
        iterations: timed iterations, after the warm-ups.
        stages_ms: spread over the iterations by stage; `load` was measured once.
        processor_ms: spread of the processor time of all threads.
        token_ms: time of each token after the first, for each iteration.
        memory: memory by part.
        peak_mib: largest resident memory of the process.
        temperature_c: temperatures of the chip before and after; empty without a chip.
        machine: the machine.
    """

    transcript: Transcript
    iterations: int
    stages_ms: dict[str, Spread]
    processor_ms: Spread
    token_ms: tuple[tuple[float, ...], ...]
    memory: dict[str, PartMemory]
    peak_mib: float
    temperature_c: tuple[float, ...]
    machine: Machine = field(default_factory=this_machine)

    @property
    def settings(self) -> Settings:
        """Settings that the recording was transcribed with."""
        return self.transcript.settings


N_WARM_UPS: Final = 3


_SAME_WORK: Final = LongOptions(strategy="consecutive", skip_silence=False)


class PassClock(DecoderWrapper):
    """A decoder that records the time of each pass: of the prompt, and of each token."""

    def __init__(self, decoder: AnyDecoder) -> None:
        super().__init__(decoder)
        self._initial_state: Any = None
        self.first_ms: list[float] = []
        self.token_ms: list[float] = []

    def forget(self) -> None:
        """Discard the times so far."""
        self.first_ms.clear()
        self.token_ms.clear()

    def start(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        self._initial_state = super().start(*args, **named)
        return self._initial_state

    def step(
        self,
        tokens: IntArray,
        state: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> tuple[StepOutput, Any]:
        """Take a step, and record its time if it is of the prompt or of a token."""
        begin = perf_counter()
        result = super().step(tokens, state, *args, **named)
        elapsed_ms = (perf_counter() - begin) * 1000.0
        if named.get("alignment"):
            return result
        if tokens.shape[1] > 1:
            self.first_ms.append(elapsed_ms)
        elif state is not self._initial_state:
            # A single token after the start detects the language.
            self.token_ms.append(elapsed_ms)
        return result


class TextClock(Tokenizer):
    """A tokenizer that records the time in which it turns tokens into text."""

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
        transcriber: not open; its parts are opened one after the other, and closed again.
        audio: a file, or `(n_samples,)` float32 samples at 16 kHz; reading it is not timed.
        options: decoding options.
        iterations: timed runs, at least one.
        progress: called after each run.

    Raises:
        OptionError: an option does not fit the model.
        AudioError: the recording cannot be read.
    """
    transcriber.check(options)
    with open_audio(audio) as stream:
        name = stream.name
        samples = np.concatenate(list(stream.blocks(SAMPLE_RATE_HZ)))
    bench = _Bench(transcriber, samples, options)
    n_runs = N_WARM_UPS + iterations
    with bench:
        for run in range(n_runs):
            bench.run(timed=run >= N_WARM_UPS)
            if progress is not None:
                progress(run + 1, n_runs, name)
        bench.record_temperature()
    return bench.result(name, iterations)


class _Bench:
    """A transcriber whose decoder and tokenizer are timed, and its recording."""

    def __init__(
        self,
        transcriber: Transcriber,
        samples: FloatArray,
        options: DecodingOptions,
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
            transcriber,
            decoder=self._decoder,
            tokenizer=self._tokenizer,
            encode_ahead=False,
        )
        self._stages: dict[str, list[float]] = {}
        self._processor_ms: list[float] = []
        self._tokens: list[tuple[float, ...]] = []
        self._memory: dict[str, PartMemory] = {}
        self._temperature_c: list[float] = []
        self._last: Transcript

    def __enter__(self) -> None:
        """Open and warm up one part after the other, so that each has its own memory."""
        try:
            load_ms = self._open_part("encoder", self._encode_silence)
            load_ms += self._open_part("decoder", self._transcribe)
        except BaseException:
            self.__exit__()
            raise
        self._stages["load"] = [load_ms]
        self.record_temperature()

    def _open_part(self, name: str, warm_up: Callable[[], object]) -> float:
        """Open a part, warm it up, and return the time of opening in milliseconds."""
        before_mib = _settled_rss_mib()
        begin = perf_counter()
        self._parts[name].open()
        load_ms = (perf_counter() - begin) * 1000.0
        loaded_mib = _settled_rss_mib()
        for _ in range(N_WARM_UPS):
            warm_up()
        self._memory[name] = PartMemory(
            load=loaded_mib - before_mib, warm_up=_settled_rss_mib() - loaded_mib
        )
        return load_ms

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._parts.values()):
            part.close()

    def _encode_silence(self) -> None:
        encoder = self._parts["encoder"]
        window_s = self._transcriber.settings(self._options).window_s
        shape = (1, encoder.spec.dims.n_mels, round(window_s * FRAMES_PER_SECOND))
        encoder.encode(np.zeros(shape, np.float32))

    def _transcribe(self) -> Transcript:
        return self._transcriber.transcribe(
            self._samples, self._options, long=_SAME_WORK
        )

    def run(self, *, timed: bool) -> None:
        """Transcribe once, and keep the times if it is `timed`."""
        self._tokenizer.text_ms = 0.0
        self._decoder.forget()
        begin_s = cpu_s()
        self._last = self._transcribe()
        elapsed_s = cpu_s() - begin_s
        if not timed:
            return
        self._processor_ms.append(elapsed_s * 1000.0)
        times = self._last.timings
        stages = {
            "mel": times.mel_ms,
            "encode": times.encode_ms,
            "cross K/V": times.cross_kv_ms,
            "first token": sum(self._decoder.first_ms),
            "further tokens": sum(self._decoder.token_ms),
            "text": self._tokenizer.text_ms,
            "decoder, all of it": times.cross_kv_ms + times.decode_ms,
            "total": times.total_ms,
        }
        for name, ms in stages.items():
            self._stages.setdefault(name, []).append(ms)
        self._tokens.append(tuple(self._decoder.token_ms))

    def record_temperature(self) -> None:
        """Keep the temperature of the chip, if a part runs on one."""
        for part in self._parts.values():
            temperature_c = _chip_temperature_c(part)
            if temperature_c is not None:
                self._temperature_c.append(temperature_c)
                return

    def result(self, name: str, iterations: int) -> FileTiming:
        """Return the times of all timed runs."""
        stages = {stage: Spread.of(ms) for stage, ms in self._stages.items()}
        token_ms = [ms for tokens in self._tokens for ms in tokens]
        if token_ms:
            stages["per token"] = Spread.of(token_ms)
        return FileTiming(
            transcript=replace(self._last, audio=name),
            iterations=iterations,
            stages_ms=stages,
            processor_ms=Spread.of(self._processor_ms),
            token_ms=tuple(self._tokens),
            memory=self._memory,
            peak_mib=peak_rss_mib(),
            temperature_c=tuple(self._temperature_c),
        )


def _chip_temperature_c(part: object) -> float | None:
    """Return the temperature of the chip that a part runs on; `None` without one."""
    read = getattr(part, "temperature_c", None)
    temperature_c = read() if callable(read) else read
    return None if temperature_c is None else float(temperature_c)


def _settled_rss_mib() -> float:
    """Return the resident memory after a garbage collection."""
    gc.collect()
    return rss_mib()


def report_table(timing: FileTiming, instruction_sets: Sequence[str]) -> str:
    """Return a Markdown table whose only row is of this machine."""
    minutes = timing.transcript.duration_s / _MINUTE_S
    settings = timing.settings
    row = (
        _processor_name(timing.machine),
        ", ".join(instruction_sets) or "none known",
        f"{settings.model}, {settings.quantization}",
        str(settings.threads or "automatic"),
        f"{timing.processor_ms.median / 1000 / minutes:.1f}",
        f"{timing.stages_ms['total'].median / 1000 / minutes:.1f}",
        f"{timing.peak_mib:.0f}",
        __version__,
    )
    lines = [COLUMNS, ("---",) * len(COLUMNS), row]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _processor_name(machine: Machine) -> str:
    """Return the board if there is one, the processor, and its cores."""
    names = [machine.board, machine.cpu, f"{machine.n_cpus} cores"]
    accelerator = machine.accelerator and os.path.basename(machine.accelerator)
    names.append(accelerator)
    return ", ".join(name for name in names if name).replace("|", "/")
