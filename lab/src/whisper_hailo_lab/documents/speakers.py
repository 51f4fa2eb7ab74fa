"""Tables of `docs/measurements/speakers.md`: who spoke, by several programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import make_table

RESULT: Final = RESULTS / "speakers.json"

Row = dict[str, Any]

_CORES: Final = 2
"""Processor time is divided by them: of real time on two cores."""

_CONVERSATIONS: Final = tuple(f"test-{number}" for number in range(2, 7))
_ALONE: Final = "one person"
_ONE_PERSON: Final = ("test-1-", "test-clean-")
_TELEPHONE: Final = ("dev-phone-", "dev-noisy-")

_GROUPS: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    ("conversations of 2 to 6", lambda name: name[:6] in _CONVERSATIONS),
    (_ALONE, lambda name: name.startswith(_ONE_PERSON)),
    (f"{_ALONE}, telephone or noise", lambda name: name.startswith(_TELEPHONE)),
    ("AMI and pyannote's sample", lambda name: name.startswith("real-")),
)


def make_tables(result: Row) -> dict[str, str]:
    """Return a line per system and group, and one per number of speakers of ours."""
    systems: dict[str, list[Row]] = result["systems"]
    lines = []
    for group, belongs in _GROUPS:
        members = {
            system: [row for row in rows if belongs(row["name"])]
            for system, rows in systems.items()
        }
        members = {system: rows for system, rows in members.items() if rows}
        is_one_person = group.startswith(_ALONE)
        if not is_one_person:
            members = _keep_shared(members)
        for system, rows in members.items():
            line: Row = {"group": group, "system": system} | _sum_rows(rows)
            if is_one_person:
                # Pauses within joined clips are no part of the reference.
                line |= dict.fromkeys(("rate", "forgiving", "confused"))
            lines.append(line)
    table = make_table(
        lines,
        (
            ("recordings", "{group}"),
            ("program", "{system}"),
            ("number of speakers right", "{right}"),
            ("error rate", "{rate:.1%}"),
            ("with a collar of 0.25 s", "{forgiving:.1%}"),
            ("confused speakers", "{confused:.1%}"),
            ("words of the wrong speaker", "{wrong_words:.1%}"),
            ("of real time", "{of_real_time:.3f}"),
            ("MiB", "{peak_mib:.0f}"),
        ),
    )
    ours = systems.get("whisper-hailo", [])
    by_number = [
        {"number": prefix[-1]} | _sum_rows(rows)
        for prefix in _CONVERSATIONS
        if (rows := [row for row in ours if row["name"].startswith(prefix)])
    ]
    numbers = make_table(
        by_number,
        (
            ("speakers", "{number}"),
            ("number right", "{right}"),
            ("error rate", "{rate:.1%}"),
            ("with a collar of 0.25 s", "{forgiving:.1%}"),
            ("missed", "{missed:.1%}"),
            ("false alarm", "{false_alarm:.1%}"),
            ("confused", "{confused:.1%}"),
        ),
    )
    return {
        "speakers": f"{result['machine']}, one thread.\n\n{table.markdown()}",
        "speakers-numbers": numbers.markdown(),
    }


def _keep_shared(members: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the rows of recordings that all programs were given, to compare them."""
    names = [{row["name"] for row in rows} for rows in members.values()]
    shared = set.intersection(*names) if names else set()
    return {
        system: [row for row in rows if row["name"] in shared]
        for system, rows in members.items()
    }


def _sum_rows(rows: Sequence[Row]) -> Row:
    """Return the figures of several recordings together."""
    missed_s, false_alarm_s, confused_s, speech_s = _sum_errors(rows, "errors")
    forgiving = _sum_errors(rows, "forgiving")
    n_right = sum(row["n_speakers"] == row["n_found"] for row in rows)
    n_words = sum(row.get("n_words", 0) for row in rows)
    n_wrong = sum(row.get("n_wrong_words", 0) for row in rows)
    processor_s = sum(row["processor_s"] for row in rows)
    return {
        "right": f"{n_right} of {len(rows)}",
        "rate": (missed_s + false_alarm_s + confused_s) / speech_s,
        "forgiving": sum(forgiving[:3]) / forgiving[3],
        "missed": missed_s / speech_s,
        "false_alarm": false_alarm_s / speech_s,
        "confused": confused_s / speech_s,
        "wrong_words": n_wrong / n_words if n_words else None,
        "of_real_time": processor_s / sum(row["audio_s"] for row in rows) / _CORES,
        "peak_mib": max(row["peak_mib"] for row in rows),
    }


def _sum_errors(rows: Sequence[Row], key: str) -> list[float]:
    """Return missed, false alarm, confused and all speech in seconds."""
    return [sum(values) for values in zip(*(row[key] for row in rows), strict=True)]
