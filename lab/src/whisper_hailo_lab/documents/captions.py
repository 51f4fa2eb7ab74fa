"""Tables of `docs/measurements/captions.md`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.results import remark_weights
from whisper_hailo_lab.tables import Column, Table, fill_cell, make_table

RESULT: Final = RESULTS / "captions.json"

Row = dict[str, Any]

_FIRST: Final[Column] = (
    "first text, s: median, 95 %",
    "{first_s_median:.2f}, {first_s_p95:.2f}",
)
_FINAL: Final[Column] = (
    "final text, s: median, 95 %",
    "{final_s_median:.2f}, {final_s_p95:.2f}",
)


def make_tables(result: Row, weights: str) -> dict[str, str]:
    """Return one table for every part that was measured, some with a note below.

    Args:
        result: parts by name.
        weights: mark of the model's present weights; a result of others says so.
    """
    return {
        "captions-" + re.sub("[ .]", "-", name): _describe_part(
            name, result[name], weights
        )
        for name in PARTS
        if name in result
    }


def _describe_part(name: str, part: Row, weights: str) -> str:
    text = f"{_describe_origin(part, weights)}\n\n{PARTS[name](part).markdown()}"
    if "turns" in part:
        text += f"\n{describe_ratios(part)}\n"
    return text


def _describe_origin(part: Row, weights: str) -> str:
    if "models" in part:  # checkpoints of the registry have one state only
        model = " and ".join(part["models"])
        other = ""
    else:
        model = part["model"]
        other = remark_weights([part.get("weights", "")], weights)
    versions = ", ".join(
        f"{name} {version}" for name, version in part["versions"].items()
    )
    threads = "one thread" if part["threads"] == 1 else f"{part['threads']} threads"
    note = f"; {part['note']}" if part["note"] else ""
    return f"{model}, {threads}, {part['machine']}, {versions}{other}{note}."


def draft_table(part: Row) -> Table:
    """Return how often drafts kept the text, one line per kind of weights."""
    rows = [
        counts
        | {
            "decoder": decoder,
            "texts": part["buffers"],
            "changed": sum(
                counts.get(name, 0) for name in ("other", "near-tie", "wrong")
            ),
        }
        for decoder, counts in part["rows"].items()
    ]
    return make_table(
        rows,
        (
            ("decoder", "{decoder}"),
            ("texts", "{texts}"),
            ("the same", "{same}"),
            ("another", "{changed}"),
            ("passes from scratch", "{passes from scratch}"),
            ("passes with drafts", "{passes with drafts}"),
        ),
    )


_LATENCY: Final = (
    "final text after the end of speech, s: median, 95 %",
    ("final_latency_s_median", "final_latency_s_p95"),
)

LIVE: Final = (
    ("seconds of the stream, of speech", ("stream_s", "segment_s")),
    (
        "RTFx, each second counted once; as often as processed",
        ("rtfx", "rtfx_recounted"),
    ),
    ("share of one core", ("cpu_share",)),
    (
        "first text after the start of speech, s: median, 95 %",
        ("first_partial_latency_s_median", "first_partial_latency_s_p95"),
    ),
    _LATENCY,
    (
        "WER %: live; offline, consecutive windows; offline, speech only",
        ("wer_live", "wer_offline", "wer_offline_vad"),
    ),
    ("segments ended by", ("reasons",)),
    ("partials, skipped partials", ("partials", "skipped_partials")),
    ("passes per partial", ("passes_per_partial",)),
    ("corrections per word", ("corrections_per_word",)),
    ("longest backlog, s", ("longest_backlog_s",)),
    ("peak memory, MiB", ("memory_mib",)),
    ("violations of the guarantees", ("violations",)),
)

HOUR: Final = (
    ("minutes of the stream, times real time", ("stream_minutes", "times_real_time")),
    ("device stalls, failures", ("stalls", "device_failures")),
    ("overruns of the sound card", ("source_faults",)),
    ("reconnections of the page", ("page_visits",)),
    ("segments", ("segments",)),
    ("violations of the guarantees", ("violations",)),
    ("segments that the page lost, doubled", ("page_lost", "page_doubled")),
    ("partials, skipped partials", ("partials", "skipped_partials")),
    ("longest backlog, s", ("longest_backlog_s",)),
    _LATENCY,
    ("resident MiB in each tenth", ("memory_tenths_mib",)),
    ("share of one core", ("cpu_share",)),
    ("WER %", ("wer",)),
)

SOAK: Final = (
    ("minutes on the clock, starts of the program", ("minutes_real", "starts")),
    ("faults, one a minute", ("faults",)),
    ("segments with a text", ("segments",)),
    ("violations of the guarantees", ("violations",)),
    ("segments that overlap another", ("doubled",)),
    ("clips played, of them without a fault", ("clips", "clips_undisturbed")),
    ("clips that are missing", ("clips_not_heard",)),
    (
        "WER % of clips without a fault; of the same clips as a file",
        ("wer", "wer_as_file"),
    ),
    ("subtitles that differ from the events", ("subtitles_differ",)),
    ("interruptions reported, losses reported", ("away", "lost")),
    ("connections of the page", ("page_visits",)),
    (
        "segments that the page lost, doubled, had and no file has",
        ("page_lost", "page_doubled", "page_not_written"),
    ),
    ("resident MiB in each five minutes of the oldest process", ("memory_mib",)),
    (
        "MiB per minute of growth, after ten minutes",
        ("memory_mib_per_minute_after_ten",),
    ),
    ("descriptors, threads", ("descriptors", "threads_of_process")),
)
"""Label of each line, and the figures that it shows."""

Facts = Sequence[tuple[str, Sequence[str]]]


def fact_table(part: Row, facts: Facts) -> Table:
    """Return one line per fact."""
    rows = []
    for label, names in facts:
        texts = [_fact_text(part[name]) for name in names]
        rows.append((label, ", ".join(texts)))
    return make_table(rows, (("what", "{0}"), ("measured", "{1}")))


def _fact_text(value: Any) -> str:  # noqa: ANN401 - any figure
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, list):
        return _list_text(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _list_text(values: list[Any]) -> str:
    """Return a series of figures, or how many things are listed."""
    is_series = bool(values) and all(isinstance(value, float) for value in values)
    if not is_series:
        return str(len(values))
    return ", ".join(f"{value:.0f}" for value in values)


PROGRAMS: Final = {
    "ours": "whisper-hailo",
    "whisperlivekit": "WhisperLiveKit, LocalAgreement",
    "alignatt": "WhisperLiveKit, AlignAtt",
    "whisper_streaming": "whisper_streaming",
}


def program_table(part: Row) -> Table:
    """Return one line per program of live captions."""
    return make_table(
        median_turns(part).values(),
        (
            ("program", "{program}"),
            ("turns", "{n_turns}"),
            _FIRST,
            _FINAL,
            ("share of one core", "{share:.2f}"),
            ("MiB", "{peak_mib:.0f}"),
            (
                "rewritten per word",
                lambda row: f"{row['rewritten']:.2f}" if "rewritten" in row else "",
            ),
            ("WER %", "{wer:.1f}"),
            ("sentences, missed sentences", "{utterances:g}, {unheard:g}"),
        ),
    )


def median_turns(part: Row) -> dict[str, Row]:
    """Return the medians of each program's turns."""
    programs = {}
    for name, label in PROGRAMS.items():
        turns = [
            figures | {"share": figures["processor_s"] / figures["stream_s"]}
            for system, figures in part["turns"]
            if system == name
        ]
        if turns:
            medians: Row = {}
            for key in turns[0]:
                medians[key] = median(turn[key] for turn in turns)
            programs[name] = medians | {"program": label, "n_turns": len(turns)}
    return programs


def describe_ratios(part: Row) -> str:
    """Return how many times as long as ours every other program takes."""
    others = median_turns(part)
    ours = others.pop("ours")
    return "\n".join(_describe_ratio(row, ours) for row in others.values())


def _describe_ratio(row: Row, ours: Row) -> str:
    first = row["first_s_median"] / ours["first_s_median"]
    final = row["final_s_median"] / ours["final_s_median"]
    share = row["share"] / ours["share"]
    return (
        f"{row['program']} takes {first:.1f} times as long to the first text,\n"
        f"{final:.1f} times to the final one, and {share:.1f} times the processor time."
    )


def policy_table(part: Row) -> Table:
    """Return one line per model, encoder and policy; times are means over the kinds of speech."""
    grouped: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in part["rows"]:
        key = (row["model"], row["encoder"], row["policy"])
        grouped.setdefault(key, {})[row["speech"]] = row
    kinds = list(dict.fromkeys(row["speech"] for row in part["rows"]))
    columns: list[Column] = [
        ("model", "{model}"),
        ("encoder", "{encoder}"),
        ("policy", "{policy}"),
    ]
    columns += [(f"WER %, {kind}", f"{{{kind}:.1f}}") for kind in kinds]
    columns += [
        _blank_if_offline(_FIRST),
        _blank_if_offline(_FINAL),
        _blank_if_offline(("rewritten per word", "{rewritten:.2f}")),
        _blank_if_offline(("share of one core", "{share:.2f}")),
        _blank_if_offline(("most behind, s", "{behind_s:.2f}")),
    ]
    return make_table([_combine_kinds(rows) for rows in grouped.values()], columns)


def _blank_if_offline(column: Column) -> Column:
    """Leave the cell empty for whole recordings, which have no latency."""
    heading, cell = column
    return heading, lambda row: fill_cell(cell, row) if "share" in row else ""


_MEANS: Final = (
    "first_s_median",
    "first_s_p95",
    "final_s_median",
    "final_s_p95",
    "rewritten",
    "share",
)


def _combine_kinds(by_kind: dict[str, Row]) -> Row:
    rows = list(by_kind.values())
    names = ("model", "encoder", "policy")
    combined: Row = {name: rows[0][name] for name in names}
    combined |= {kind: row["wer"] for kind, row in by_kind.items()}
    if "share" in rows[0]:
        combined |= {name: fmean(row[name] for row in rows) for name in _MEANS}
        combined["behind_s"] = max(row["behind_s"] for row in rows)
    return combined


def continuous_table(part: Row) -> Table:
    """Return one line per model and speed of the core."""
    return make_table(
        part["rows"],
        (
            ("model", "{model}"),
            ("core", _core_label),
            ("minutes", lambda row: f"{row['seconds'] / 60:.0f}"),
            (
                "share of the core",
                lambda row: f"{row['share'] * row['times_slower']:.2f}",
            ),
            ("most behind, s", "{behind_s:.2f}"),
            _FIRST,
            _FINAL,
            ("partials, left out", "{partials}, {skipped_partials}"),
            ("WER %", "{wer:.1f}"),
        ),
    )


def _core_label(row: Row) -> str:
    slower = row["times_slower"]
    return "this one" if slower == 1 else f"{slower:g} times slower"


PARTS: Final[dict[str, Callable[[Row], Table]]] = {
    "same": draft_table,
    "beside": program_table,
    "beside tiny.en": program_table,
    "live": partial(fact_table, facts=LIVE),
    "hour": partial(fact_table, facts=HOUR),
    "soak": partial(fact_table, facts=SOAK),
    "policies": policy_table,
    "continuous": continuous_table,
    "watch": partial(fact_table, facts=HOUR),
}
"""Parts that the page shows; the result keeps some more."""
