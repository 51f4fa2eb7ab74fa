"""Records of a run file: raw texts, times and memory, from which every table is made.

A run file begins with a `run` line (machine, versions, dataset). Then come `file` lines, one per
recording and case, a `case` line at the end of each case, and `comparison` lines. Rates and medians
are not stored: `summary` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.runs.machine import Machine

Row: TypeAlias = Literal["default", "matched", "study"]
"""Rules that a system runs under.

- `default`: as its authors ship it, whole recordings.
- `matched`: the same for all: greedy, one temperature, no VAD, no previous text, no timestamps.
- `study`: `matched`, on the first 9 s of each recording, at most 28 new tokens.
"""

ROWS: Final[tuple[str, ...]] = get_args(Row)
EMULATOR: Final = "emulator"
"""Encoder backend of cases that stand in for a chip."""

EMULATED_SUFFIX: Final = ", emulated chip"
"""End of the name of such a case, after the name of the same window on the processor."""

STUDY_CROP_S: Final = 9.0
STUDY_BUDGET: Final = 28
SYSTEMS_GROUP: Final = "systems"
COMPARISONS: Final = ("cache", "window", "precision", "padding", "grid", "captions")
"""Comparisons that reports know; earlier versions had more."""

WARM_UPS: Final = 3
"""Warm-up runs before anything is timed, as in the study."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case, run in a process of its own.

    Attributes:
        name: unique in a run, shown in tables.
        system: name of a system.
        row: rules it runs under.
        model: checkpoint, or a model in the system's own format.
        language: language of the recordings.
        threads: threads of every system; 0 lets each choose.
        settings: settings of the system, such as `window_s` or `quantize`.
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
        """Raise `OptionError` for rules that do not exist."""
        if self.row not in ROWS:
            raise OptionError(
                f"--row is {self.row!r}, expected one of: {', '.join(ROWS)}"
            )

    @property
    def crop_s(self) -> float | None:
        """Seconds of each recording that are used; `None` is all."""
        return STUDY_CROP_S if self.row == "study" else None

    @property
    def budget(self) -> int | None:
        """New tokens per window; `None` is the system's own limit."""
        return STUDY_BUDGET if self.row == "study" else None

    @property
    def greedy(self) -> bool:
        """Whether the common rules replace the system's own."""
        return self.row != "default"


@dataclass(frozen=True, slots=True)
class RunHeader:
    """First line of a run file.

    Attributes:
        created: UTC, ISO 8601.
        machine: hardware.
        versions: packages of the harness itself.
        dataset: name of the dataset.
        dataset_sha256: see `Dataset.sha256`.
        n_samples: recordings per case.
        note: free text, such as other load on the machine.
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
    """Resident memory of a case's process in MiB.

    Attributes:
        before: memory before the model was loaded.
        load: growth by component while it was loaded.
        warm_up: growth by component during its warm-up runs.
        peak: peak of the whole process.
    """

    before: float = 0.0
    load: dict[str, float] = field(default_factory=dict)
    warm_up: dict[str, float] = field(default_factory=dict)
    peak: float = 0.0

    @property
    def components(self) -> list[str]:
        """Names of all components, in the order of their loading."""
        return list(dict.fromkeys([*self.load, *self.warm_up]))

    def total(self, component: str) -> float:
        """Return the growth by load and warm-up together, the study's figure of a component."""
        return self.load.get(component, 0.0) + self.warm_up.get(component, 0.0)

    @property
    def components_total(self) -> float:
        return sum(self.load.values()) + sum(self.warm_up.values())


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """How a case was run, written at its end.

    Attributes:
        group: `systems`, or the comparison that it belongs to.
        model_sha256: hashes of the loaded files by name.
        load_ms: time to load.
        warm_up_ms: time of each warm-up run.
        heard_as: the system's own description: decoder, window, beam, version of its engine.
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

    @property
    def is_emulated(self) -> bool:
        """Whether the encoder rounds as a chip does: its words count, its times do not."""
        return self.settings.get("encoder_backend") == EMULATOR


@dataclass(frozen=True, slots=True)
class FileResult:
    """Result of one recording in one case.

    Attributes:
        case: name of the case.
        id: id of the recording.
        duration_s: seconds of audio that were used.
        reference: raw text.
        hypothesis: raw text.
        stages_ms: time by stage, where the system reports stages.
        total_ms: time from samples to text.
        cpu_s: processor seconds of the process meanwhile.
        n_tokens: generated text tokens; `None` where the system does not report them.
        runaway: a window used up its token budget without an end-of-transcript token; `None` where
            the system does not report it.
        error: why it failed, else empty; a failed recording has no hypothesis.
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
    """Result of one `compare`: a table with its settings.

    Attributes:
        name: one of `COMPARISONS`.
        settings: settings of all rows.
        rows: one object per row, in order.
    """

    name: str
    settings: dict[str, Any]
    rows: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class RunRecords:
    """All records of a run file by kind, in the order of the file."""

    header: RunHeader
    cases: tuple[CaseRecord, ...] = ()
    files: tuple[FileResult, ...] = ()
    comparisons: tuple[ComparisonRecord, ...] = ()

    def files_of(self, case: str) -> tuple[FileResult, ...]:
        """Return the records of one case, in order."""
        return tuple(record for record in self.files if record.case == case)


Record: TypeAlias = RunHeader | CaseRecord | FileResult | ComparisonRecord
"""One line of a run file."""
