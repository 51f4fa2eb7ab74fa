"""Where transcripts go: standard output, or files in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

from whisper_hailo.cli.inputs import Input
from whisper_hailo.cli.messages import describe, note, report, tell, was_interrupted
from whisper_hailo.cli.progress import Progress, clock
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import OutputOptions
from whisper_hailo.core.atomic_files import require_writable_folder, write_file
from whisper_hailo.core.errors import ExitCode, OptionError, OutputError, display_path
from whisper_hailo.core.languages import language_name
from whisper_hailo.core.overwrite import file_id, refuse_foreign
from whisper_hailo.core.types import Segment, Transcript
from whisper_hailo.text.formats import FORMATS, JSON, TextWriter, render
from whisper_hailo.text.transcript_json import as_json, failure_json, timings_json
from whisper_hailo.transcription.run import Segments
from whisper_hailo.transcription.window_cache import SIGNATURE, Journal

ADVICE: Final = "free some space or give another --output-dir"


@dataclass(frozen=True, slots=True)
class Sink:
    """Takes the result or the failure of each input.

    Attributes:
        inputs: all of them; no output may replace one.
        timed: lines of text on standard output have times.
    """

    output: OutputOptions
    inputs: Sequence[Input]
    timed: bool = False

    def __post_init__(self) -> None:
        if self.output.output_dir is None:
            fmt = self.output.formats[0]
            if len(self.inputs) > 1 and not self.output.as_json and fmt not in ("txt", JSON):
                raise OptionError(
                    f"--format {fmt} of {len(self.inputs)} inputs gives a file for each; give "
                    "--output-dir"
                )
            return
        files = {entry.id for entry in self.inputs} - {None}
        for entry in self.inputs:
            for _, target in [] if entry.fault else self.written(entry):
                if file_id(target) in files:
                    raise OptionError(
                        f"the text of {display_path(entry.name)} would replace the input "
                        f"{display_path(target)}; give another --output-dir"
                    )

    def checked(self) -> list[Input]:
        """Return the inputs, with a fault where a result would overwrite a foreign file.

        Refuses an output folder that is not writable.
        """
        if self.output.output_dir is not None:
            require_writable_folder(self.output.output_dir, ADVICE)
        checked = []
        for entry in self.inputs:
            fault = entry.fault
            try:
                for fmt, target in self.written(entry):
                    refuse_foreign(target, FORMATS[fmt].signature)
                if (journal := self.journal(entry)) is not None:
                    refuse_foreign(journal, SIGNATURE)
            except OutputError as error:
                fault = fault or error
            checked.append(replace(entry, fault=fault))
        return checked

    def written(self, entry: Input) -> list[tuple[str, Path]]:
        """Return the formats and files of an input's results; none on standard output."""
        folder, output = self.output.output_dir, self.output
        return [] if folder is None else [(f, folder / f"{entry.stem}.{f}") for f in output.formats]

    def journal(self, entry: Input) -> Path | None:
        """Return the journal of a resumable run; `None` on standard output."""
        folder = self.output.output_dir
        return folder and folder / f"{entry.stem}.part.jsonl"

    def printer(self, entry: Input) -> Callable[[Segment | None], None] | None:
        """Return what prints the segments of an input, then the rest (`None`), as they come.

        It is `None` where a result does not come in parts on standard output.
        """
        output, fmt = self.output, self.output.formats[0]
        if output.output_dir is not None or output.as_json or fmt == JSON:
            return None
        writer = TextWriter(fmt, output.layout, timed=self.timed)
        several = len(self.inputs) > 1 and fmt == "txt"
        prefix = f"{display_path(entry.name)}: " if several else ""

        def show(segment: Segment | None) -> None:
            parts = writer.finish() if segment is None else writer.write(segment)
            if whole := "".join(prefix + part for part in parts):
                emit(whole)

        return show

    def has(self, entry: Input) -> bool:
        """Return whether all results of an input exist; writes are atomic."""
        written = self.written(entry)
        return bool(written) and all(os.path.isfile(target) for _, target in written)

    def put(self, entry: Input, transcript: Transcript, *, printed: bool = False) -> None:
        """Write the result of one input, unless it is `printed` already."""
        name = display_path(entry.name)
        if not transcript.text:
            tell(f"{name}: no speech in {transcript.duration_s:.1f} s of audio")
        for fmt, target in self.written(entry):
            write_file(target, render(transcript, fmt, self.output.layout), ADVICE)
            note(f"wrote {display_path(target)}")
        if self.output.as_json:
            # A stream has no name of its own, or the number of a temporary file.
            emit_json(as_json(replace(transcript, audio=entry.name)) | timings_json(transcript))
        elif self.output.output_dir is None and not printed:
            if (show := self.printer(entry)) is None:
                emit(render(transcript, JSON))
            else:
                for segment in (*transcript.segments, None):
                    show(segment)

    def put_error(self, entry: Input, error: Exception) -> ExitCode:
        """Report a failed input; return its exit code."""
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        code = report(error)
        if self.output.as_json:
            emit_json(failure_json(entry.name, describe(error), int(code)))
        return code


def write_recording(
    entry: Input,
    sink: Sink,
    identity: Callable[[], str],
    transcribe: Callable[..., Segments],
) -> None:
    """Transcribe an input, print its segments if they come on standard output, write the result.

    `identity` returns the hash of all that affects the text, for resumed runs; `transcribe` takes
    the source, `progress` and a `memory` of windows.
    """
    name, show, kept = display_path(entry.name), sink.printer(entry), sink.journal(entry)
    go_on, is_told = sink.output.skip_existing, False
    journal = None if kept is None else Journal(kept, identity(), go_on=go_on)
    progress = Progress(display_path(Path(entry.name).name))
    try:
        if journal is not None and (known_s := journal.open().known_s):
            progress.skip(known_s)
            note(f"{name}: goes on after {clock(known_s)}")
        segments = transcribe(entry.source(), progress=progress, memory=journal)
        for segment in chain(segments, (None,)):
            probs = segments.language_probs
            if not is_told and len(probs) > 1:
                is_told = True
                code, probability = next(iter(probs.items()))
                progress.close()
                note(f"{name}: {language_name(code)} ({probability:.0%})")
            if show is not None:
                progress.close()
                show(segment)
        progress.close()
        sink.put(entry, segments.transcript, printed=show is not None)
        if journal is not None:
            journal.remove()
    finally:
        progress.close()
        if journal is not None:
            journal.close()
            if journal.kept:
                note(f"{name}: what was decoded is kept; --resume goes on")
