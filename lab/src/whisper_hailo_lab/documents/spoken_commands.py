"""The table of `experiments.spoken_commands`: from the last word to the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.table import Table, share
from whisper_hailo_lab.repository import RESULTS

RESULT: Final = RESULTS / "spoken_commands.json"
COLUMNS: Final = (
    "model", "sound after the command", "decoding starts", "s after the last word, 95 %",
    "ms after `audio-stop`, 95 %", "not ended in 4 s", "CPU ms a command", "text differs",
)  # fmt: skip
_BEGUN: Final = {"early": "in the pause", "late": "at the end"}


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent behind commands.

    Attributes:
        behind: as the table has it.
        background: set of `data.speech`; empty is silence.
        level_db: of the background, relative to the command.
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
    Case("base", "silence"),
    Case("tiny.en", "silence"),
    Case("base", "0.5 s of silence, `audio-stop`", stops=True),
    Case("tiny.en", "0.5 s of silence, `audio-stop`", stops=True),
    Case("base", "television, -10 dB", "long_form", -10.0),
    Case("base", "television, -5 dB", "long_form", -5.0),
    Case("base", "noise, -20 dB", "nospeech_noise", -20.0),
)


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """Return two rows per case; `weights` of micro are not measured."""
    del weights
    return {"spoken-commands": f"{result['machine']}.\n\n{table(result).markdown()}"}


def table(result: dict[str, Any]) -> Table:
    """Return the rows of the cases that were measured, without the machine."""
    rows = [row for case in CASES if case.name in result for row in _rows(case, result[case.name])]
    return Table(COLUMNS, tuple(rows))


def _rows(case: Case, found: dict[str, list[dict[str, Any]]]) -> list[tuple[str, ...]]:
    n_other = sum(one["text"] != other["text"] for one, other in zip(*found.values(), strict=True))
    return [_row(case, begun, found[begun], n_other) for begun in _BEGUN]


def _row(case: Case, begun: str, answers: list[dict[str, Any]], n_other: int) -> tuple[str, ...]:
    """Return a row; commands that were not ended have no lag."""
    stopped = [answer for answer in answers if answer["stop_s"] is not None]
    ended = answers if case.stops else [one for one in answers if one["stop_s"] is None]
    return (
        case.model,
        case.behind,
        _BEGUN[begun],
        _spread([one["lag_s"] for one in ended], 2),
        _spread([1000 * one["stop_s"] for one in stopped], 0) if case.stops else "-",
        "-" if case.stops else share(len(stopped), len(answers)),
        f"{np.mean([one['cpu_ms'] for one in answers]):.0f}",
        share(n_other, len(answers)),
    )


def _spread(values: list[float], digits: int) -> str:
    """`0.71, 0.80`: median and 95th percentile, or a dash."""
    if not values:
        return "-"
    return f"{np.median(values):.{digits}f}, {np.percentile(values, 95):.{digits}f}"
