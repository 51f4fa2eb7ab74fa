"""Tables of `docs/measurements/server.md`, and of `docs/home-assistant.md`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Table, make_table

RESULT: Final = RESULTS / "server.json"

Row = dict[str, Any]

_MOST_CLIENTS: Final = 64
"""Concurrent clients of the rows that the page shows."""


def make_tables(result: Row) -> dict[str, str]:
    """Return load below and above the limits, and the words of every protocol."""
    made = {
        "load": load_table(result["below"], result["audio_s"]),
        "limits": load_table(result["above"], result["audio_s"]),
    }
    tables = {f"server-{name}": table.markdown() for name, table in made.items()}
    tables["server-words"] = _word_text(result["words"])
    if "names" in result:
        tables["home-assistant-beside"] = describe_names(result["names"])
    if "peers" in result:
        tables["server-peers"] = describe_peers(result["peers"])
    if "attacks" in result:
        tables["server-attacks"] = describe_attacks(result["attacks"])
    if "soak" in result:
        tables["server-soak"] = describe_soak(result["soak"])
    if "command" in result:
        tables["server-command"] = _command_text(result["command"])
    return tables


def load_table(rows: list[Row], audio_s: float) -> Table:
    """Return one line per protocol at the largest number of clients."""
    return make_table(
        [row for row in rows if row["clients"] == _MOST_CLIENTS],
        (
            ("protocol", "{door}"),
            ("clients", "{clients}"),
            ("requests/s", "{per_s:.1f}"),
            ("x real time", lambda row: f"{audio_s * row['per_s']:.0f}"),
            ("median s", "{median_s:.3f}"),
            ("99th percentile s", "{last_s:.3f}"),
            ("wrong text", "{n_wrong}"),
            ("failed", "{n_failed}"),
            ("429, 503", _describe_refusals),
            ("MiB, first and last third", "{rss_mib.0:.0f}, {rss_mib.1:.0f}"),
            ("peak MiB", "{peak_mib:.0f}"),
            ("descriptors", "{descriptors.0}, {descriptors.1}"),
        ),
    )


def _describe_refusals(row: Row) -> str:
    refused = sorted(row["refused"].items())
    if not refused:
        return "0"
    return ", ".join(f"{code}: {count}" for code, count in refused)


def _word_text(part: Row) -> str:
    rows = part["rows"]
    mean_s = rows[0]["seconds"] / rows[0]["asked"]
    table = make_table(
        rows,
        (
            ("protocol", "{protocol}"),
            ("the command's words", "{same} of {asked}"),
            (
                "processor ms a request",
                lambda row: f"{1000 * row['cpu_s'] / row['asked']:.0f}",
            ),
            (
                "s a minute of audio",
                lambda row: f"{60 * row['cpu_s'] / row['seconds']:.2f}",
            ),
        ),
    )
    origin = f"{part['model']}, recordings of {mean_s:.1f} s on average; {part['machine']}.\n\n"
    return origin + table.markdown()


def _command_text(part: Row) -> str:
    rows = part["rows"]
    alone = {row["model"]: row for row in rows if row["beside"] == "alone"}

    def ratio(row: Row, name: str) -> str:
        return f"{row[name] / alone[row['model']]['median_cpu_s']:.2f}"

    table = make_table(
        rows,
        (
            ("model", "{model}"),
            ("beside", "{beside}"),
            ("commands", "{n_commands}"),
            ("median processor s", "{median_cpu_s:.2f}"),
            ("x alone", lambda row: ratio(row, "median_cpu_s")),
            ("largest", "{max_cpu_s:.2f}"),
            ("x alone", lambda row: ratio(row, "max_cpu_s")),
            ("windows of others", "{max_windows}"),
        ),
    )
    return f"{part['machine']}.\n\n" + table.markdown()


def describe_names(part: Row) -> str:
    """Return what each system hears of commands with names of a home, and without."""
    table = make_table(
        part["rows"],
        (
            ("system", "{system}"),
            ("names right", "{n_names} of {n_named}"),
            ("commands right", "{n_right} of {n_named}"),
            ("words wrong", lambda row: f"{100 * row['wer']:.1f} %"),
            ("other commands right", "{n_plain_right} of {n_plain}"),
            ("words wrong in them", lambda row: f"{100 * row['plain_wer']:.1f} %"),
            ("processor ms a command", "{command_ms:.0f}"),
        ),
    )
    return f"`{part['model']}`, {part['machine']}.\n\n" + table.markdown()


def describe_attacks(part: Row) -> str:
    """Return what was tried, what the server promises, and whether it held."""
    table = make_table(
        part["rows"],
        (
            ("attack", "{attack}"),
            ("promise", "{promise}"),
            ("held", lambda row: row["failure"] or "yes"),
            ("figures", "{figures}"),
            ("event loop busy, at most ms", "{stall_ms:.0f}"),
            ("MiB before, at most, after", _describe_memory),
        ),
    )
    return f"`micro`; {part['machine']}.\n\n" + table.markdown()


def _describe_memory(row: Row) -> str:
    before, after = row["rss_mib"]
    return f"{before}, {row['peak_mib']}, {after}"


def describe_soak(part: Row) -> str:
    """Return what a server has after hours, and how its clients fared."""
    table = make_table(
        [part],
        (
            ("minutes", "{minutes:.0f}"),
            ("MiB, first and last quarter", "{rss_mib.0:.0f}, {rss_mib.1:.0f}"),
            ("MiB an hour", "{mib_an_hour:+.1f}"),
            ("peak MiB", "{peak_mib:.0f}"),
            ("descriptors", "{descriptors.0:.0f}, {descriptors.1:.0f}"),
            ("threads", "{threads.0:.0f}, {threads.1:.0f}"),
            ("same text", lambda row: _count_outcome(row, "same")),
            ("another text", lambda row: _count_outcome(row, "other")),
            ("failed", lambda row: _count_outcome(row, "failed")),
            ("refused", lambda row: _count_outcome(row, "refused")),
        ),
    )
    return f"`{part['model']}`; {part['machine']}.\n\n" + table.markdown()


def _count_outcome(row: Row, outcome: str) -> str:
    return str(sum(counts.get(outcome, 0) for counts in row["outcomes"].values()))


def describe_peers(part: Row) -> str:
    """Return the processor time of a command here and at others, in turns."""
    table = make_table(
        part["rows"],
        (
            ("protocol", "{protocol}"),
            ("the other", "{peer}"),
            ("model", "{model}"),
            ("pairs", "{n_pairs}"),
            ("ours, processor s", "{ours_s:.2f}"),
            ("the other", "{theirs_s:.2f}"),
            ("ratio", "{ratio:.2f}"),
            ("range of pairs", "{ratios.0:.2f} to {ratios.1:.2f}"),
        ),
    )
    return f"{part['machine']}.\n\n" + table.markdown()
