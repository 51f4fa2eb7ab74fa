"""The tables of `docs/accuracy.md`, from counts of real checkpoints on human speech."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from whisper_hailo.decoding.hotwords import split_hotwords
from whisper_hailo_lab.rates import Score
from whisper_hailo_lab.report.study import LIBRISPEECH
from whisper_hailo_lab.report.table import Table, percent, share
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "accuracy.json"

Rows = Sequence[dict[str, Any]]

MISSING: Final = "Not measured with this version: run `make lab NAME=accuracy`.\n"
GROUP_ORDER: Final = ("English", "other languages", "long recordings")
SILENT: Final = "no speech"
_SYSTEM_LABELS: Final = {"openai-whisper": "OpenAI Whisper", "whisper-cpp": "whisper.cpp"}


def tables(result: dict[str, Any], _weights: str) -> dict[str, str]:
    """Make every table of the page; a part that was not measured says so.

    Args:
        result: kept by `accuracy measure`.
    """
    parts: dict[str, Rows] = result["tables"]
    peers, windows = parts.get("peers", ()), parts.get("windows", ())
    origin = f"{result['machine']}; whisper-hailo {result['version']}.\n\n"
    left_out = "".join(f"Left out, not complete: {name}.\n" for name in parts.get("left_out", ()))
    made = {
        "accuracy-headline": headline_table(peers),
        "accuracy-peers": error_table(peers, GROUP_ORDER[:2]) + (left_out and f"\n{left_out}"),
        "accuracy-windows": windows_table(windows),
        "accuracy-languages": language_table(parts.get("languages", ())),
        "accuracy-silence": silence_table(peers),
        "accuracy-long": error_table(peers, GROUP_ORDER[2:]),
        "accuracy-prompts": error_table(parts.get("prompts", ()), GROUP_ORDER),
        "accuracy-captions": error_table(parts.get("captions", ()), GROUP_ORDER),
        "accuracy-emulated": emulated_table(parts.get("emulated", ())),
        "accuracy-study": study_table(parts.get("study", ())),
        "accuracy-time": time_table(peers),
    }
    return {name: origin + text if text else MISSING for name, text in made.items()}


def name_of(row: dict[str, Any]) -> str:
    """Return a row's system and what it was told."""
    options = row["options"]
    system = _SYSTEM_LABELS.get(row["system"], row["system"])
    told = [row["model"]]
    if row["row"].endswith("-captions"):
        return f"captions, {row['model']}"
    if row["system"] == "whisper-hailo":
        told.append("float32" if options["quantize"] == "none" else options["quantize"])
        window = options["window"]
        told.append("default window" if window == "default" else f"{window} s window")
    else:
        told.append(str(options.get("compute", "")))
        told.append(f"beam {options['beam']}")
    told.append("timestamps" if options["timestamps"] else "text only")
    if options.get("language") == "given":
        told.append("language given")
    if options.get("initial_prompt"):
        told.append("a prompt")
    if hotwords := options.get("hotwords"):
        told.append(f"{len(split_hotwords(hotwords))} hotwords")
    return f"{system}, {', '.join(part for part in told if part)}"


def score_of(row: dict[str, Any]) -> Score:
    """Return the edit operations of a row."""
    return Score(row["substitutions"], row["deletions"], row["insertions"], row["hits"])


def error_table(rows: Rows, groups: Sequence[str]) -> str:
    """Make a table of error rates, a row per system and group of recordings."""
    lines = [
        (
            name_of(row),
            row["group"],
            str(row["recordings"]),
            percent(score_of(row).rate),
            str(row["substitutions"]),
            str(row["deletions"]),
            str(row["insertions"]),
            str(score_of(row).reference_count),
            str(row["loops"]),
        )
        for group in groups
        for row in rows
        if row["group"] == group
    ]
    heads = ("system", "speech", "recordings", "error rate", "sub", "del", "ins", "of", "loops")
    return _markdown(heads, lines)


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
"""What the plans of the emulated encoder give their layers, best first."""


def emulated_table(rows: Rows) -> str:
    """Make a table of an emulated encoder's noise and error rates, a row per model and plan."""
    found: dict[tuple[str, str], dict[bool, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        model, _, bits = row["model"].partition("-emulated-")
        rounded = row["options"]["encoder_backend"] == "emulator"
        found[model, bits if rounded else "float32"][row["options"]["timestamps"]] = row
    lines = []
    for model, bits in sorted(found, key=lambda key: (key[0], list(_BITS).index(key[1]))):
        times = found[model, bits]
        counts = [
            f"{percent(score_of(row).rate)} ({row['substitutions']}, {row['deletions']}, "
            f"{row['insertions']})"
            for row in (times[False], times[True])
        ]
        snr_db = times[True].get("snr_db")
        lines.append((model, _BITS[bits], "" if snr_db is None else f"{snr_db:.1f}", *counts))
    heads = ("model", "bits of the encoder", "SNR, dB", "text only", "timestamps")
    return _markdown(heads, lines)


def windows_table(rows: Rows) -> str:
    """Make a table of error rates and added words, a row per model, weights and window."""
    grouped: dict[tuple[str, str, str], dict[tuple[str, bool], dict[str, Any]]] = {}
    for row in rows:
        options = row["options"]
        key = (row["model"], options["quantize"].replace("none", "float32"), options["window"])
        grouped.setdefault(key, {})[row["group"], options["timestamps"]] = row
    lines = []
    for key, cells in sorted(grouped.items(), key=lambda item: _window_order(item[0])):
        rates = [
            f"{percent(score_of(cells[cell]).rate)} ({cells[cell]['insertions']})"
            if cell in cells
            else "-"
            for group in (GROUP_ORDER[0], GROUP_ORDER[2])
            for cell in ((group, False), (group, True))
        ]
        silent = [
            row["no_speech_with_text"] for (group, _), row in cells.items() if group == SILENT
        ]
        window = key[2] if key[2] == "default" else f"{key[2]} s"
        lines.append((*key[:2], window, *rates, str(max(silent, default=0))))
    heads = (
        "model", "weights", "window", "English, text only", "English, timestamps",
        "long, text only", "long, timestamps", "no speech, with text",
    )  # fmt: skip
    return _markdown(heads, lines)


def _window_order(key: tuple[str, str, str]) -> tuple[str, str, float]:
    """Sort windows by length, the default first."""
    model, weights, window = key
    return model, weights, 0.0 if window == "default" else float(window)


def language_table(rows: Rows) -> str:
    """Make a table with a row per system and a column per language."""
    spoken = [row for row in rows if row["recordings"] and row["model"] != "tiny.en"]
    languages = sorted({row["group"] for row in spoken})
    names = list(dict.fromkeys(row["row"] for row in spoken))
    lines = []
    for name in names:
        mine = {row["group"]: row for row in spoken if row["row"] == name}
        cells = [percent(score_of(mine[one]).rate) if one in mine else "-" for one in languages]
        first = next(iter(mine.values()))
        right = sum(row["language_right"] for row in mine.values())
        total = sum(row["recordings"] for row in mine.values())
        lines.append((name_of(first), share(right, total), *cells))
    return _markdown(("system", "language right", *languages), lines)


def silence_table(rows: Rows) -> str:
    """Make a table of text that was written for sounds without speech."""
    lines = [
        (
            name_of(row),
            share(row["no_speech_with_text"], row["no_speech"]),
            str(row["invented"]),
            str(row["loops"]),
        )
        for row in rows
        if row["group"] == SILENT
    ]
    return _markdown(("system", "recordings with text", "words", "loops"), lines)


def headline_table(rows: Rows) -> str:
    """Make the README's table: clips and long recordings, a row per multilingual system."""
    grouped: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        if not row["model"].endswith(".en"):
            grouped.setdefault(name_of(row), {})[row["group"]] = row
    lines = [
        (
            name,
            *(percent(score_of(groups[group]).rate) for group in GROUP_ORDER),
            *(_per_minute(groups[group]) for group in (GROUP_ORDER[0], GROUP_ORDER[2])),
        )
        for name, groups in grouped.items()
        if all(group in groups for group in GROUP_ORDER)
    ]
    head = (
        "program",
        "English clips",
        "clips of 17 other languages",
        "long recordings",
        "processor s per minute: clips",
        "long",
    )
    return _markdown(head, lines)


def _per_minute(row: dict[str, Any]) -> str:
    """Return processor seconds per minute of audio."""
    return f"{60 * row['seconds_cpu'] / row['seconds']:.1f}"


def time_table(rows: Rows) -> str:
    """Make a table of processor seconds per second of audio, a row per system and group."""
    lines = [
        (
            name_of(row),
            row["group"],
            f"{row['seconds']:.0f}",
            f"{row['seconds_cpu']:.0f}",
            f"{row['seconds_cpu'] / row['seconds']:.3f}",
        )
        for group in (*GROUP_ORDER, SILENT)
        for row in rows
        if row["group"] == group
    ]
    return _markdown(("system", "speech", "audio s", "processor s", "processor s per s"), lines)


def study_table(rows: Rows) -> str:
    """Make the study's table: its figures beside ours, in its form of rate and the field's."""
    published = {row.name: row for row in LIBRISPEECH}
    lines = []
    for row in rows:
        name = next((known for known in published if row["row"].endswith(known)), "")
        label = name or row["row"].partition("-detected-text-")[2]
        theirs = published.get(name)
        low, high = row["more_than_first"]
        lines.append(
            (
                label,
                percent(theirs.wer) if theirs else "-",
                percent(theirs.cer) if theirs else "-",
                percent(row["simple_wer"]),
                percent(row["simple_cer"]),
                percent(score_of(row).rate),
                f"{100 * low:+.1f} to {100 * high:+.1f}",
            )
        )
    heads = (
        "configuration", "study: WER", "study: CER", "ours: WER, its form", "ours: CER, its form",
        "ours: WER", "points more than the first row, 95 %",
    )  # fmt: skip
    return _markdown(heads, lines)


def _markdown(heads: Sequence[str], lines: Sequence[tuple[str, ...]]) -> str:
    """Return a table, or nothing where no row was measured."""
    return Table(tuple(heads), tuple(lines)).markdown() if lines else ""
