"""How far a job is, by what lies in its folder: also while others work on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whisper_hailo.batch.job_files import ITEMS_FILE, read_head, read_summaries
from whisper_hailo.batch.ledger import Ledger
from whisper_hailo.batch.manifest import read_groups
from whisper_hailo.batch.records import Outcome, PieceResult
from whisper_hailo.batch.results import SHARD_GROUPS
from whisper_hailo.batch.run_log import FOLDER as RUNS
from whisper_hailo.batch.run_log import RunRecord
from whisper_hailo.batch.store import Store
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.strict_json import MismatchError, decode, parse_json


@dataclass(frozen=True, slots=True)
class Status:
    """How far a job is.

    Attributes:
        items: of the manifest.
        done: with a transcript.
        failed: without one, for good.
        audio_s: seconds of audio that were transcribed.
        speed: seconds of audio in a second, of the last run; 0 if nothing is known.
        left_s: about so many seconds are left at that speed, if what is left is as long as what was
            done; `None` if nothing is known.
        failures: how many of each kind.
    """

    items: int
    done: int = 0
    failed: int = 0
    audio_s: float = 0.0
    speed: float = 0.0
    left_s: float | None = None
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def remaining(self) -> int:
        """Items that were not tried, or not to their end."""
        return self.items - self.done - self.failed


def read_status(store: Store) -> Status:
    """The state of a job.

    Raises:
        OptionError: there is none.
        OutputError: it cannot be read.
    """
    head = read_head(store)
    if head is None:
        raise OptionError(f"{store.name} holds no job, expected the folder of one; check the path")
    # First what a run takes away as soon as it is in a file of results: else it may be in neither.
    told = list(Ledger(store).read())
    summaries = read_summaries(store)
    failures = Counter(_kind(line) for summary in summaries.values() for line in summary.failures)
    tried = sum(summary.items for summary in summaries.values())
    audio_s = sum(summary.audio_s for summary in summaries.values())
    outcomes: dict[int, dict[int, Outcome]] = defaultdict(dict)
    for outcome in told:
        if outcome.group // SHARD_GROUPS not in summaries:
            outcomes[outcome.group][outcome.index] = outcome
    sizes = {group.index: len(group.items) for group in read_groups(store.read(ITEMS_FILE) or b"")}
    for group, known in outcomes.items():
        n_tried, kinds = _tried(known, sizes.get(group, 0))
        tried += n_tried
        failures += kinds
        audio_s += sum(outcome.audio_s for outcome in known.values())
    failed = failures.total()
    speed = _speed(store)
    done = tried - failed
    left = head.items - tried
    return Status(
        items=head.items,
        done=done,
        failed=failed,
        audio_s=round(audio_s, 3),
        speed=round(speed, 3),
        left_s=round(left * audio_s / done / speed, 1) if done and speed else None,
        failures=dict(sorted(failures.items())),
    )


def _tried(known: Mapping[int, Outcome], n_items: int) -> tuple[int, Counter[str]]:
    """Items of a group that are done or failed for good, and the kinds of the latter."""
    results: list[PieceResult] = []
    for index in range(len(known)):
        if index not in known:
            break
        results += known[index].results
    whole = any(one.is_last for one in known.values())
    whole = whole and len(results) == sum(len(one.results) for one in known.values())
    # An item is done when the next one has begun.
    n_tried = n_items if whole else max((result.item for result in results), default=0)
    kinds = {
        result.item: result.failure.kind
        for result in results
        if result.failure is not None and result.item < n_tried
    }
    return n_tried, Counter(kinds.values())


def _speed(store: Store) -> float:
    """Of the run that began last."""
    records = [record for record in _records(store) if record.tasks]
    return max(records, key=lambda record: record.begin).speed if records else 0.0


def _records(store: Store) -> Iterable[RunRecord]:
    for name in store.names(RUNS):
        try:
            yield decode(RunRecord, parse_json(store.read(name) or b""))
        except MismatchError:
            continue  # it tells of a speed only


def _kind(line: str) -> str:
    try:
        error = decode(dict[str, object], parse_json(line.encode())).get("error")
        return decode(dict[str, str], error)["kind"]
    except (MismatchError, KeyError):
        return "unknown"
