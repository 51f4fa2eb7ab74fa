"""Where transcripts go: standard output, or one file per input."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whisper_hailo.cli.report import describe, report
from whisper_hailo.cli.stdout import emit, emit_json
from whisper_hailo.core.errors import ExitCode, OptionError
from whisper_hailo.core.types import Transcript
from whisper_hailo.outputs import FORMATS, machine_json, render, write_atomic


@dataclass(frozen=True, slots=True)
class Sink:
    """Takes the result or the failure of each input.

    Attributes:
        fmt: one of `outputs.FORMATS`.
        output_dir: where files are written; `None` is standard output.
        as_json: print one JSON object per input on standard output.
        audio: all inputs, which no output may replace.

    Raises:
        OptionError: no such format, or a file would replace another one or an input.
    """

    fmt: str
    output_dir: Path | None
    as_json: bool
    audio: Sequence[Path]

    def __post_init__(self) -> None:
        if self.fmt not in FORMATS:
            raise OptionError(f"--format is {self.fmt!r}, expected one of: {', '.join(FORMATS)}")
        if self.output_dir is None:
            return
        inputs = {os.path.realpath(path) for path in self.audio}
        targets: set[str] = set()
        for path in self.audio:
            target = os.path.realpath(self._target(self.output_dir, path))
            if target in inputs:
                raise OptionError(f"the text of {path} would replace the input {target}")
            if target in targets:
                raise OptionError(
                    f"several inputs are called {path.stem!r} and would overwrite each other in "
                    "--output-dir; transcribe them in separate runs"
                )
            targets.add(target)

    def put(self, path: Path, transcript: Transcript) -> None:
        """Hand over the result of one input.

        Raises:
            OutputError: it cannot be written.
        """
        if not transcript.text:
            print(f"{path}: no speech in {transcript.duration_s:.1f} s of audio", file=sys.stderr)
        if self.output_dir is not None:
            target = self._target(self.output_dir, path)
            write_atomic(target, render(transcript, self.fmt))
            print(f"wrote {target}", file=sys.stderr)
        if self.as_json:
            emit_json(machine_json(transcript))
        elif self.output_dir is None:
            prefix = f"{path}: " if len(self.audio) > 1 and self.fmt == "txt" else ""
            emit(prefix + render(transcript, self.fmt))

    def put_error(self, path: Path, error: Exception) -> ExitCode:
        """Report an input that failed; returns its exit code."""
        code = report(error)
        if self.as_json:
            emit_json({"audio": str(path), "error": describe(error), "exit_code": int(code)})
        return code

    def _target(self, output_dir: Path, path: Path) -> Path:
        return output_dir / f"{path.stem}.{self.fmt}"
