"""Tables of `docs/measurements/server.md`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import Column, Table, make_table

RESULT: Final = RESULTS / "server.json"

Row = dict[str, Any]

_MOST_CLIENTS: Final = 64
"""Concurrent clients of the rows that the page shows."""

_WAITING: Final[tuple[Column, ...]] = (
    ("client", "{0}"),
    ("requests at once", "{1.clients}"),
    ("finished", "{1.n_in_time}"),
    ("median s", "{1.median_s:.3f}"),
    ("99th percentile s", "{1.last_s:.3f}"),
)


def make_tables(result: Row, _weights: str) -> dict[str, str]:
    """Return load below and above the limits, fairness, killed clients and other servers."""
    made = {
        "load": load_table(result["below"], result["audio_s"]),
        "limits": load_table(result["above"], result["audio_s"]),
        "beside": make_table(result["beside"].items(), _WAITING),
        "shares": make_table(result["shares"].items(), _WAITING),
        "killed": killed_table(result["killed"]),
        "rivals": rival_table(result["rivals"]),
    }
    tables = {f"server-{name}": table.markdown() for name, table in made.items()}
    return tables | {"server-words": _word_text(result["words"])}


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


def killed_table(part: Row) -> Table:
    """Return how many clients were killed and how many finished first, by protocol."""
    killed = part["killed"]
    done = part["done"]
    rows = [(name, killed[name], done.get(name, 0)) for name in sorted(killed)]
    rows.append(("all", sum(killed.values()), sum(done.values())))
    columns = (("protocol", "{0}"), ("killed", "{1}"), ("finished first", "{2}"))
    return make_table(rows, columns)


def rival_table(rivals: dict[str, dict[str, Row]]) -> Table:
    """Return our server beside others, one line per server and figure."""
    rows = [
        figure | {"server": server, "figure": name}
        for server, figures in rivals.items()
        for name, figure in figures.items()
        if "in no file" not in name
    ]
    return make_table(
        rows,
        (
            ("", "{server}"),
            ("", "{figure}"),
            ("ours", "{ours:.3g}"),
            ("the other", "{theirs:.3g}"),
            ("ratio", "{ratio:.2f}"),
            ("range of pairs", "{range.0:.2f} to {range.1:.2f}"),
            ("target", "{target}"),
        ),
    )
