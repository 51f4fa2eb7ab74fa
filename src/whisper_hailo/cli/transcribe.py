"""`whisper-hailo transcribe`: recordings in, text out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whisper_hailo.cli.failures import tell
from whisper_hailo.cli.flags.decoding import DecodingFlags
from whisper_hailo.cli.flags.long import LongFlags
from whisper_hailo.cli.flags.model import ModelFlags
from whisper_hailo.cli.flags.output import OutputFlags
from whisper_hailo.cli.groups import grouped
from whisper_hailo.cli.progress import Progress
from whisper_hailo.cli.streams import ReaderGoneError
from whisper_hailo.core.errors import ExitCode
from whisper_hailo.core.names import shown

if TYPE_CHECKING:
    from whisper_hailo.cli.inputs import Input
    from whisper_hailo.cli.sink import Sink
    from whisper_hailo.core.types import Transcript
    from whisper_hailo.decoding.options import DecodingOptions
    from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)


@grouped
def transcribe(
    audio: Annotated[
        list[str],
        typer.Argument(
            help="Audio files of any format and rate, folders of them, or - for standard input.",
        ),
    ],
    model: ModelFlags,
    decoding: DecodingFlags,
    long: LongFlags,
    output: OutputFlags,
) -> int:
    """Transcribe recordings; one that fails does not stop the others."""
    from whisper_hailo.cli.inputs import find_inputs
    from whisper_hailo.cli.sink import Sink

    formats = output.formats()
    words = decoding.times.words()
    layout = output.layout(has_words=words is not None)
    windows = long.options()
    sink = Sink(formats, output.output_dir, output.as_json, find_inputs(audio), layout)
    inputs = sink.checked()
    transcriber = model.transcriber()
    options = decoding.options(
        transcriber.default_cures,
        timestamps=output.wants_times,
        fallback=transcriber.default_fallback,
    )
    transcriber.check(options, windows)
    for reason in transcriber.reasons:
        logger.info(reason)
    if output.skip_existing:
        inputs = _without_done(inputs, sink)
        if not inputs:
            return ExitCode.OK
    with transcriber:
        codes = list(_Run(transcriber, options, long, sink).all(inputs))
    return next((code for code in codes if code), ExitCode.OK)


def _without_done(inputs: Sequence[Input], sink: Sink) -> list[Input]:
    """Inputs whose results are not there yet."""
    left = [entry for entry in inputs if entry.fault or not sink.has(entry)]
    if len(left) < len(inputs):
        tell(f"{len(inputs) - len(left)} of {len(inputs)} are there already")
    return left


class _Run:
    """All inputs through one transcriber."""

    def __init__(
        self, transcriber: Transcriber, options: DecodingOptions, long: LongFlags, sink: Sink
    ) -> None:
        self._transcriber = transcriber
        self._options = options
        self._flags = long
        self._long = long.options()
        self._sink = sink

    def all(self, inputs: Sequence[Input]) -> Iterator[ExitCode]:
        """Results in order; whatever an input's error, it is reported and the next has its turn."""
        if self._flags.channels == "split":
            for entry in inputs:
                yield self._one(entry, self._split)
        elif self._flags.batch_size == 1 or len(inputs) == 1:
            for entry in inputs:
                yield self._one(entry, self._mixed)
        else:
            yield from self._together(inputs)

    def _one(self, entry: Input, how: Callable[[Input, Progress], Transcript]) -> ExitCode:
        progress = Progress(shown(Path(entry.name).name))
        try:
            outcome: Transcript | Exception = how(entry, progress)
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

    def _mixed(self, entry: Input, progress: Progress) -> Transcript:
        return self._transcriber.transcribe(
            entry.source(),
            self._options,
            progress,
            long=self._long,
            batch_size=self._flags.batch_size,
        )

    def _split(self, entry: Input, progress: Progress) -> Transcript:
        """Each channel alone, on one timeline."""
        from whisper_hailo.audio.channels import merge_channels, split_channels

        transcripts = []
        with split_channels(entry.source()) as channels:
            for outcome in self._transcriber.transcribe_many(
                channels,
                self._options,
                progress,
                long=self._long,
                batch_size=self._flags.batch_size,
            ):
                if isinstance(outcome, Exception):
                    raise outcome
                transcripts.append(outcome)
        return merge_channels(transcripts)

    def _together(self, inputs: Sequence[Input]) -> Iterator[ExitCode]:
        """Windows of several files in one batch."""
        outcomes = self._transcriber.transcribe_many(
            (entry.source() for entry in inputs if entry.fault is None),
            self._options,
            long=self._long,
            batch_size=self._flags.batch_size,
        )
        for entry in inputs:
            yield self._deliver(entry, entry.fault or next(outcomes))
