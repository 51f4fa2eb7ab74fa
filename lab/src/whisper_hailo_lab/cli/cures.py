"""`whisper-hailo cures`: what keeps this model from repeating itself, and what it costs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from whisper_hailo.cli.messages import print_line
from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.cli.transcribe_options import ModelOptions
from whisper_hailo.core.errors import ExitCode, OptionError, display_path
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.languages import language_code
from whisper_hailo.core.overwrite import Signature, refuse_foreign
from whisper_hailo_lab.cli import whole_number
from whisper_hailo_lab.extras import require_extra

if TYPE_CHECKING:
    from whisper_hailo_lab.cures.run import CureRow
    from whisper_hailo_lab.data.datasets import Sample


def cures(
    audio: Annotated[Path, Argument("A recording, or a folder of <id>.wav with <id>.txt beside.")],
    model: ModelOptions,
    language: Annotated[
        str, Flag("Code or English name.", short="-l", metavar="L", parse=language_code)
    ] = "en",
    pad_to: Annotated[
        str, Flag("Padding targets.", metavar="N,N,...")
    ] = "0,500,600,650,700,1000,1500",
    repetition_penalty: Annotated[str, Flag("", metavar="X,X,...")] = "1,1.1",
    eot_boost: Annotated[str, Flag("", metavar="X,X,...")] = "0,0.2",
    no_repeat_ngram: Annotated[str, Flag("Each alone, without padding.", metavar="N,N,...")] = "3",
    zero_rows: Annotated[
        str, Flag("Targets also padded with real zeros.", metavar="N,N,...")
    ] = "500,600,700,1000,1500",
    vad: Annotated[bool, Flag("Also speech only (extra vad).")] = False,
    limit: Annotated[
        int | None,
        Flag("Only the first N recordings.", metavar="N", parse=whole_number(1, 100_000)),
    ] = None,
    chart: Annotated[Path | None, Flag("Write an SVG there.", metavar="FILE")] = None,
    as_json: Annotated[bool, Flag("Print the rows as JSON.", name="--json")] = False,
) -> int:
    """Compare the cures against hallucination on recordings of yours."""
    from whisper_hailo.core.atomic_files import require_writable_folder, write_file
    from whisper_hailo.decoding.options import DecodingOptions
    from whisper_hailo_lab.cures.grid import Grid
    from whisper_hailo_lab.cures.run import chart as draw
    from whisper_hailo_lab.cures.run import compare
    from whisper_hailo_lab.score import require_scoring

    require_scoring()
    if chart is not None:
        require_extra("bench", "a chart", "matplotlib")
        refuse_foreign(chart, Signature("an SVG file", rb"\s*<(\?xml|svg)\b"))
        require_writable_folder(chart.parent, "give another place")
    grid = Grid(
        pad_to=tuple(map(int, _numbers("--pad-to", pad_to))),
        repetition_penalty=_numbers("--repetition-penalty", repetition_penalty),
        eot_boost=_numbers("--eot-boost", eot_boost),
        ngrams=tuple(map(int, _numbers("--no-repeat-ngram", no_repeat_ngram))),
        zero_rows=tuple(map(int, _numbers("--zero-rows", zero_rows))),
        vad=vad,
    )
    settings, options = grid.settings(), DecodingOptions(language=language)
    samples = _samples(audio, language)[:limit]
    transcriber = replace(model.transcriber(), encode_ahead=False)
    for setting in settings:
        transcriber.check(setting.options(options))
    with transcriber:
        rows = compare(
            transcriber,
            samples,
            settings,
            options,
            step=lambda name: print_line(f"{len(samples)} recordings: {name}"),
        )
    if chart is not None:
        write_file(chart, draw(rows))
        print_line(f"wrote {display_path(chart)}")
    _print(rows, as_json=as_json)
    return ExitCode.OK


def _print(rows: list[CureRow], *, as_json: bool) -> None:
    from whisper_hailo_lab.cures.run import table

    if as_json:
        emit_json({"rows": [row.to_dict() for row in rows]})
        return
    emit(table(rows).plain())
    for row in rows:
        if row.differs_at is not None:
            emit(f"\n{row.name}, {row.differs_at}:\n- {row.expected}\n+ {row.got}\n")


def _samples(audio: Path, language: str) -> list[Sample]:
    """A recording, with its text where there is one, or all of a folder."""
    from whisper_hailo_lab.data.datasets import Sample, read_dataset, reference_beside

    if audio.is_dir() or audio.suffix == ".jsonl":
        dataset = read_dataset(audio, language)
        for problem in dataset.problems:
            print_line(f"left out {problem.id}: {problem.message}")
        return list(dataset.samples)
    return [Sample(audio.stem, audio, reference_beside(audio) or "", language)]


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise OptionError(f"{option} is {text!r}, expected numbers with commas between")
    return numbers
