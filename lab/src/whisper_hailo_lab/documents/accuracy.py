"""Tables of real checkpoints on human speech, of `docs/accuracy.md` and pages that it names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from whisper_hailo.decoding.hotwords import split_hotwords
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.report.study import LIBRISPEECH
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.transcripts import SYSTEM
from whisper_hailo_lab.tables import (
    DASH,
    Column,
    Table,
    fill_template,
    format_percent,
    format_share,
    make_table,
)

RESULT: Final = RESULTS / "accuracy.json"

Row = dict[str, Any]
Rows = Sequence[Row]

MISSING: Final = "Not measured with this version: run `make lab NAME=accuracy`.\n"
ENGLISH: Final = "English"
LONG: Final = "long recordings"
SHORT_GROUPS: Final = (ENGLISH, "other languages")
SPEECH_GROUPS: Final = (*SHORT_GROUPS, LONG)
SILENT: Final = "no speech"
_SYSTEM_LABELS: Final = {
    "openai-whisper": "OpenAI Whisper",
    "whisper-cpp": "whisper.cpp",
}


def make_tables(result: Row) -> dict[str, str]:
    """Return every table; a part that was not measured says so.

    Args:
        result: kept by `accuracy measure`.
    """
    parts: dict[str, Rows] = result["tables"]
    peers = parts.get("peers", ())
    peers_text = error_table(peers, SHORT_GROUPS)
    if peers_text and parts.get("left_out"):
        notes = "".join(
            f"Left out, not complete: {name}.\n" for name in parts["left_out"]
        )
        peers_text += f"\n{notes}"
    made: dict[str, tuple[Rows, str]] = {
        "headline": (peers, headline_table(peers)),
        "peers": (peers, peers_text),
        "silence": (peers, silence_table(peers)),
        "long": (peers, error_table(peers, [LONG])),
    }
    for name, make in _TABLES.items():
        rows = parts.get(name, ())
        made[name] = (rows, make(rows))
    return {
        f"accuracy-{name}": f"{describe_origin(rows)}\n\n{text}" if text else MISSING
        for name, (rows, text) in made.items()
    }


def describe_origin(rows: Rows) -> str:
    """Return the machine of our rows, with the program's version, and that of the others."""
    machines = {_name_program(row): row["machine"] for row in rows}
    parts = [f"{program}: {machine}" for program, machine in machines.items()]
    return f"{'; '.join(parts)}."


def _name_program(row: Row) -> str:
    if row["system"] != SYSTEM:
        return "other programs"
    version = re.search(rf"{SYSTEM} [^,]+", row["version"])
    return version[0] if version else SYSTEM


def label_row(row: Row) -> str:
    """Return a row's system with its options."""
    if row["row"].endswith("-captions"):
        return f"captions, {row['model']}"
    options = row["options"]
    system = _SYSTEM_LABELS.get(row["system"], row["system"])
    parts = [row["model"], *_engine_labels(row["system"], options)]
    parts.append("timestamps" if options["timestamps"] else "text only")
    if options.get("language") == "given":
        parts.append("language given")
    if options.get("initial_prompt"):
        parts.append("a prompt")
    if hotwords := options.get("hotwords"):
        parts.append(f"{len(split_hotwords(hotwords))} hotwords")
    return f"{system}, {', '.join(part for part in parts if part)}"


def _engine_labels(system: str, options: Row) -> list[str]:
    if system != "whisper-hailo":
        return [str(options.get("compute", "")), f"beam {options['beam']}"]
    return [_weights_label(options), f"{_window_label(options)} window"]


def _weights_label(options: Row) -> str:
    return "float32" if options["quantize"] == "none" else str(options["quantize"])


def _window_label(options: Row) -> str:
    window = options["window"]
    return "default" if window == "default" else f"{window} s"


def score_of(row: Row) -> Score:
    """Return the edit operations of a row."""
    return Score(
        row["substitutions"],
        row["deletions"],
        row["insertions"],
        row["hits"],
    )


def _rate_of(row: Row) -> str:
    return format_percent(score_of(row).rate)


def _of_groups(rows: Rows, groups: Sequence[str]) -> list[Row]:
    """Return rows of some groups, group by group."""
    return [row for group in groups for row in rows if row["group"] == group]


def error_table(rows: Rows, groups: Sequence[str]) -> str:
    """Return error rates, one line per system and group of recordings."""
    return _to_markdown(
        make_table(
            _of_groups(rows, groups),
            (
                ("system", label_row),
                ("speech", "{group}"),
                ("recordings", "{recordings}"),
                ("error rate", _rate_of),
                ("sub", "{substitutions}"),
                ("del", "{deletions}"),
                ("ins", "{insertions}"),
                ("of", lambda row: str(score_of(row).reference_count)),
                ("loops", "{loops}"),
            ),
        )
    )


_BITS: Final = {
    "float32": "not rounded",
    "all16": "16",
    "norms8": "16, layer norms 8",
    "softmax8": "16, softmax 8",
    "attention8": "16, attention's products 8",
    "linear8": "16, linear products 8",
    "adds8": "16, residual adds 8",
    "norms16": "8, residual adds and layer norms 16",
    "script": "the vendor's script: 8, linear products and residual adds 16",
    "adds16": "8, residual adds 16",
    "all8": "8",
}
"""Bits of the layers by plan of the emulated encoder, best first."""


def emulated_table(rows: Rows) -> str:
    """Return noise and error rates of emulated encoders, one line per model and plan."""
    cells: dict[tuple[str, str], Row] = defaultdict(dict)
    for row in rows:
        model, _, plan = row["model"].partition("-emulated-")
        if row["options"]["encoder_backend"] != "emulator":
            plan = "float32"
        text = _rate_of(row) + fill_template(
            " ({substitutions}, {deletions}, {insertions})", row
        )
        cell = cells[model, plan]
        cell["model"] = model
        cell["bits"] = _BITS[plan]
        if row["options"]["timestamps"]:
            cell["timed"] = text
            cell["snr"] = f"{row['snr_db']:.1f}" if "snr_db" in row else ""
        else:
            cell["plain"] = text
    plans = list(_BITS)
    order = sorted(cells, key=lambda key: (key[0], plans.index(key[1])))
    return _to_markdown(
        make_table(
            [cells[key] for key in order],
            (
                ("model", "{model}"),
                ("bits of the encoder", "{bits}"),
                ("SNR, dB", "{snr}"),
                ("text only", "{plain}"),
                ("timestamps", "{timed}"),
            ),
        )
    )


def windows_table(rows: Rows) -> str:
    """Return error rates and inserted words, one line per model, weights and window."""
    grouped: dict[tuple[str, str, float], Row] = {}
    for row in rows:
        options = row["options"]
        window = options["window"]
        # The default window comes first.
        order = 0.0 if window == "default" else float(window)
        key = (row["model"], _weights_label(options), order)
        cells = grouped.setdefault(
            key,
            {
                "model": row["model"],
                "weights": _weights_label(options),
                "window": _window_label(options),
            },
        )
        times = "timed" if options["timestamps"] else "plain"
        cells[f"{row['group']} {times}"] = f"{_rate_of(row)} ({row['insertions']})"
    return _to_markdown(
        make_table(
            [grouped[key] for key in sorted(grouped)],
            (
                ("model", "{model}"),
                ("weights", "{weights}"),
                ("window", "{window}"),
                ("English, text only", "{English plain}"),
                ("English, timestamps", "{English timed}"),
                ("long, text only", "{long recordings plain}"),
                ("long, timestamps", "{long recordings timed}"),
            ),
        )
    )


def language_table(rows: Rows) -> str:
    """Return error rates with one line per system and one column per language."""
    systems: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row["recordings"] and row["model"] != "tiny.en":
            systems[row["row"]][row["group"]] = row
    languages = sorted({language for found in systems.values() for language in found})
    columns: list[Column] = [
        ("system", lambda found: label_row(next(iter(found.values())))),
        ("language right", _languages_right),
    ]
    columns += [(language, _rate_in(language)) for language in languages]
    return _to_markdown(make_table(systems.values(), columns))


def _languages_right(by_language: dict[str, Row]) -> str:
    rows = by_language.values()
    right = sum(row["language_right"] for row in rows)
    return format_share(right, sum(row["recordings"] for row in rows))


def _rate_in(language: str) -> Any:  # noqa: ANN401 - a cell
    def cell(by_language: dict[str, Row]) -> str:
        return _rate_of(by_language[language]) if language in by_language else DASH

    return cell


def silence_table(rows: Rows) -> str:
    """Return how much text was written for sounds without speech."""
    return _to_markdown(
        make_table(
            _of_groups(rows, [SILENT]),
            (
                ("system", label_row),
                ("recordings with text", "{no_speech_with_text} of {no_speech}"),
                ("words", "{invented}"),
                ("loops", "{loops}"),
            ),
        )
    )


def headline_table(rows: Rows) -> str:
    """Return the README's table: clips and long recordings, one line per multilingual system."""
    grouped: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if not row["model"].endswith(".en"):
            grouped[label_row(row)][row["group"]] = score_of(row).rate
    complete = [
        item for item in grouped.items() if item[1].keys() >= set(SPEECH_GROUPS)
    ]
    return _to_markdown(
        make_table(
            complete,
            (
                ("program", "{0}"),
                ("English clips", "{1.English:.1%}"),
                ("clips of 17 other languages", "{1.other languages:.1%}"),
                ("long recordings", "{1.long recordings:.1%}"),
            ),
        )
    )


def time_table(rows: Rows) -> str:
    """Return processor time per second of audio, one line per system and group."""
    return _to_markdown(
        make_table(
            _of_groups(rows, [*SPEECH_GROUPS, SILENT]),
            (
                ("system", label_row),
                ("speech", "{group}"),
                ("audio s", "{seconds:.0f}"),
                ("processor s", "{seconds_cpu:.0f}"),
                (
                    "processor s per s",
                    lambda row: f"{row['seconds_cpu'] / row['seconds']:.3f}",
                ),
            ),
        )
    )


def study_table(rows: Rows) -> str:
    """Return the study's figures beside ours, in its form of rate and the field's."""
    return _to_markdown(
        make_table(
            [_study_row(row) for row in rows],
            (
                ("configuration", "{label}"),
                ("study: WER", "{published.wer:.1%}"),
                ("study: CER", "{published.cer:.1%}"),
                ("ours: WER, its form", "{simple_wer:.1%}"),
                ("ours: CER, its form", "{simple_cer:.1%}"),
                ("ours: WER", _rate_of),
                ("points more than the first row, 95 %", "{low:+.1f} to {high:+.1f}"),
            ),
        )
    )


def _study_row(row: Row) -> Row:
    published = next(
        (line for line in LIBRISPEECH if row["row"].endswith(line.name)), None
    )
    own_label = row["row"].partition("-detected-text-")[2]
    low, high = row["more_than_first"]
    return row | {
        "published": published,
        "label": own_label if published is None else published.name,
        "low": 100 * low,
        "high": 100 * high,
    }


_TABLES: Final[Mapping[str, Callable[[Rows], str]]] = {
    "windows": windows_table,
    "languages": language_table,
    "prompts": lambda rows: error_table(rows, SPEECH_GROUPS),
    "captions": lambda rows: error_table(rows, SPEECH_GROUPS),
    "emulated": emulated_table,
    "study": study_table,
    "time": time_table,
}
"""Tables of one part each."""


def _to_markdown(table: Table) -> str:
    """Return a table, or nothing where no row was measured."""
    return table.markdown() if table.rows else ""
