"""What is measured: one system, with one set of options, on one dataset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from whisper_hailo.core.errors import OptionError

Row: TypeAlias = Literal["default", "matched", "study", "forced"]
"""Which rules a system runs under.

- `default`: as its authors ship it, whole recordings.
- `matched`: the same for all: greedy, one temperature, no VAD, no previous text, no timestamps.
- `study`: `matched`, on the first 9 s of each recording, 28 new tokens at most.
- `forced`: `matched`, on the first 10 s, without a margin, 28 new tokens at most: on random
  weights, which never end, the same work for all.
"""

ROWS: Final[tuple[str, ...]] = get_args(Row)
STUDY_CROP_S: Final = 9.0
STUDY_BUDGET: Final = 28
FORCED_CROP_S: Final = 10.0
SYSTEMS_GROUP: Final = "systems"
WARM_UPS: Final = 3
"""Warm-up runs before anything is timed, as in the study."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case, run in a process of its own.

    Attributes:
        name: unique in a run, shown in tables.
        system: name of a system.
        row: rules it runs under.
        model: checkpoint or what else the system loads.
        language: of the recordings.
        threads: for every system alike; 0 lets each choose.
        settings: the system's own, such as `window_s` or `quantize`.
        group: `systems`, or the comparison that it belongs to.
    """

    name: str
    system: str
    row: Row = "default"
    model: str = "micro"
    language: str = "en"
    threads: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    group: str = SYSTEMS_GROUP

    def __post_init__(self) -> None:
        """Raises `OptionError` for rules that do not exist."""
        if self.row not in ROWS:
            raise OptionError(f"--row is {self.row!r}, expected one of: {', '.join(ROWS)}")

    @property
    def crop_s(self) -> float | None:
        """Seconds of each recording that are heard; `None` is all."""
        return {"study": STUDY_CROP_S, "forced": FORCED_CROP_S}.get(self.row)

    @property
    def budget(self) -> int | None:
        """New tokens per window; `None` is the system's own bound. `new_tokens` sets another."""
        bound = STUDY_BUDGET if self.row in {"study", "forced"} else None
        return self.settings.get("new_tokens", bound)

    @property
    def greedy(self) -> bool:
        """Whether the common rules hold instead of the system's own."""
        return self.row != "default"
