"""Table of `docs/home-assistant.md`: from the last word of a command to its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.tables import DASH, Table, format_share, make_table

RESULT: Final = RESULTS / "spoken_commands.json"

Row = dict[str, Any]

_STARTS: Final = {"early": "in the pause", "late": "at the end"}


@dataclass(frozen=True, slots=True)
class CommandCase:
    """What is sent after commands.

    Attributes:
        model: checkpoint.
        behind: name for the table.
        background: set of `data.speech`; empty is silence.
        level_db: level of the background, relative to the command.
        stops: the client ends the command, with `audio-stop`.
    """

    model: str
    behind: str
    background: str = ""
    level_db: float = 0.0
    stops: bool = False

    @property
    def name(self) -> str:
        return f"{self.model}: {self.behind}"


CASES: Final = (
    CommandCase("base", "silence"),
    CommandCase("tiny.en", "silence"),
    CommandCase("base", "0.5 s of silence, `audio-stop`", stops=True),
    CommandCase("tiny.en", "0.5 s of silence, `audio-stop`", stops=True),
    CommandCase("base", "television, -10 dB", "long_form", -10.0),
    CommandCase("base", "television, -5 dB", "long_form", -5.0),
    CommandCase("base", "noise, -20 dB", "nospeech_noise", -20.0),
)


def make_tables(result: Row) -> dict[str, str]:
    """Return two lines per case."""
    return {
        "spoken-commands": f"{result['machine']}.\n\n{command_table(result).markdown()}"
    }


def command_table(result: Row) -> Table:
    """Return the lines of the cases that were measured."""
    rows = [
        _make_row(case, start, result[case.name])
        for case in CASES
        if case.name in result
        for start in _STARTS
    ]
    return make_table(
        rows,
        (
            ("model", "{case.model}"),
            ("sound after the command", "{case.behind}"),
            ("decoding starts", "{start}"),
            ("s after the last word, 95 %", "{lag_s}"),
            ("ms after `audio-stop`, 95 %", "{stop_ms}"),
            ("not ended in 4 s", "{not_ended}"),
            ("CPU ms a command", "{cpu_ms:.0f}"),
            ("text differs", "{differing}"),
        ),
    )


def _make_row(case: CommandCase, start: str, by_server: dict[str, list[Row]]) -> Row:
    """Return the figures of one server; commands that were not ended have no lag."""
    answers = by_server[start]
    stopped = [answer for answer in answers if answer["stop_s"] is not None]
    ended = (
        answers if case.stops else [each for each in answers if each["stop_s"] is None]
    )
    pairs = zip(*by_server.values(), strict=True)
    n_differing = sum(early["text"] != late["text"] for early, late in pairs)
    return {
        "case": case,
        "start": _STARTS[start],
        "lag_s": _format_spread([answer["lag_s"] for answer in ended], 2),
        "stop_ms": _format_spread([1000 * answer["stop_s"] for answer in stopped], 0),
        "not_ended": format_share(len(stopped), len(answers)),
        "cpu_ms": np.mean([answer["cpu_ms"] for answer in answers]),
        "differing": format_share(n_differing, len(answers)),
    } | ({"not_ended": DASH} if case.stops else {"stop_ms": DASH})


def _format_spread(values: list[float], digits: int) -> str:
    """Return median and 95th percentile, or a dash."""
    if not values:
        return DASH
    median = np.median(values)
    most = np.percentile(values, 95)
    return f"{median:.{digits}f}, {most:.{digits}f}"
