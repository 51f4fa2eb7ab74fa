"""Which recordings and windows a set is drawn from, and files of rows that are gone on with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from whisper_hailo_tools.calibrate.make import Manifest, RowsFile, holds_rows
from whisper_hailo_tools.calibrate.windows import (
    _is_usable,
    find_sources,
    quota_per_turn,
    window_order,
)

SHAPE = (1, 2, 3)
ROWS = np.arange(24, dtype=np.float32).reshape(4, *SHAPE)


def test_a_folder_is_a_speaker_where_names_say_none(tmp_path: Path) -> None:
    for name in ("anna/1.wav", "anna/2.flac", "anna/3.wav", "berta/1.wav", "berta/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find_sources(tmp_path, seed=0)
    assert found.n_speakers == 2
    assert len(found.files) == 4
    assert {name.split("/")[0] for name in found.files[:2]} == {"anna", "berta"}
    before = found.listing_sha256
    (tmp_path / "anna" / "1.wav").write_bytes(b"longer")
    assert find_sources(tmp_path, seed=0).listing_sha256 != before


def test_windows_are_shuffled_by_seed_and_file() -> None:
    orders = [window_order(name, 50, seed) for name, seed in (("a", 0), ("a", 1), ("b", 0))]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert window_order("a", 50, 0) == orders[0]
    assert [quota_per_turn(*pair) for pair in ((10, 4), (8, 4), (1, 4))] == [3, 2, 1]


@pytest.mark.parametrize(
    ("value", "n_samples", "usable"),
    [(0.001, 8000, True), (-0.001, 8000, True), (0.0009, 8000, False), (0.5, 7999, False)],
)
def test_what_is_silent_or_short_teaches_nothing(
    value: float, n_samples: int, usable: bool
) -> None:
    assert _is_usable(np.full(n_samples, value)) is usable


def test_rows_behind_the_last_that_counts_are_gone(tmp_path: Path) -> None:
    """What was written after the manifest was saved is written again."""
    path, whole = tmp_path / "rows", tmp_path / "whole"
    with RowsFile(path, SHAPE, 0) as file:
        for row in ROWS:
            file.append(row)
    assert holds_rows(path, SHAPE, 4)
    assert not holds_rows(path, SHAPE, 5)
    assert not holds_rows(tmp_path / "none", SHAPE, 0)
    with RowsFile(path, SHAPE, 2) as file:
        file.append(ROWS[3])
        file.finish(3)
    with RowsFile(whole, SHAPE, 0) as file:
        for row in ROWS[[0, 1, 3]]:
            file.append(row)
        file.finish(3)
    assert path.read_bytes() == whole.read_bytes()
    np.testing.assert_array_equal(np.load(path), ROWS[[0, 1, 3]])


def test_the_manifest_of_another_set_is_none(tmp_path: Path) -> None:
    Manifest({"seed": 0}, n_rows=7).save(tmp_path / "m.json")
    found = Manifest.load(tmp_path / "m.json", {"seed": 0})
    assert found is not None
    assert found.n_rows == 7
    assert Manifest.load(tmp_path / "m.json", {"seed": 1}) is None
    text = (tmp_path / "m.json").read_text()
    (tmp_path / "m.json").write_text(text.replace('"version": 1', '"version": 2'))
    assert Manifest.load(tmp_path / "m.json", {"seed": 0}) is None
