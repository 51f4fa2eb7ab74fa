"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from whisper_hailo.cli.messages import print_note
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.transcribe_options import (
    Fallback,
    ModelOptions,
    OutputOptions,
    log_engine,
)
from whisper_hailo.cli.workload import Workload
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import CHANNELS, flag, require_choices
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.speakers.options import SpeakerOptions
from whisper_hailo.transcription.longform.options import LONG, LongOptions
from whisper_hailo.transcription.pipeline import USUAL_OPTIONS, check_batch_size

if TYPE_CHECKING:
    from whisper_hailo.cli.inputs import Input
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.core.types import Transcript
    from whisper_hailo.transcription.run import Segments
    from whisper_hailo.transcription.transcriber import Transcriber


@dataclass(frozen=True, slots=True)
class BatchingOptions:
    """How many windows are decoded together, and which channels."""

    batch_size: int | None = flag(None, "Windows decoded together.", shown="automatic")
    channels: str = flag(
        "mix", "All channels mixed, or each a speaker", LONG, choices=CHANNELS
    )

    def __post_init__(self) -> None:
        require_choices(self)
        if self.batch_size is not None:
            check_batch_size(self.batch_size)

    @property
    def is_split(self) -> bool:
        """Whether each channel is a speaker of its own."""
        return self.channels == "split"

    def expect_speakers(self, speakers: SpeakerOptions) -> None:
        """Raise `OptionError` if both channels and voices are to distinguish speakers."""
        if speakers.is_requested and self.is_split:
            raise OptionError(
                "--channels split tells speakers apart by channel; leave --speakers out"
            )


@dataclass(frozen=True)
class Recognition:
    """A model, and all that decides about the text of a recording besides its audio."""

    transcriber: Transcriber
    options: DecodingOptions
    long: LongOptions
    batching: BatchingOptions
    speakers: SpeakerOptions

    @cached_property
    def _identity(self) -> str:
        return self.transcriber.identity(
            self.options, self.long, self.batching.batch_size
        )

    def identity(self) -> str:
        """Return the hash of all that affects the text; the first call reads the model's files."""
        return self._identity

    @property
    def transcribe(self) -> Callable[..., Segments]:
        """Of a recording, the segments as they come."""
        return partial(self.transcriber.segments, **self._arguments())

    @property
    def transcribe_many(self) -> Callable[..., Iterator[Transcript | Exception]]:
        """Of several recordings, each whole transcript in turn."""
        return partial(self.transcriber.transcribe_many, **self._arguments())

    def _arguments(self) -> dict[str, Any]:
        return {
            "options": self.options,
            "long": self.long,
            "batch_size": self.batching.batch_size,
            "speakers": self.speakers,
        }


def transcribe(
    audio: Annotated[list[str], Argument()],
    model: ModelOptions,
    decoding: PartialOptions[DecodingOptions],
    fallback: Fallback,
    long: LongOptions,
    batching: BatchingOptions,
    speakers: SpeakerOptions,
    output: OutputOptions,
) -> int:
    """Transcribe recordings: files of any format, folders of them, or - for a pipe."""
    from whisper_hailo.cli.inputs import find_inputs
    from whisper_hailo.cli.sink import Sink

    # Wrong options and files are refused before a model is looked for.
    make_options = partial(decoding_options, decoding, fallback, output)
    model.expect_language(make_options(USUAL_OPTIONS, FALLBACK_STEP))
    batching.expect_speakers(speakers)
    has_timestamps = decoding.values.get("timestamps", False)
    sink = Sink(output, find_inputs(audio), timed=has_timestamps)
    codes: dict[int, ExitCode] = {}
    readable: dict[int, Input] = {}
    for index, entry in enumerate(_pending_inputs(sink)):
        if entry.fault is None:
            readable[index] = entry
        else:
            codes[index] = sink.write_error(entry, entry.fault)
    if not readable:
        return _first_code(codes)
    _expect_speaker_models(speakers)  # before a model is loaded
    transcriber = model.transcriber()
    options = make_options(transcriber.default_options, transcriber.default_fallback)
    # JSON has the words that were asked for; a search for speakers brings them as well.
    has_words = options.word_timestamps or speakers.is_requested
    sink = replace(sink, has_words=has_words)
    options = _with_result_words(options, output, transcriber)
    transcriber.check(options, long)
    log_engine(transcriber)
    recognition = Recognition(transcriber, options, long, batching, speakers)
    with transcriber:
        codes |= _write_results(recognition, sink, readable)
    return _first_code(codes)


def _expect_speaker_models(speakers: SpeakerOptions) -> None:
    """Raise `ModelError` if speakers are to be found and their models are missing."""
    if speakers.is_requested:
        from whisper_hailo.speakers.models import find_speaker_models

        find_speaker_models(speakers.speaker_models)


def _write_results(
    recognition: Recognition, sink: Sink, readable: Mapping[int, Input]
) -> dict[int, ExitCode]:
    """Transcribe the inputs and write their results; return the exit codes of those that fail."""
    from whisper_hailo.cli.sink import write_recording

    codes: dict[int, ExitCode] = {}
    workload = Workload([entry.path for entry in readable.values()])
    outcomes = _transcribe_whole(recognition, workload, list(readable.values()))
    for position, (index, entry) in enumerate(readable.items()):
        workload.begin(position)
        try:
            if outcomes is not None:
                sink.write_result(entry, _expect_transcript(next(outcomes)))
                continue
            if recognition.speakers.is_requested:
                # Nothing else is printed before all audio has been heard once.
                print_note(f"{display_path(entry.name)}: finding the speakers")
            write_recording(
                entry, sink, recognition.identity, recognition.transcribe, workload
            )
        except ReaderGoneError:
            raise
        except Exception as error:  # of this recording; the others have their turn
            codes[index] = sink.write_error(entry, error)
    return codes


def _pending_inputs(sink: Sink) -> list[Input]:
    """Return the inputs, checked without a model; finished ones are skipped if asked.

    Those with a fault stay, or nothing would be said of them.
    """
    from whisper_hailo.cli.inputs import check_input

    inputs = [check_input(entry) for entry in sink.check_results()]
    if not sink.output.skip_existing:
        return inputs
    pending = [entry for entry in inputs if entry.fault or not sink.has_results(entry)]
    n_finished = len(inputs) - len(pending)
    if n_finished:
        print_note(f"{n_finished} of {len(inputs)} already finished")
    return pending


def _first_code(codes: Mapping[int, ExitCode]) -> ExitCode:
    """Return the exit code of the first input that failed, by the codes of all that did."""
    return codes[min(codes)] if codes else ExitCode.OK


def decoding_options(
    given: PartialOptions[DecodingOptions],
    fallback: Fallback,
    output: OutputOptions,
    default: DecodingOptions,
    step: float,
) -> DecodingOptions:
    """Return a decoder's defaults with the given options; `step` is its rise of temperature."""
    options = fallback.apply(given, default, step)
    if output.layout.highlight_words and not options.word_timestamps:
        raise OptionError("--highlight-words needs --word-timestamps; give both")
    return options


def _with_result_words(
    options: DecodingOptions, output: OutputOptions, transcriber: Transcriber
) -> DecodingOptions:
    """Return options with word times where cues or the times of segments follow them.

    Those of segments always do, or JSON would differ with subtitles beside it.
    """
    if output.has_readable_cues or output.has_segment_times:
        return with_aligned_words(options, transcriber)
    return options


def with_aligned_words(
    options: DecodingOptions, transcriber: Transcriber
) -> DecodingOptions:
    """Return options with word times where the decoder has them."""
    if options.word_timestamps:
        return options
    return replace(options, word_timestamps=transcriber.decoder.limits.aligns)


def _transcribe_whole(
    recognition: Recognition, workload: Workload, inputs: Sequence[Input]
) -> Iterator[Transcript | Exception] | None:
    """Return whole transcripts of the inputs; `None` where segments are written as they come."""
    batching = recognition.batching
    if batching.is_split:
        by_channel = partial(_transcribe_channels, recognition, workload)
        return map(by_channel, inputs)
    if batching.batch_size in (None, 1) or len(inputs) == 1:
        return None
    outcomes = recognition.transcribe_many(entry.source() for entry in inputs)
    return _show_outcomes(outcomes, inputs, workload)


def _transcribe_channels(
    recognition: Recognition, workload: Workload, entry: Input
) -> Transcript:
    """Transcribe each channel of an input alone, and merge them on one timeline."""
    from whisper_hailo.audio.stream import merge_channels, split_channels

    with (
        _show_progress(entry, workload) as progress,
        split_channels(entry.source()) as channels,
    ):
        outcomes = recognition.transcribe_many(channels, progress=progress)
        return merge_channels([_expect_transcript(outcome) for outcome in outcomes])


def _show_outcomes(
    outcomes: Iterator[Transcript | Exception],
    inputs: Sequence[Input],
    workload: Workload,
) -> Iterator[Transcript | Exception]:
    """Yield the outcomes of inputs; a terminal shows which of them is awaited."""
    for entry in inputs:
        with _show_progress(entry, workload):
            outcome = next(outcomes)
        yield outcome


def _show_progress(entry: Input, workload: Workload) -> Progress:
    """Return the progress of an input, which is not open yet."""
    return Progress(display_path(Path(entry.name).name), workload)


def _expect_transcript(outcome: Transcript | Exception) -> Transcript:
    """Return a transcript, or raise the error that stands in its place."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
