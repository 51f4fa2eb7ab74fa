"""Shards: consecutive recordings of a manifest, the same ones in every process.

A shard has about an hour of audio where the manifest has durations, and else a fixed number of
recordings. It depends on the manifest alone: so any number of processes can share a job without
asking each other, and a manifest may grow at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from whisper_hailo.batch.manifest import Item, Manifest, Row, parse_rows
from whisper_hailo.core.errors import OptionError

SHARD_S: Final = 3600.0
"""Seconds of audio of a shard: what a lost machine costs at most, and some megabytes of results."""

DEFAULT_ITEMS: Final = 32
"""Recordings of a shard where durations are unknown: one of long recordings should not take a day,
one of short clips should not be a hundred bytes."""

MOST_ITEMS: Final = 4096
"""Recordings of a shard whatever the manifest has as their durations."""

_ROUNDING_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive recordings of a job, whose results are one file.

    Attributes:
        previous: name of the file with the results of an earlier run, of which some are missing;
            empty if there is none.
    """

    number: int
    items: tuple[Item, ...]
    previous: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """The shards of one of several processes: each `n_shares`th, from the one of its index on."""

    index: int = 0
    n_shares: int = 1

    def has(self, number: int) -> bool:
        """Return whether a shard is one of them."""
        return number % self.n_shares == self.index


def parse_share(text: str) -> Share:
    """Return the share of `17/400`, the 17th of 400 processes.

    Raises:
        OptionError: it is another text, or beyond the number of processes.
    """
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise OptionError(
            f"--shard is {text!r}, expected INDEX/COUNT, such as 1/400 to 400/400"
        )
    return Share(int(match[1]) - 1, int(match[2]))


def plan_shards(
    manifest: Manifest, n_items: int, is_wanted: Callable[[int], bool]
) -> Iterator[Shard]:
    """Yield the wanted shards of a manifest; rows of others are not parsed.

    Args:
        manifest: the recordings.
        n_items: of a shard, where durations are unknown.
        is_wanted: takes the number of a shard.
    """
    unknown_s = SHARD_S / n_items
    number = 0
    total_s = 0.0
    rows: list[Row] = []
    for row in manifest.rows():
        rows.append(row)
        total_s += manifest.duration_s(row[1]) or unknown_s
        if total_s > SHARD_S - _ROUNDING_S or len(rows) == MOST_ITEMS:
            if is_wanted(number):
                yield Shard(number, parse_rows(manifest, rows))
            number += 1
            total_s = 0.0
            rows = []
    if rows and is_wanted(number):
        yield Shard(number, parse_rows(manifest, rows))
