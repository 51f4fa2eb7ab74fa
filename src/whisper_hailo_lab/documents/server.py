"""The tables of `experiments.server_load` and `experiments.server_rival`."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "server.json"
_LOAD: Final = (
    "door", "clients", "requests/s", "x real time", "median s", "99th percentile s", "wrong text",
    "failed", "429, 503", "MiB before, after", "descriptors",
)  # fmt: skip
_RIVAL: Final = ("", "ours", "wyoming-faster-whisper", "ratio", "range of pairs", "target")


def tables(kept: dict[str, Any], _weights: str) -> dict[str, str]:
    """Load below and above the limits, clients beside recordings, and ours beside another."""
    audio_s = kept["audio_s"]
    below, above = (
        Table(_LOAD, tuple(_load(one, audio_s) for one in kept[name])).markdown()
        for name in ("below", "above")
    )
    beside = Table(
        ("one client", "median s", "99th percentile s", "requests"),
        tuple(
            (name, f"{one['median_s']:.3f}", f"{one['last_s']:.3f}", str(one["n_done"]))
            for name, one in kept["beside"].items()
        ),
    ).markdown()
    made = {"server-load": below, "server-limits": above, "server-beside": beside}
    if "rival" in kept:
        rows = tuple(_rival(name, one) for name, one in kept["rival"].items())
        made["server-rival"] = Table(_RIVAL, rows).markdown()
    return made


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
        "{}, {}".format(*one["descriptors"]),
    )


def _rival(name: str, one: dict[str, Any]) -> tuple[str, ...]:
    low, high = one["range"]
    return (
        name,
        f"{one['ours']:.3g}",
        f"{one['theirs']:.3g}",
        f"{one['ratio']:.2f}",
        f"{low:.2f} to {high:.2f}",
        one["target"],
    )
