"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.messages import note
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.cli.transcribe_options import Fallback, ModelOptions, OutputOptions, tell_engine
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import CHANNELS, flag, require_choices
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import FALLBACK_STEP, DecodingOptions
from whisper_hailo.transcription.longform.plan import LONG, LongOptions
from whisper_hailo.transcription.pipeline import USUAL_OPTIONS, check_batch_size

if TYPE_CHECKING:
    from whisper_hailo.cli.inputs import Input
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
    from whisper_hailo.cli.sink import Sink, write_recording

    # Wrong options and files are refused before a model is looked for.
    options_on = cache(partial(decoding_options, decoding, fallback, output))
    model.expect_language(options_on(USUAL_OPTIONS, FALLBACK_STEP))
    sink = Sink(output, find_inputs(audio), decoding.values.get("timestamps", False))
    inputs = [looked_at(entry) for entry in sink.checked()]
    if output.skip_existing:
        left = [entry for entry in inputs if entry.fault or not sink.has(entry)]
        if len(left) < len(inputs):
            note(f"{len(inputs) - len(left)} of {len(inputs)} are there already")
        inputs = left
    codes = {at: sink.put_error(one, one.fault) for at, one in enumerate(inputs) if one.fault}
    sound = {at: one for at, one in enumerate(inputs) if not one.fault}
    if not sound:
        return next(iter(codes.values()), ExitCode.OK)
    transcriber = model.transcriber()
    options = options_on(transcriber.default_options, transcriber.default_fallback)
    transcriber.check(options, long)
    tell_engine(transcriber)
    size = together.batch_size
    identity = cache(lambda: transcriber.identity(options, long, size))
    by_segment = partial(transcriber.segments, options=options, long=long, batch_size=size)
    with transcriber:
        outcomes = _transcribe_whole(transcriber, options, long, together, list(sound.values()))
        for at, entry in sound.items():
            try:
                if outcomes is not None:
                    sink.put(entry, _expect_transcript(next(outcomes)))
                    continue
                write_recording(entry, sink, identity, by_segment)
            except ReaderGoneError:
                raise
            except Exception as error:
                codes[at] = sink.put_error(entry, error)
    return next((codes[at] for at in sorted(codes) if codes[at]), ExitCode.OK)


def decoding_options(
    given: PartialOptions[DecodingOptions],
    fallback: Fallback,
    output: OutputOptions,
    default: DecodingOptions,
    step: float,
) -> DecodingOptions:
    """Put typed options on the decoder's defaults."""
    options = fallback.on(given, default, step)
    if output.layout.highlight_words and not options.words:
        raise OptionError("--highlight-words needs --word-timestamps; give both")
    return options


def _transcribe_whole(
    transcriber: Transcriber,
    options: DecodingOptions,
    long: LongOptions,
    together: BatchingOptions,
    inputs: Sequence[Input],
) -> Iterator[Transcript | Exception] | None:
    """Return whole transcripts of the inputs; `None` where segments are written as they come."""
    splits = together.channels == "split"
    if not splits and (together.batch_size in (None, 1) or len(inputs) == 1):
        return None
    many = partial(
        transcriber.transcribe_many, options=options, long=long, batch_size=together.batch_size
    )

    def by_channel(entry: Input) -> Transcript:
        """Transcribe each channel alone and merge them on one timeline."""
        from whisper_hailo.audio.stream import merge_channels, split_channels

        with (
            closing(Progress(display_path(Path(entry.name).name))) as progress,
            split_channels(entry.source()) as channels,
        ):
            outcomes = many(channels, progress=progress)
            return merge_channels([_expect_transcript(outcome) for outcome in outcomes])

    return map(by_channel, inputs) if splits else many(entry.source() for entry in inputs)


def _expect_transcript(outcome: Transcript | Exception) -> Transcript:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
