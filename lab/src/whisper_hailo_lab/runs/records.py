"""What a run file holds: raw texts, times and memory, from which every table can be made.

A run file begins with a `run` line (machine, versions, dataset). Then come `file` lines, one per
recording and case, a `case` line when a case is over, and `comparison` lines. Rates and medians are
not in it: `summary` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.runs.machine import Machine

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


@dataclass(frozen=True, slots=True)
class RunHeader:
    """First line of a run file.

    Attributes:
        created: UTC, ISO 8601.
        machine: hardware.
        versions: packages of the harness itself.
        dataset: name of the data.
        dataset_sha256: see `Dataset.sha256`.
        n_samples: recordings per case.
        note: free text, such as what else the machine was doing.
    """

    created: str
    machine: Machine
    versions: dict[str, str]
    dataset: str = ""
    dataset_sha256: str = ""
    n_samples: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class CaseMemory:
    """Resident memory of a case's process in MiB, as differences, and its peak.

    Attributes:
        before: before the model was loaded.
        load: growth while each component was loaded.
        warm_up: growth while each component had its warm-up runs.
        peak: largest of the whole process.
    """

    before: float = 0.0
    load: dict[str, float] = field(default_factory=dict)
    warm_up: dict[str, float] = field(default_factory=dict)
    peak: float = 0.0

    def total(self, component: str) -> float:
        """Growth by load and warm-up together: the study's figure of a component."""
        return self.load.get(component, 0.0) + self.warm_up.get(component, 0.0)

    @property
    def components_total(self) -> float:
        return sum(self.load.values()) + sum(self.warm_up.values())


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """How a case was run, written when it is over.

    Attributes:
        group: `systems`, or the comparison that it belongs to.
        model_sha256: file name to hash of what was loaded.
        load_ms: time to load.
        warm_up_ms: time of each warm-up run.
        heard_as: what the system says it did: decoder, window, beam, version of its engine.
        error: why the whole case failed, else empty.
    """

    name: str
    system: str
    row: str
    model: str
    threads: int
    settings: dict[str, Any] = field(default_factory=dict)
    group: str = SYSTEMS_GROUP
    versions: dict[str, str] = field(default_factory=dict)
    model_sha256: dict[str, str] = field(default_factory=dict)
    heard_as: dict[str, Any] = field(default_factory=dict)
    load_ms: float = 0.0
    warm_up_ms: tuple[float, ...] = ()
    memory: CaseMemory = field(default_factory=CaseMemory)
    error: str = ""


@dataclass(frozen=True, slots=True)
class FileResult:
    """One recording as one case heard it.

    Attributes:
        case: name of the case.
        id: of the recording.
        duration_s: seconds that were heard.
        reference: raw text.
        hypothesis: raw text.
        stages_ms: time per stage, of those that the system tells apart.
        total_ms: samples to text.
        cpu_s: processor seconds of the process meanwhile.
        n_tokens: text tokens generated; `None` where the system does not tell.
        runaway: some window used its token budget up without an end-of-transcript; `None` likewise.
        error: why it failed, else empty; then there is no hypothesis.
    """

    case: str
    id: str
    language: str = "en"
    duration_s: float = 0.0
    reference: str = ""
    hypothesis: str = ""
    stages_ms: dict[str, float] = field(default_factory=dict)
    total_ms: float = 0.0
    cpu_s: float = 0.0
    n_tokens: int | None = None
    runaway: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ComparisonRecord:
    """The result of one `compare`: a table with the settings it was made with.

    Attributes:
        name: `cache`, `window`, `mel`, `precision`, `padding` or `captions`.
        settings: what held for all rows.
        rows: one object per row, in order.
    """

    name: str
    settings: dict[str, Any]
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RunRecords:
    """All records of a run file, by their kinds, in the order of the file."""

    header: RunHeader
    cases: tuple[CaseRecord, ...] = ()
    files: tuple[FileResult, ...] = ()
    comparisons: tuple[ComparisonRecord, ...] = ()

    def files_of(self, case: str) -> tuple[FileResult, ...]:
        """Records of one case, in order."""
        return tuple(record for record in self.files if record.case == case)


Record: TypeAlias = RunHeader | CaseRecord | FileResult | ComparisonRecord
"""One line of a run file."""
