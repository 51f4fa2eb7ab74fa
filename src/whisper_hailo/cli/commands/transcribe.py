"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.model import Fallback, ModelOptions, tell_engine
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.output import OutputOptions
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.verbosity import note
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import CHANNELS, flag, require_choices
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import (
    FALLBACK_STEP,
    DecodingOptions,
    SearchOptions,
    WordOptions,
)
from whisper_hailo.transcription.longform.plan import LONG, LongOptions
from whisper_hailo.transcription.pipeline import check_batch_size

if TYPE_CHECKING:
    from whisper_hailo.cli.inputs import Input
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.core.types import Transcript
    from whisper_hailo.transcription.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How many windows are decoded together, and which channels."""

    batch_size: int | None = flag(None, "Windows decoded together.", shown="automatic")
    channels: str = flag("mix", "All channels mixed, or each a speaker", LONG, choices=CHANNELS)

    def __post_init__(self) -> None:
        require_choices(self)
        if self.batch_size is not None:
            check_batch_size(self.batch_size)


def transcribe(
    audio: Annotated[list[str], Argument()],
    model: ModelOptions,
    decoding: PartialOptions[DecodingOptions],
    fallback: Fallback,
    long: LongOptions,
    together: BatchingOptions,
    output: OutputOptions,
) -> int:
    """Make text of recordings: files of any format, folders of them, - for a pipe."""
    from whisper_hailo.cli.inputs import find_inputs, looked_at
    from whisper_hailo.cli.sink import Sink

    options_on = partial(decoding_options, decoding, fallback, output)
    # Wrong options and files are refused before a model is looked for.
    model.expect_language(options_on(DecodingOptions(), FALLBACK_STEP))
    timed = decoding.typed.get("timestamps", False)
    sink = Sink.of(output, find_inputs(audio), timed=timed)
    sink.expect_writable()
    inputs = [looked_at(entry) for entry in sink.checked()]
    if output.skip_existing:
        inputs = _without_done(inputs, sink)
    codes = {at: sink.put_error(one, one.fault) for at, one in enumerate(inputs) if one.fault}
    sound = {at: one for at, one in enumerate(inputs) if not one.fault}
    if not sound:
        return next(iter(codes.values()), ExitCode.OK)
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    transcriber.check(options, long)
    tell_engine(transcriber)
    with transcriber:
        run = _Run(transcriber, options, long, together, sink)
        codes |= zip(sound, run.all(list(sound.values())), strict=True)
    return next((codes[at] for at in sorted(codes) if codes[at]), ExitCode.OK)


def decoding_options(
    given: PartialOptions[DecodingOptions],
    fallback: Fallback,
    output: OutputOptions,
    default: DecodingOptions,
    step: float,
) -> DecodingOptions:
    """Put typed options on the decoder's defaults, with timestamps where an option needs them.

    Args:
        given: typed options.
        fallback: the temperatures.
        output: where the results go.
        default: the decoder's default options.
        step: the decoder's default step of temperature in fallback.

    Raises:
        OptionError: a value is out of range, or an option needs another one.
    """
    search = SearchOptions(fallback.temperatures(step))
    options = given.on(replace(default, search=search))
    if output.layout.highlight_words and options.words is None:
        raise OptionError("--highlight-words needs --word-timestamps; give both")
    if output.colour and options.words is None:
        options = replace(options, words=WordOptions())
    drops = options.words is not None and options.words.hallucination_silence_s is not None
    if drops and "timestamps" not in given.typed:
        return replace(options, timestamps=True)
    return options


def _without_done(inputs: Sequence[Input], sink: Sink) -> list[Input]:
    """Return the inputs whose results are not there yet."""
    left = [entry for entry in inputs if entry.fault or not sink.has(entry)]
    if len(left) < len(inputs):
        note(f"{len(inputs) - len(left)} of {len(inputs)} are there already")
    return left


class _Run:
    """Transcribes all inputs; one that fails is reported and the next is run."""

    def __init__(
        self,
        transcriber: Transcriber,
        options: DecodingOptions,
        long: LongOptions,
        together: BatchingOptions,
        sink: Sink,
    ) -> None:
        self._transcriber = transcriber
        self._options = options
        self._long = long
        self._batch_size = together.batch_size
        self._splits = together.channels == "split"
        self._sink = sink
        self._identity = cache(lambda: transcriber.identity(options, long, together.batch_size))

    def all(self, inputs: Sequence[Input]) -> Iterator[ExitCode]:
        """Yield exit codes in order."""
        if self._splits:
            return (self._reported(entry, self._by_channel) for entry in inputs)
        if self._batch_size in (None, 1) or len(inputs) == 1:
            return (self._reported(entry, self._as_it_comes) for entry in inputs)
        outcomes = self._transcriber.transcribe_many(
            (entry.source() for entry in inputs),
            self._options,
            long=self._long,
            batch_size=self._batch_size,
        )
        return (
            self._reported(entry, partial(self._put, outcome=outcome))
            for entry, outcome in zip(inputs, outcomes, strict=True)
        )

    def _reported(self, entry: Input, work: Callable[[Input], None]) -> ExitCode:
        try:
            work(entry)
        except ReaderGoneError:
            raise
        except Exception as error:
            return self._sink.put_error(entry, error)
        return ExitCode.OK

    def _as_it_comes(self, entry: Input) -> None:
        """Transcribe one input; its text is written segment by segment."""
        from whisper_hailo.cli.sink import RecordingWriter

        with RecordingWriter(entry, self._sink, self._identity) as writer:
            segments = self._transcriber.segments(
                entry.source(),
                self._options,
                writer.progress,
                long=self._long,
                batch_size=self._batch_size,
                memory=writer.journal,
            )
            for segment in segments:
                writer.write(segment, segments)
            writer.finish(segments)

    def _by_channel(self, entry: Input) -> None:
        """Transcribe each channel alone and merge them on one timeline."""
        from whisper_hailo.audio.stream import merge_channels, split_channels

        progress = Progress(display_path(Path(entry.name).name))
        transcripts = []
        try:
            with split_channels(entry.source()) as channels:
                for outcome in self._transcriber.transcribe_many(
                    channels,
                    self._options,
                    progress,
                    long=self._long,
                    batch_size=self._batch_size,
                ):
                    if isinstance(outcome, Exception):
                        raise outcome
                    transcripts.append(outcome)
            whole = merge_channels(transcripts)
        finally:
            progress.close()
        self._sink.put(entry, whole)

    def _put(self, entry: Input, outcome: Transcript | Exception) -> None:
        """Write one of several results that were decoded together."""
        if isinstance(outcome, Exception):
            raise outcome
        self._sink.put(entry, outcome)
