"""The tables of `experiments.server_load`, `server_shares`, `server_killed` and `server_rival`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "server.json"
_LOAD: Final = (
    "protocol", "clients", "requests/s", "x real time", "median s", "99th percentile s",
    "wrong text", "failed", "429, 503", "MiB, first and last third", "peak MiB", "descriptors",
)  # fmt: skip
_MOST: Final = 64
"""Clients at once of the rows that the page shows."""

_ASKED: Final = ("client", "requests at once", "finished", "median s", "99th percentile s")
_KILLED: Final = ("protocol", "killed", "finished first")
_RIVAL: Final = ("", "", "ours", "the other", "ratio", "range of pairs", "target")


def tables(kept: dict[str, Any], _weights: str) -> dict[str, str]:
    """Load below and above the limits, clients in each other's way, and ours beside others."""
    audio_s = kept["audio_s"]
    made = {
        name: Table(
            _LOAD, tuple(_load(one, audio_s) for one in kept[part] if one["clients"] == _MOST)
        ).markdown()
        for name, part in (("server-load", "below"), ("server-limits", "above"))
    }
    for part in ("beside", "shares"):
        rows = tuple(_asked(name, one) for name, one in kept[part].items())
        made[f"server-{part}"] = Table(_ASKED, rows).markdown()
    made["server-words"] = _words(kept["words"])
    made["server-killed"] = _killed(kept["killed"]).markdown()
    rivals = (
        _rival(server, name, one)
        for server, figures in kept["rivals"].items()
        for name, one in figures.items()
        if "in no file" not in name
    )
    made["server-rivals"] = Table(_RIVAL, tuple(rivals)).markdown()
    return made


def _asked(name: str, one: dict[str, Any]) -> tuple[str, ...]:
    times = (f"{one['median_s']:.3f}", f"{one['last_s']:.3f}")
    return (name, str(one["clients"]), str(one["n_in_time"]), *times)


def _words(kept: dict[str, Any]) -> str:
    rows = tuple(
        (
            one["protocol"],
            f"{one['same']} of {one['asked']}",
            f"{1000 * one['cpu_s'] / one['asked']:.0f}",
            f"{60 * one['cpu_s'] / one['seconds']:.2f}",
        )
        for one in kept["rows"]
    )
    heads = ("protocol", "the command's words", "processor ms a request", "s a minute of audio")
    seconds = kept["rows"][0]["seconds"] / kept["rows"][0]["asked"]
    origin = f"{kept['model']}, recordings of {seconds:.1f} s on average; {kept['machine']}.\n\n"
    return origin + Table(heads, rows).markdown()


def _killed(one: dict[str, Any]) -> Table:
    counts = (one["killed"], one["done"])
    doors = sorted(one["killed"])
    rows = [(door, *(str(those.get(door, 0)) for those in counts)) for door in doors]
    rows.append(("all", *(str(sum(those.values())) for those in counts)))
    return Table(_KILLED, tuple(rows))


def _load(one: dict[str, Any], audio_s: float) -> tuple[str, ...]:
    refused = ", ".join(f"{code}: {n}" for code, n in sorted(one["refused"].items())) or "0"
    return (
        one["door"],
        str(one["clients"]),
        f"{one['per_s']:.1f}",
        f"{audio_s * one['per_s']:.0f}",
        f"{one['median_s']:.3f}",
        f"{one['last_s']:.3f}",
        str(one["n_wrong"]),
        str(one["n_failed"]),
        refused,
        "{:.0f}, {:.0f}".format(*one["rss_mib"]),
        f"{one['peak_mib']:.0f}",
        "{}, {}".format(*one["descriptors"]),
    )


def _rival(server: str, name: str, one: dict[str, Any]) -> tuple[str, ...]:
    low, high = one["range"]
    return (
        server,
        name,
        f"{one['ours']:.3g}",
        f"{one['theirs']:.3g}",
        f"{one['ratio']:.2f}",
        f"{low:.2f} to {high:.2f}",
        one["target"],
    )
