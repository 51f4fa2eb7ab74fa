"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from whisper_hailo.cli.sink import Sink, write_recording

    # Wrong options and files are refused before a model is looked for.
    options_on = partial(decoding_options, decoding, fallback, output)
    model.expect_language(options_on(USUAL_OPTIONS, FALLBACK_STEP))
    if speakers.speakers is not None and batching.channels == "split":
        raise OptionError(
            "--channels split tells speakers apart by channel; leave --speakers out"
        )
    sink = Sink(
        output, find_inputs(audio), timed=decoding.values.get("timestamps", False)
    )
    codes: dict[int, ExitCode] = {}
    readable: dict[int, Input] = {}
    for index, entry in enumerate(_pending_inputs(sink)):
        if entry.fault is None:
            readable[index] = entry
        else:
            codes[index] = sink.write_error(entry, entry.fault)
    if not readable:
        return _first_code(codes)
    if speakers.speakers is not None:
        from whisper_hailo.speakers.models import find_speaker_models

        find_speaker_models(speakers.speaker_models)  # before a model is loaded
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    # JSON has the words that were asked for; a search for speakers brings them as well.
    has_words = options.word_timestamps or speakers.speakers is not None
    sink = replace(sink, has_words=has_words)
    options = _with_result_words(options, output, transcriber)
    transcriber.check(options, long)
    log_engine(transcriber)
    size = batching.batch_size
    # Hashes the model's files.
    identity = cache(lambda: transcriber.identity(options, long, size))
    by_segment = partial(
        transcriber.segments,
        options=options,
        long=long,
        batch_size=size,
        speakers=speakers,
    )
    workload = Workload([entry.path for entry in readable.values()])
    with transcriber:
        outcomes = _transcribe_whole(
            transcriber, options, long, batching, speakers, workload, readable
        )
        for position, (index, entry) in enumerate(readable.items()):
            workload.begin(position)
            try:
                if outcomes is None:
                    if speakers.speakers is not None:
                        # Nothing else is printed before all audio has been heard once.
                        print_note(f"{display_path(entry.name)}: finding the speakers")
                    write_recording(entry, sink, identity, by_segment, workload)
                else:
                    sink.write_result(entry, _expect_transcript(next(outcomes)))
            except ReaderGoneError:
                raise
            except Exception as error:  # of this recording; the others have their turn
                codes[index] = sink.write_error(entry, error)
    return _first_code(codes)


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
    transcriber: Transcriber,
    options: DecodingOptions,
    long: LongOptions,
    batching: BatchingOptions,
    speakers: SpeakerOptions,
    workload: Workload,
    readable: Mapping[int, Input],
) -> Iterator[Transcript | Exception] | None:
    """Return whole transcripts of the inputs; `None` where segments are written as they come."""
    inputs = list(readable.values())
    is_split = batching.channels == "split"
    is_alone = batching.batch_size in (None, 1) or len(inputs) == 1
    if is_alone and not is_split:
        return None
    transcribe_many = partial(
        transcriber.transcribe_many,
        options=options,
        long=long,
        batch_size=batching.batch_size,
        speakers=speakers,
    )

    def by_channel(entry: Input) -> Transcript:
        """Transcribe each channel alone and merge them on one timeline."""
        from whisper_hailo.audio.stream import merge_channels, split_channels

        with (
            _show_progress(entry, workload) as progress,
            split_channels(entry.source()) as channels,
        ):
            outcomes = transcribe_many(channels, progress=progress)
            return merge_channels([_expect_transcript(outcome) for outcome in outcomes])

    if is_split:
        return map(by_channel, inputs)
    outcomes = transcribe_many(entry.source() for entry in inputs)
    return _show_outcomes(outcomes, inputs, workload)


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
