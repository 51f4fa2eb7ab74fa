"""Options of the commands that transcribe: model, engine, temperatures, results."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.backends.options import ChipPriority, EngineOptions
from whisper_hailo.cli.messages import is_verbose
from whisper_hailo.convert.options import WINDOW, ConvertOptions
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import flag, number_or_none, option_group, require_valid
from whisper_hailo.core.languages import KNOWN_LANGUAGES, similar_language
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.core.process import MOST_THREADS
from whisper_hailo.decoding.options import (
    HOTTEST,
    SEARCH,
    DecodingOptions,
    SearchOptions,
    rising_temperatures,
)
from whisper_hailo.text.formats import (
    ALL_FORMATS,
    FORMATS,
    JSON,
    find_format,
    has_readable_cues,
)
from whisper_hailo.text.subtitles import Layout
from whisper_hailo.transcription.longform.options import LONG

if TYPE_CHECKING:
    from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

_SUFFIXES: Final = tuple(f".{name}" for name in FORMATS)

_OTHER_TEXT: Final = (".ass", ".csv", ".lrc", ".sbv", ".ssa", ".sub", ".ttml")
"""Suffixes of text with times that other programs write."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The model and how it runs."""

    model: str = flag(
        "tiny",
        "Model name, hub id, directory, or file: .pt, ggml-*.bin.",
        short="-m",
        metavar="NAME",
    )
    revision: str | None = flag(
        None, "Hub commit, tag or branch.", WINDOW, metavar="NAME", shown="main"
    )
    convert: ConvertOptions = option_group(
        ConvertOptions, "quantize", "encoder_quantize"
    )
    window: float | None = flag(
        None,
        "Encoder window in seconds.",
        WINDOW,
        metavar="S",
        shown="20, or the encoder's own",
    )
    margin_s: float | None = flag(
        None,
        "Time left free at the end of a window.",
        WINDOW,
        metavar="S",
        shown="1; 0 at 30 s",
        rare=True,
    )
    engine: EngineOptions = option_group(EngineOptions)
    threads: int = flag(0, "Threads per operator; 0: automatic.", short="-t")

    def __post_init__(self) -> None:
        require_valid(
            self, "threads", 0 <= self.threads <= MOST_THREADS, f"0 to {MOST_THREADS}"
        )
        # 20 ms are one encoder position, 30 s are what Whisper was trained on.
        is_valid = self.window is None or 0.02 <= self.window <= 30.0
        require_valid(self, "window", is_valid, "0.02 s to 30 s")

    def expect_language(self, options: DecodingOptions) -> None:
        """Refuse unknown languages, and others than English for `.en` models."""
        for language in options.languages:
            # Codes have two or three letters; only the model knows them.
            if len(language) <= 3:
                continue
            similar = similar_language(language, KNOWN_LANGUAGES)
            example = f", such as {similar}" if similar else ""
            raise OptionError(
                f"--language is {language!r}, expected the name or code of a language{example}"
            )
        if not self.model.endswith(".en") or os.path.exists(self.model):
            return  # a model directory says itself what it knows
        if set(options.languages) - {"en"}:
            raise self._english_only("--language", options.language)
        if options.task != "transcribe":
            raise self._english_only("--task", options.task)

    def _english_only(self, option: str, value: str) -> OptionError:
        multilingual = self.model.removesuffix(".en")
        return OptionError(
            f"{option} is {value}, {self.model} supports English only; give --model {multilingual}"
        )

    def transcriber(self, priority: ChipPriority = ChipPriority.BATCH) -> Transcriber:
        """Return a transcriber that is not open yet, with a priority on a shared Hailo chip."""
        from whisper_hailo.transcription.transcriber import Transcriber

        return Transcriber.from_model(**self.arguments(priority))

    def arguments(self, priority: ChipPriority = ChipPriority.BATCH) -> dict[str, Any]:
        """Return the arguments of `Transcriber.from_model`."""
        chip = replace(self.engine.hailo, priority=priority)
        return {
            "model": self.model,
            "revision": self.revision,
            "convert": self.convert,
            "window_s": self.window,
            "margin_s": self.margin_s,
            "threads": self.threads,
            "engine": replace(self.engine, hailo=chip),
        }


@dataclass(frozen=True, slots=True)
class Fallback:
    """The first temperature, and the step of each retry."""

    temperature: float = flag(
        0.0, "Sampling temperature; 0 is greedy or beam search.", SEARCH
    )
    fallback: float | None = flag(
        None,
        "Retry doubtful text at temperatures raised by this, up to 1; 0 is off.",
        SEARCH,
        also=("--temperature-increment-on-fallback",),
        metavar="STEP",
        shown="0.4; 0 for decoders without a cache",
        parse=lambda text: number_or_none(text) or 0.0,
    )

    def apply(
        self,
        given: PartialOptions[DecodingOptions],
        default: DecodingOptions,
        step: float,
    ) -> DecodingOptions:
        """Return a decoder's defaults with the given options and these temperatures.

        `step` is the decoder's default rise of temperature for each retry.
        """
        if self.fallback is not None:
            step = self.fallback
        if step != 0 and not 0.01 <= step <= HOTTEST:
            raise OptionError(
                f"--fallback is {step:g}, expected 0 (off) or a step of 0.01 to 1"
            )
        search = SearchOptions(rising_temperatures(self.temperature, step))
        return given.apply_to(replace(default, search=search))


def log_engine(transcriber: Transcriber) -> None:
    """Log encoder and decoder in one line, or why they were chosen."""
    if transcriber.reasons and not is_verbose():
        logger.info(
            ", ".join(reason.partition(":")[0] for reason in transcriber.reasons)
        )
    for reason in transcriber.reasons:
        logger.debug(reason)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """Formats of the results, and where they go."""

    fmt: tuple[str, ...] = flag(
        (), f"{', '.join(FORMATS)}, {ALL_FORMATS}.", name="--format", short="-f",
        metavar="LIST", shown="txt",
    )  # fmt: skip
    output_dir: Path | None = flag(
        None,
        "Folder of the files, or one file: talk.srt.",
        short="-o",
        also=("--output",),
        metavar="DIR",
    )
    skip_existing: bool = flag(
        False, "Skip recordings that are finished.", also=("--resume",)
    )
    as_json: bool = flag(False, "Print one JSON object per input.", name="--json")
    paragraphs: bool | None = flag(
        None,
        "Write txt in paragraphs instead of one line per segment.",
        LONG,
        shown="on a terminal and in files",
    )
    layout: Layout = option_group(Layout)
    output_file: Path | None = flag(
        None,
        "Name of one recording's files, without a suffix.",
        also=("-of",),
        metavar="NAME",
        rare=True,
    )

    def __post_init__(self) -> None:
        if self.output_dir == Path("-"):
            raise OptionError(
                "--output-dir is '-', expected a folder; leave it out to write to standard output"
            )
        for name in self._format_names:
            if name != ALL_FORMATS:
                find_format(name)  # refuses an unknown one
        self._refuse_other_suffix()
        if self.folder is None and len(self.formats) > 1:
            names = " ".join(self._format_names)
            raise OptionError(
                f"--format {names} writes several files; give --output-dir"
            )
        if self.folder is None and self.skip_existing:
            raise OptionError("--skip-existing needs --output-dir; give both")

    def _refuse_other_suffix(self) -> None:
        """Refuse the name of a file of another format, which would become a folder."""
        path = self.output_dir
        if path is None or path.is_dir():
            return
        suffix = path.suffix.lower()
        if suffix in _OTHER_TEXT:
            raise OptionError(
                f"{display_path(path)} is the name of a {suffix} file; the formats are "
                f"{', '.join(FORMATS)}"
            )
        if self.file is not None and self.formats != (suffix[1:],):
            formats = ",".join(self.formats)
            raise OptionError(
                f"{display_path(path)} is the name of one {suffix[1:]} file, but --format is "
                f"{formats}; give a folder: --output-dir {display_path(path.with_suffix(''))}"
            )

    @property
    def file(self) -> Path | None:
        """The file of a single result, where `output_dir` is the name of one."""
        path = self.output_dir
        if path is None or self.output_file is not None:
            return None
        is_file_name = path.suffix.lower() in _SUFFIXES
        return path if is_file_name and not path.is_dir() else None

    @property
    def single_stem(self) -> Path | None:
        """Path without suffix of the results of the only input; `None`: inputs have their own."""
        if self.file is not None:
            return self.file.with_suffix("")
        if self.output_file is None:
            return None
        path = (self.output_dir or Path()) / self.output_file
        # `-osrt -of talk.srt` means talk.srt, not talk.srt.srt
        return path.with_suffix("") if path.suffix.lower() in _SUFFIXES else path

    @property
    def folder(self) -> Path | None:
        """The folder of the results; `None`: they go to standard output."""
        stem = self.single_stem
        return self.output_dir if stem is None else stem.parent

    def require_folder(self) -> Path:
        """Return the folder of results of many recordings.

        Raises:
            OptionError: there is none, or a file is named.
        """
        if self.output_dir is None:
            raise OptionError("--output-dir is missing: the folder of the job")
        if self.file is not None:
            folder = display_path(self.file.with_suffix(""))
            raise OptionError(
                f"{display_path(self.file)} is the name of one file, but a job writes a folder; "
                f"give --output-dir {folder} --format {self.formats[0]}"
            )
        return self.output_dir

    @property
    def _format_names(self) -> list[str]:
        """The formats as typed: an option each, or with commas between."""
        words = [word.strip().lower() for word in ",".join(self.fmt).split(",")]
        names = [word for word in words if word]
        if names:
            return names
        return ["txt" if self.file is None else self.file.suffix[1:].lower()]

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats to write, without duplicates."""
        names = self._format_names
        return tuple(FORMATS) if ALL_FORMATS in names else tuple(dict.fromkeys(names))

    @property
    def has_paragraphs(self) -> bool:
        """Whether `txt` has paragraphs; programs that read a pipe get a line per segment."""
        if self.paragraphs is not None:
            return self.paragraphs
        return self.folder is not None or sys.stdout.isatty()

    @property
    def has_readable_cues(self) -> bool:
        """Whether a result has cues that are set by the times of words."""
        return has_readable_cues(self.formats, self.layout)

    @property
    def has_segment_times(self) -> bool:
        """Whether a result has the times of segments in a form that programs read."""
        return self.as_json or not {JSON, "tsv"}.isdisjoint(self.formats)
