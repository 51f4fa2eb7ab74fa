"""A stand-in for Ray: stages run one behind the other, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

Row = dict[str, Any]


class RayError(Exception):
    """Of the stand-in."""


@dataclass(frozen=True)
class Pool:
    """Of actors."""

    min_size: int | None = None
    max_size: int | None = None
    initial_size: int | None = None


@dataclass
class Cluster:
    """What is asked of Ray, and what it has.

    Attributes:
        resources: of all nodes together.
        stages: arguments of each.
        begun: arguments of `init`.
        refused: what `init` ends with.
        broken: what rows end with.
        n_blocks: of the rows.
        starts: whether a process for the dashboard was begun with it.
    """

    resources: dict[str, float] = field(default_factory=lambda: {"CPU": 2.0})
    stages: list[dict[str, Any]] = field(default_factory=list)
    begun: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    refused: Exception | None = None
    broken: Exception | None = None
    n_blocks: int | None = None
    n_shut: int = 0
    starts: list[str] = field(default_factory=list)
    context: Any = field(
        default_factory=lambda: SimpleNamespace(autoscaling_config=SimpleNamespace())
    )

    def init(self, *words: Any, **named: Any) -> None:
        self.begun.append((words, named))
        Node.start_api_server(include_dashboard=False, cluster=self)
        if self.refused is not None:
            raise self.refused

    def shutdown(self) -> None:
        self.n_shut += 1

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def from_items(self, rows: list[Row], *, override_num_blocks: int) -> Rows:
        self.n_blocks = override_num_blocks
        return Rows(self, rows)


class Node:
    """Ray's own, of which it begins its processes."""

    @staticmethod
    def start_api_server(*, include_dashboard: bool, cluster: Cluster) -> None:
        cluster.starts.append(f"dashboard {include_dashboard}")


@dataclass
class Rows:
    """A `Dataset`: nothing is done before somebody takes its rows."""

    cluster: Cluster
    rows: Iterable[Row]

    def map_batches(self, work: Any, **named: Any) -> Rows:
        self.cluster.stages.append(named)
        return Rows(self.cluster, self._done(work, **named))

    def _done(
        self,
        work: Any,
        *,
        batch_size: int,
        batch_format: str,
        compute: Pool | None = None,
        **_: object,
    ) -> Iterator[Row]:
        assert batch_format == "numpy"
        if isinstance(work, type):
            assert compute is not None
            assert compute.initial_size is not None
            actors = cycle([work() for _ in range(compute.initial_size)])
        else:
            actors = cycle([work])
        rows = iter(self.rows)
        while taken := list(islice(rows, batch_size)):
            made = next(actors)(_columns(taken))
            for columns in [made] if isinstance(made, dict) else made:
                (name,) = columns
                yield from ({name: cell} for cell in columns[name])

    def iter_rows(self) -> Iterator[Row]:
        yield from self.rows
        if self.cluster.broken is not None:
            raise self.cluster.broken


def _columns(rows: list[Row]) -> dict[str, Any]:
    columns = {}
    for name in rows[0]:
        columns[name] = np.empty(len(rows), object)
        columns[name][:] = [row[name] for row in rows]
    return columns


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Put it into the place of the module."""
    made = Cluster()
    module = SimpleNamespace(
        init=made.init,
        shutdown=made.shutdown,
        cluster_resources=made.cluster_resources,
        exceptions=SimpleNamespace(RayError=RayError),
        data=SimpleNamespace(
            from_items=made.from_items,
            ActorPoolStrategy=Pool,
            DataContext=SimpleNamespace(get_current=lambda: made.context),
        ),
    )
    monkeypatch.setitem(sys.modules, "ray", module)  # type: ignore[arg-type]
    node = SimpleNamespace(Node=Node)
    monkeypatch.setitem(sys.modules, "ray._private.node", node)  # type: ignore[arg-type]
    return made
