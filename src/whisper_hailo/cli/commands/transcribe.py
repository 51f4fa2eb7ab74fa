"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.model import Fallback, ModelOptions, tell_engine
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.output import OutputOptions
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.verbosity import note
from whisper_hailo.core.errors import ExitCode, OptionError, shown
from whisper_hailo.core.flags import CHANNELS, expect_choices, flag
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.option_groups import FALLBACK_STEP, SearchOptions, WordOptions
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.longform.plan import LONG, LongOptions
from whisper_hailo.transcription.pipeline import checked_batch

if TYPE_CHECKING:
    from whisper_hailo.cli.inputs import Input
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.core.types import Transcript
    from whisper_hailo.transcription.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How many windows are decoded together, and of which channels."""

    batch_size: int | None = flag(None, "Windows decoded together.", shown="automatic")
    channels: str = flag("mix", "All channels mixed, or each a speaker", LONG, choices=CHANNELS)

    def __post_init__(self) -> None:
        expect_choices(self)
        if self.batch_size is not None:
            checked_batch(self.batch_size)


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

    # What is wrong is told before a model is looked for.
    wanted = decoding_options(decoding, fallback, output, DecodingOptions(), FALLBACK_STEP)
    model.expect_language(wanted)
    sink = Sink(
        output.formats,
        output.output_dir,
        output.as_json,
        find_inputs(audio),
        output.layout,
        output.skip_existing,
        decoding.typed.get("timestamps", False),
        output.colour,
    )
    sink.expect_writable()
    inputs = [looked_at(entry) for entry in sink.checked()]
    if output.skip_existing:
        inputs = _without_done(inputs, sink)
    codes = {at: sink.put_error(one, one.fault) for at, one in enumerate(inputs) if one.fault}
    sound = {at: one for at, one in enumerate(inputs) if not one.fault}
    if not sound:
        return next(iter(codes.values()), ExitCode.OK)
    transcriber = model.transcriber()
    options = decoding_options(
        decoding, fallback, output, transcriber.default_options, transcriber.default_fallback
    )
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
    """Put what was typed on the defaults, with timestamps where an option needs them.

    Args:
        given: what was typed of it.
        fallback: the temperatures.
        output: where the results go.
        default: what the decoder does by default.
        step: the decoder's default step of temperature for doubtful text.

    Raises:
        OptionError: a value out of range, or an option that needs another one.
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
    """All inputs through one transcriber."""

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
        self._together = together
        self._sink = sink
        self._identity = cache(lambda: transcriber.identity(options, long, together.batch_size))

    def all(self, inputs: Sequence[Input]) -> Iterator[ExitCode]:
        """Yield exit codes in order; an input that fails is reported and the next is run."""
        if self._together.channels == "split":
            for entry in inputs:
                yield self._by_channel(entry)
        elif self._together.batch_size in (None, 1) or len(inputs) == 1:
            for entry in inputs:
                yield self._alone(entry)
        else:
            yield from self._side_by_side(inputs)

    def _alone(self, entry: Input) -> ExitCode:
        """Transcribe one input and show its text as it comes."""
        from whisper_hailo.cli.sink import Growing

        try:
            with Growing(entry, self._sink, self._identity) as growing:
                segments = self._transcriber.segments(
                    entry.source(),
                    self._options,
                    growing.progress,
                    long=self._long,
                    batch_size=self._together.batch_size,
                    memory=growing.journal,
                )
                growing.follow(segments)
        except ReaderGoneError:
            raise
        except Exception as error:
            return self._sink.put_error(entry, error)
        return ExitCode.OK

    def _by_channel(self, entry: Input) -> ExitCode:
        progress = Progress(shown(Path(entry.name).name))
        try:
            outcome: Transcript | Exception = self._split(entry, progress)
        except Exception as error:
            outcome = error
        finally:
            progress.close()
        return self._deliver(entry, outcome)

    def _deliver(self, entry: Input, outcome: Transcript | Exception) -> ExitCode:
        """Hand a result to the sink, which may fail, too."""
        if isinstance(outcome, Exception):
            return self._sink.put_error(entry, outcome)
        try:
            self._sink.put(entry, outcome)
        except ReaderGoneError:
            raise
        except Exception as error:
            return self._sink.put_error(entry, error)
        return ExitCode.OK

    def _split(self, entry: Input, progress: Progress) -> Transcript:
        """Transcribe each channel alone and merge them on one timeline."""
        from whisper_hailo.audio.stream import merge_channels, split_channels

        transcripts = []
        with split_channels(entry.source()) as channels:
            for outcome in self._transcriber.transcribe_many(
                channels,
                self._options,
                progress,
                long=self._long,
                batch_size=self._together.batch_size,
            ):
                if isinstance(outcome, Exception):
                    raise outcome
                transcripts.append(outcome)
        return merge_channels(transcripts)

    def _side_by_side(self, inputs: Sequence[Input]) -> Iterator[ExitCode]:
        """Transcribe several files with their windows in one batch."""
        outcomes = self._transcriber.transcribe_many(
            (entry.source() for entry in inputs if entry.fault is None),
            self._options,
            long=self._long,
            batch_size=self._together.batch_size,
        )
        for entry in inputs:
            yield self._deliver(entry, entry.fault or next(outcomes))
