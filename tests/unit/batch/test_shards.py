"""Shards of a manifest, and shares of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whisper_hailo.batch.manifest import Manifest, open_manifest
from whisper_hailo.batch.shards import (
    MOST_ITEMS,
    Shard,
    Share,
    parse_share,
    plan_shards,
)
from whisper_hailo.core.errors import OptionError


def manifest(folder: Path, durations: list[float | None]) -> Manifest:
    path = folder / "archive.jsonl"
    lines = []
    for number, duration in enumerate(durations):
        fields = {} if duration is None else {"duration": duration}
        lines.append(json.dumps({"audio": f"{number}.wav"} | fields) + "\n")
    path.write_text("".join(lines))
    return open_manifest(str(path))


def ids(shards: list[Shard]) -> list[list[int]]:
    return [[int(item.id) for item in shard.items] for shard in shards]


def plan(listed: Manifest, n_items: int = 32) -> list[Shard]:
    return list(plan_shards(listed, n_items, lambda _: True))


@pytest.mark.parametrize("n_items", [1, 3, 7, 32])
def test_plan_without_durations_counts_recordings(tmp_path: Path, n_items: int) -> None:
    shards = plan(manifest(tmp_path, [None] * (2 * n_items + 1)), n_items)
    assert [len(shard.items) for shard in shards] == [n_items, n_items, 1]
    assert [shard.number for shard in shards] == [0, 1, 2]


def test_plan_with_durations_closes_after_an_hour(tmp_path: Path) -> None:
    shards = plan(manifest(tmp_path, [1800, 1799, 2, 9000, 3600, 10]))
    assert ids(shards) == [[0, 1, 2], [3], [4], [5]]


def test_plan_mixes_known_and_unknown_durations(tmp_path: Path) -> None:
    shards = plan(manifest(tmp_path, [1800, None, None, 5]), n_items=4)
    assert ids(shards) == [[0, 1, 2], [3]]


def test_plan_of_tiny_recordings_is_bounded(tmp_path: Path) -> None:
    shards = plan(manifest(tmp_path, [0.01] * (MOST_ITEMS + 1)))
    assert [len(shard.items) for shard in shards] == [MOST_ITEMS, 1]


def test_plan_grows_at_its_end_only(tmp_path: Path) -> None:
    before = plan(manifest(tmp_path, [None] * 10), 4)
    after = plan(manifest(tmp_path, [None] * 13), 4)
    assert after[:2] == before[:2]
    assert ids(after[2:]) == [[8, 9, 10, 11], [12]]


def test_plan_does_not_parse_lines_of_others(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    path.write_text("{broken\n" * 4 + '{"audio": "a.wav"}\n')
    shards = plan_shards(open_manifest(str(path)), 4, lambda number: number == 1)
    assert [shard.items[0].id for shard in shards] == ["a"]


def test_parse_share_gives_disjoint_complete_shares() -> None:
    shares = [parse_share(f"{number}/3") for number in (1, 2, 3)]
    owners = [[share.has(number) for share in shares] for number in range(7)]
    assert all(sum(owner) == 1 for owner in owners)
    assert Share().has(5)


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", ""])
def test_parse_share_of_other_texts_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--shard"):
        parse_share(text)
