"""The tables of live captions, by the parts that `whisper_hailo_lab.captions` measures."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from typing import Any, Final

from whisper_hailo_lab.report.table import Table, percent, table_of
from whisper_hailo_lab.report.tables import comparison_table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark
from whisper_hailo_lab.runs.records import ComparisonRecord

RESULT: Final = RESULTS / "captions.json"


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """A table for every part that there is a result for, with its origin, and a note behind some.

    Args:
        result: what was measured, by the names of the parts.
        weights: mark of the model's present weights; what was measured with others says so.
    """
    measured = (name for name in PARTS if name in result)
    return {
        "captions-" + re.sub("[ .]", "-", name): _block(name, result[name], weights)
        for name in measured
    }


def _block(name: str, part: dict[str, Any], weights: str) -> str:
    text = f"{_origin(part, weights)}\n\n{PARTS[name](part).markdown()}"
    return f"{text}\n{NOTES[name](part)}\n" if name in NOTES else text


def _origin(part: dict[str, Any], weights: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in part["versions"].items())
    note = f"; {part['note']}" if part["note"] else ""
    threads = "one thread" if part["threads"] == 1 else f"{part['threads']} threads"
    if "models" in part:  # checkpoints of the registry, which have one state
        model, other = " and ".join(part["models"]), ""
    else:
        model, other = part["model"], remark([part.get("weights", "")], weights)
    return f"{model}, {threads}, {part['machine']}, {versions}{other}{note}."


def _paired(part: dict[str, Any]) -> Table:
    return comparison_table(ComparisonRecord("captions", part["settings"], tuple(part["rows"])))


def _drafts_alone(part: dict[str, Any]) -> str:
    rows = {row["way"]: row for row in part["rows"]}
    one, other = rows["drafts"], rows["no drafts"]
    passes = one["passes_per_partial"], other["passes_per_partial"]
    less = other["decode_ms_per_partial"] / one["decode_ms_per_partial"]
    took, bound = f"{passes[0]:.2f} passes instead of {passes[1]:.2f}", passes[1] / passes[0]
    return (
        f"Drafts alone, at the same text, take {took}, and {less:.2f} times less decoder time;\n"
        f"if the further tokens of a pass cost nothing, it would be {bound:.2f} times."
    )


def _cost(part: dict[str, Any]) -> Table:
    orders = ("anew", "not drafted", "drafted")
    rows = [(name, row) for name, row in part.items() if isinstance(row, dict) and "pass_ms" in row]
    return table_of(
        rows,
        ("decoder", lambda item: item[0].replace("none", "FP32").replace("int8", "INT8")),
        (
            "passes: anew, no drafts, drafts",
            lambda item: ", ".join(f"{item[1][f'passes {order}']:.1f}" for order in orders),
        ),
        (
            "ms: anew, no drafts, drafts",
            lambda item: ", ".join(f"{item[1][f'ms {order}']:.1f}" for order in orders),
        ),
        ("times less than anew", lambda item: f"{item[1]['times less than anew']:.2f}"),
        ("than no drafts", lambda item: f"{item[1]['times less than not drafted']:.2f}"),
        ("a pass, ms", lambda item: f"{item[1]['pass_ms']:.2f}"),
        (
            "of it the vocabulary",
            lambda item: percent(1 - item[1]["pass_without_vocabulary_ms"] / item[1]["pass_ms"], 0),
        ),
        ("each further token, ms", lambda item: f"{item[1]['further_token_ms']:.2f}"),
    )


def _same(part: dict[str, Any]) -> Table:
    def counted(*names: str) -> Callable[[tuple[str, dict[str, int]]], str]:
        return lambda item: str(sum(item[1].get(name, 0) for name in names))

    return table_of(
        part["rows"].items(),
        ("decoder", lambda item: item[0]),
        ("texts", lambda item: str(part["buffers"])),
        ("the same", counted("same")),
        ("another", counted("other", "near-tie", "wrong")),
        ("passes from scratch", counted("passes from scratch")),
        ("passes with drafts", counted("passes with drafts")),
    )


def _facts(part: dict[str, Any], facts: dict[str, str]) -> Table:
    return table_of(
        facts.items(),
        ("what", lambda fact: fact[0]),
        ("measured", lambda fact: ", ".join(_said(part[name]) for name in fact[1].split())),
    )


def _said(value: Any) -> str:  # noqa: ANN401 - any figure
    if isinstance(value, list):
        figures = all(isinstance(entry, float) for entry in value)
        return (
            ", ".join(f"{entry:.0f}" for entry in value) if value and figures else str(len(value))
        )
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)


FINAL: Final = {
    "final text after the end of speech, s: median, 95 %": (
        "final_latency_s_median final_latency_s_p95"
    )
}
LIVE: Final = {
    "seconds of the stream, of speech": "stream_s segment_s",
    "RTFx, each second counted once; as often as processed": "rtfx rtfx_recounted",
    "share of one core": "cpu_share",
    "first text after the start of speech, s: median, 95 %": (
        "first_partial_latency_s_median first_partial_latency_s_p95"
    ),
    **FINAL,
    "WER %: live; offline, consecutive windows; offline, speech only": (
        "wer_live wer_offline wer_offline_vad"
    ),
    "segments ended by": "reasons",
    "partials, skipped partials": "partials skipped_partials",
    "passes per partial": "passes_per_partial",
    "corrections per word": "corrections_per_word",
    "longest backlog, s": "longest_backlog_s",
    "peak memory, MiB": "memory_mib",
    "violations of the guarantees": "violations",
}
HOUR: Final = {
    "minutes of the stream, times real time": "stream_minutes times_real_time",
    "device stalls, failures": "stalls device_failures",
    "overruns of the sound card": "source_faults",
    "reconnections of the page": "page_visits",
    "segments": "segments",
    "violations of the guarantees": "violations",
    "segments that the page lost, doubled": "page_lost page_doubled",
    "partials, skipped partials": "partials skipped_partials",
    "longest backlog, s": "longest_backlog_s",
    **FINAL,
    "resident MiB in each tenth": "memory_tenths_mib",
    "share of one core": "cpu_share",
    "WER %": "wer",
}
"""What a row says, and the figures that it shows."""

SOAK: Final = {
    "minutes on the clock, starts of the program": "minutes_real starts",
    "faults, one a minute": "faults",
    "segments with a text": "segments",
    "violations of the guarantees": "violations",
    "segments that overlap another": "doubled",
    "clips played, of them without a fault": "clips clips_undisturbed",
    "clips that are missing": "clips_not_heard",
    "WER % of clips without a fault; of the same clips as a file": "wer wer_as_file",
    "subtitles that differ from the events": "subtitles_differ",
    "interruptions reported, losses reported": "away lost",
    "connections of the page": "page_visits",
    "segments that the page lost, doubled, had and no file has": (
        "page_lost page_doubled page_not_written"
    ),
    "resident MiB in each five minutes of the oldest process": "memory_mib",
    "MiB per minute of growth, after ten minutes": "memory_mib_per_minute_after_ten",
    "descriptors, threads": "descriptors threads_of_process",
}

NAMES: Final = {
    "ours": "whisper-hailo",
    "whisperlivekit": "WhisperLiveKit, LocalAgreement",
    "alignatt": "WhisperLiveKit, AlignAtt",
    "whisper_streaming": "whisper_streaming",
}


def _of_turns(part: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of each program's turns."""
    found = {}
    for name in NAMES:
        own = [figures for system, figures in part["turns"] if system == name]
        for figures in own:
            figures["share"] = figures["processor_s"] / figures["stream_s"]
        if own:
            found[name] = {key: median(turn[key] for turn in own) for key in own[0]}
            found[name]["turns"] = len(own)
    return found


def beside_table(part: dict[str, Any]) -> Table:
    """A row for each program."""

    def both(what: str) -> Callable[[tuple[str, dict[str, float]]], str]:
        return lambda row: f"{row[1][f'{what}_s_median']:.2f}, {row[1][f'{what}_s_p95']:.2f}"

    return table_of(
        _of_turns(part).items(),
        ("program", lambda row: NAMES[row[0]]),
        ("turns", lambda row: str(row[1]["turns"])),
        ("first text, s: median, 95 %", both("first")),
        ("final text, s: median, 95 %", both("final")),
        ("share of one core", lambda row: f"{row[1]['share']:.2f}"),
        ("MiB", lambda row: f"{row[1]['peak_mib']:.0f}"),
        (
            "rewritten per word",
            lambda row: f"{row[1]['rewritten']:.2f}" if "rewritten" in row[1] else "",
        ),
        ("WER %", lambda row: f"{row[1]['wer']:.1f}"),
        ("sentences, missed sentences", lambda row: "{utterances:g}, {unheard:g}".format(**row[1])),
    )


def times_less(part: dict[str, Any]) -> str:
    """How many times less ours takes than each of the others."""
    found = _of_turns(part)
    ours = found.pop("ours")

    def times(row: dict[str, float], what: str) -> str:
        return f"{row[what] / ours[what]:.1f}"

    return "\n".join(
        f"{NAMES[name]} takes {times(row, 'first_s_median')} times as long to the first text,\n"
        f"{times(row, 'final_s_median')} times to the final one, and {times(row, 'share')} times "
        "the processor time."
        for name, row in found.items()
    )


def policies_table(part: dict[str, Any]) -> Table:
    """A row for each model, encoder and policy; times are means over the kinds of speech."""
    rows: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for row in part["rows"]:
        key = (row["model"], row["encoder"], row["policy"])
        rows.setdefault(key, {})[row["speech"]] = row

    def combined(
        combine: Callable[[list[float]], float], *names: str
    ) -> Callable[[tuple[Any, dict[str, dict[str, float]]]], str]:
        def shown(item: tuple[Any, dict[str, dict[str, float]]]) -> str:
            kinds = list(item[1].values())
            if names[0] not in kinds[0]:
                return ""
            return ", ".join(f"{combine([kind[name] for kind in kinds]):.2f}" for name in names)

        return shown

    kinds = list(dict.fromkeys(row["speech"] for row in part["rows"]))
    return table_of(
        rows.items(),
        ("model", lambda item: item[0][0]),
        ("encoder", lambda item: item[0][1]),
        ("policy", lambda item: item[0][2]),
        *(
            (f"WER %, {kind}", lambda item, kind=kind: f"{item[1][kind]['wer']:.1f}")
            for kind in kinds
        ),
        ("first text, s: median, 95 %", combined(fmean, "first_s_median", "first_s_p95")),
        ("final text, s: median, 95 %", combined(fmean, "final_s_median", "final_s_p95")),
        ("rewritten per word", combined(fmean, "rewritten")),
        ("share of one core", combined(fmean, "share")),
        ("most behind, s", combined(max, "behind_s")),
    )


def continuous_table(part: dict[str, Any]) -> Table:
    """A row for each model and speed of the core."""
    return table_of(
        part["rows"],
        ("model", lambda row: row["model"]),
        (
            "core",
            lambda row: (
                "this one" if row["times_slower"] == 1 else f"{row['times_slower']:g} times slower"
            ),
        ),
        ("minutes", lambda row: f"{row['seconds'] / 60:.0f}"),
        ("share of the core", lambda row: f"{row['share'] * row['times_slower']:.2f}"),
        ("most behind, s", lambda row: f"{row['behind_s']:.2f}"),
        (
            "first text, s: median, 95 %",
            lambda row: f"{row['first_s_median']:.2f}, {row['first_s_p95']:.2f}",
        ),
        (
            "final text, s: median, 95 %",
            lambda row: f"{row['final_s_median']:.2f}, {row['final_s_p95']:.2f}",
        ),
        ("partials, left out", lambda row: f"{row['partials']}, {row['skipped_partials']}"),
        ("WER %", lambda row: f"{row['wer']:.1f}"),
    )


PARTS: Final[dict[str, Callable[[dict[str, Any]], Table]]] = {
    "paired": _paired,
    "reading": _paired,
    "same": _same,
    "cost": _cost,
    "beside": beside_table,
    "beside tiny.en": beside_table,
    "beside base": beside_table,
    "live": partial(_facts, facts=LIVE),
    "hour": partial(_facts, facts=HOUR),
    "soak": partial(_facts, facts=SOAK),
    "policies": policies_table,
    "continuous": continuous_table,
    "watch": partial(_facts, facts=HOUR),
}

NOTES: Final = {
    "paired": _drafts_alone,
    "reading": _drafts_alone,
    "beside": times_less,
    "beside tiny.en": times_less,
    "beside base": times_less,
}
"""Sentences behind a table that hold its figures."""
