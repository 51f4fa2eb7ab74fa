"""Where transcripts go: standard output, or files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.messages import (
    describe_error,
    print_line,
    print_note,
    report_error,
    was_interrupted,
)
from whisper_hailo.cli.progress import Progress, clock, is_terminal
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.cli.untranscribed import warn_untranscribed
from whisper_hailo.cli.workload import Workload
from whisper_hailo.core.atomic_files import require_writable_folder, write_file
from whisper_hailo.core.errors import ExitCode, OptionError, OutputError, display_path
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.overwrite import file_id, refuse_foreign
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.text.formats import FORMATS, JSON, TextWriter, render
from whisper_hailo.text.transcript_json import (
    as_json,
    drop_words,
    failure_json,
    timings_json,
)
from whisper_hailo.transcription.run import Segments
from whisper_hailo.transcription.window_cache import SIGNATURE, WindowCache

ADVICE: Final = "give another --output-dir"


@dataclass(frozen=True, slots=True)
class Sink:
    """Takes the result or the failure of each input.

    Attributes:
        inputs: all of them; no output may replace one.
        timed: lines of text on standard output have times.
        has_words: JSON has the words of segments that have some.

    Raises:
        OptionError: a result would replace an input, or several need a folder.
    """

    output: OutputOptions
    inputs: Sequence[Input]
    timed: bool = False
    has_words: bool = True

    def __post_init__(self) -> None:
        if self.output.folder is None:
            self._refuse_several_documents()
        else:
            self._refuse_one_name()
            self._refuse_replaced_inputs()

    def _refuse_one_name(self) -> None:
        """Refuse to write the results of several inputs to one file."""
        stem = self.output.single_stem
        if stem is not None and len(self.inputs) > 1:
            name = display_path(self.output.file or stem)
            formats = ",".join(self.output.formats)
            raise OptionError(
                f"{name} names a single file, but there are {len(self.inputs)} inputs; give a "
                f"folder: --output-dir {display_path(stem)} --format {formats}"
            )

    def _refuse_several_documents(self) -> None:
        """Refuse to print, say, two SRT files one behind the other."""
        fmt = self.output.formats[0]
        can_follow = self.output.as_json or fmt in ("txt", JSON)
        if len(self.inputs) > 1 and not can_follow:
            raise OptionError(
                f"--format {fmt} of {len(self.inputs)} inputs writes one file for each; give "
                "--output-dir"
            )

    def _refuse_replaced_inputs(self) -> None:
        input_ids = {entry.id for entry in self.inputs} - {None}
        for entry in self.inputs:
            if entry.fault is not None:
                continue
            for _, path in self.result_files(entry):
                if file_id(path) in input_ids:
                    raise OptionError(
                        f"the text of {display_path(entry.name)} would replace the input "
                        f"{display_path(path)}; give another --output-dir"
                    )

    def check_results(self) -> list[Input]:
        """Return the inputs, with a fault where a result would overwrite a foreign file.

        Raises:
            OutputError: the output folder is not writable.
        """
        if self.output.folder is not None:
            require_writable_folder(self.output.folder, ADVICE)
        checked = []
        for entry in self.inputs:
            fault = entry.fault
            try:
                for fmt, path in self.result_files(entry):
                    refuse_foreign(path, FORMATS[fmt].signature)
                cache = self.cache_path(entry)
                if cache is not None:
                    refuse_foreign(cache, SIGNATURE)
            except OutputError as error:
                fault = fault or error
            checked.append(replace(entry, fault=fault))
        return checked

    def result_files(self, entry: Input) -> list[tuple[str, Path]]:
        """Return the formats and files of an input's results; none on standard output."""
        stem = self._result_stem(entry)
        if stem is None:
            return []
        if self.output.file is not None:  # its suffix may be in capitals
            return [(self.output.formats[0], self.output.file)]
        return [(fmt, Path(f"{stem}.{fmt}")) for fmt in self.output.formats]

    def cache_path(self, entry: Input) -> Path | None:
        """Return the window cache of a resumable run; `None` on standard output."""
        stem = self._result_stem(entry)
        return None if stem is None else Path(f"{stem}.part.jsonl")

    def _result_stem(self, entry: Input) -> Path | None:
        """Return the path of an input's results without a suffix; `None` on standard output."""
        if self.output.single_stem is not None:
            return self.output.single_stem
        folder = self.output.folder
        return None if folder is None else folder / entry.stem

    def printer(self, entry: Input) -> SegmentPrinter | None:
        """Return a printer of an input's segments, as they come.

        It is `None` where a result does not come in parts on standard output.
        """
        fmt = self.output.formats[0]
        if self.output.folder is not None or self.output.as_json or fmt == JSON:
            return None
        has_prefix = len(self.inputs) > 1 and fmt == "txt"
        prefix = f"{display_path(entry.name)}: " if has_prefix else ""
        return SegmentPrinter(
            TextWriter(
                fmt,
                self.output.layout,
                timed=self.timed,
                paragraphs=self.output.has_paragraphs,
            ),
            prefix,
        )

    def has_results(self, entry: Input) -> bool:
        """Return whether all results of an input exist; writes are atomic."""
        files = self.result_files(entry)
        return bool(files) and all(os.path.isfile(path) for _, path in files)

    def write_result(
        self, entry: Input, transcript: Transcript, *, is_printed: bool = False
    ) -> None:
        """Write the result of one input; its text may be printed already."""
        name = display_path(entry.name)
        if not transcript.text and not transcript.untranscribed:
            print_line(f"{name}: no speech in {transcript.duration_s:.1f} s of audio")
        warn_untranscribed(transcript, name)
        # Words that only place cues and segments are not in JSON.
        facts = transcript if self.has_words else drop_words(transcript)
        for fmt, path in self.result_files(entry):
            text = render(
                facts if fmt == JSON else transcript,
                fmt,
                self.output.layout,
                paragraphs=self.output.has_paragraphs,
            )
            write_file(path, text, ADVICE)
            print_note(f"wrote {display_path(path)}")
        if self.output.as_json:
            # A stream has no name of its own, or the number of a temporary file.
            named = replace(facts, audio=entry.name)
            emit_json(as_json(named) | timings_json(transcript))
        elif self.output.folder is None and not is_printed:
            self._print_transcript(entry, transcript, facts)

    def _print_transcript(
        self, entry: Input, transcript: Transcript, facts: Transcript
    ) -> None:
        """Print a transcript, or its facts as JSON."""
        printer = self.printer(entry)
        if printer is None:
            emit(render(facts, JSON))
            return
        for segment in transcript.segments:
            printer.write(segment)
        printer.finish()

    def write_error(self, entry: Input, error: Exception) -> ExitCode:
        """Report a failed input; return its exit code."""
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        code = report_error(error)
        if self.output.as_json:
            emit_json(failure_json(entry.name, describe_error(error), int(code)))
        return code


class SegmentPrinter:
    """Prints the segments of one input, with the input's name before each part if need be."""

    def __init__(self, writer: TextWriter, prefix: str) -> None:
        self._writer = writer
        self._prefix = prefix

    def write(self, segment: Segment) -> None:
        """Print what is complete with a segment."""
        self._emit(self._writer.write(segment))

    def finish(self) -> None:
        """Print the rest."""
        self._emit(self._writer.finish())

    def _emit(self, parts: Iterable[str]) -> None:
        for part in parts:
            # The empty line before a paragraph is no part of a line with the input's name.
            emit(self._prefix + part.lstrip("\n") if self._prefix else part)


def write_recording(
    entry: Input,
    sink: Sink,
    identity: Callable[[], str],
    transcribe: Callable[..., Segments],
    workload: Workload | None = None,
) -> None:
    """Transcribe an input, print its segments if they come on standard output, write the result.

    `identity` returns the hash of all that affects the text, for resumed runs; `transcribe` takes
    the source, `progress`, `speaker_progress` and a `cache` of windows.
    """
    name = display_path(entry.name)
    printer = sink.printer(entry)
    path = sink.cache_path(entry)
    cache: WindowCache | None = None
    if path is not None:
        # Other settings are another identity, so what is recalled gives the same text.
        cache = WindowCache(path, identity(), go_on=True)
    try:
        with Progress(display_path(Path(entry.name).name), workload) as progress:
            if cache is not None:
                _resume(cache, progress, name)
            segments = transcribe(
                entry.source(),
                progress=progress,
                speaker_progress=progress.find_speakers,
                cache=cache,
            )
            _print_segments(segments, printer, progress, name)
        sink.write_result(entry, segments.transcript, is_printed=printer is not None)
        if cache is not None:
            cache.remove()
    except KeyboardInterrupt:
        if cache is None and is_terminal():
            print_note(
                f"{name}: nothing was saved; a run with --output-dir can be resumed"
            )
        raise
    finally:
        if cache is not None:
            cache.close()
            if cache.kept:
                print_note(_describe_cache(cache, sink, name))


def _resume(cache: WindowCache, progress: Progress, name: str) -> None:
    """Open the cache; say where an interrupted run goes on."""
    known_s = cache.open().known_s
    if known_s:
        progress.skip(known_s)
        with progress.hidden():
            print_note(f"{name}: resuming after {clock(known_s)}")


def _describe_cache(cache: WindowCache, sink: Sink, name: str) -> str:
    """Return how to go on with what is kept of an interrupted run."""
    command = "the same command"
    if len(sink.inputs) > 1 and not sink.output.skip_existing:
        command += " with --skip-existing"  # or the recordings before it are done again
    return f"{name}: the text up to {clock(cache.known_s)} is saved; {command} resumes from there"


def _print_segments(
    segments: Segments, printer: SegmentPrinter | None, progress: Progress, name: str
) -> None:
    """Transcribe all segments; print the language as soon as it is known, and the text.

    On a terminal the progress is erased before each line, or the line would be written behind it.
    """
    is_language_known = False
    for segment in segments:
        if not is_language_known:
            is_language_known = _print_language(segments, progress, name)
        if printer is not None:
            with progress.hidden():
                printer.write(segment)
    if not is_language_known:
        _print_language(segments, progress, name)
    if printer is not None:
        with progress.hidden():
            printer.finish()


def _print_language(segments: Segments, progress: Progress, name: str) -> bool:
    """Print the likeliest language with its probability; return whether one was detected yet."""
    probs = segments.language_probs
    if len(probs) <= 1:  # it was given, or is the only one of the model
        return False
    code, probability = next(iter(probs.items()))
    with progress.hidden():
        print_note(f"{name}: {language_name(code)} ({probability:.0%})")
    return True
