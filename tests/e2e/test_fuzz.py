"""The fuzz lane finds planted faults, prints how to repeat them, and continues."""

from __future__ import annotations

import json
import zipfile
import zlib
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import __main__ as lane
from tests.fuzz import pool
from tests.fuzz.mutate import NASTY, mutated_bytes, mutated_json
from tests.fuzz.target import NAMES, draw, load
from tests.fuzz.targets import planted

N_CASES = len(planted.KINDS)


def draw_kinds(seed: int) -> list[str]:
    made = (
        load("planted").make(draw("planted", seed, n), Path()) for n in range(N_CASES)
    )
    return [content.decode() for _, content in made]


SEED = next(seed for seed in count() if set(draw_kinds(seed)) == set(planted.KINDS))
"""The first seed that draws each fault once."""


def test_fuzz_lane_finds_and_repeats_planted_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "SLOWEST_S", 2.0)  # of processor time
    kinds = draw_kinds(SEED)
    words = ["--target", "planted", "--folder", str(tmp_path), "--seed", str(SEED)]
    assert lane.main([*words, "--cases", str(N_CASES), "--jobs", "2"]) == 1
    lines = (tmp_path / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    outcomes = {first["end"]: first["outcome"] for first in map(json.loads, lines)}
    assert outcomes == {
        n: kind for n, kind in enumerate(kinds) if kind not in ("ok", "refused")
    }
    case = f"planted:{SEED}:{kinds.index('internal')}"
    assert f"python -m tests.fuzz --case {case}" in capsys.readouterr().out
    assert lane.main(["--case", case, "--folder", str(tmp_path)]) == 1
    assert "KeyError: 'planted'" in (tmp_path / "failures.jsonl").read_text(
        encoding="utf-8"
    )
    case = f"planted:{SEED}:{kinds.index('ok')}"
    assert lane.main(["--case", case, "--folder", str(tmp_path)]) == 0


def test_fuzz_lane_kept_failure_runs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "CORPUS", tmp_path / "corpus.zip")
    monkeypatch.setattr(lane, "ROOT", tmp_path)
    case = f"planted:{SEED}:{draw_kinds(SEED).index('crash')}"
    folder = ["--folder", str(tmp_path / "build")]
    assert lane.main(["--case", case, "--keep", *folder]) == 1
    with zipfile.ZipFile(tmp_path / "corpus.zip") as file:
        (kept,) = file.namelist()
        assert zlib.decompress(file.read(kept)) == b"crash"
    assert lane.main(["--target", "planted", "--cases", "0", *folder]) == 1


def test_fuzz_pool_reports_growing_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pool, "SETTLED", 2)
    paths = []
    for number, kind in enumerate(("leak", "ok", "leak", "leak", "ok", "leak")):
        path = tmp_path / f"{number}-fault.z"
        path.write_bytes(zlib.compress(kind.encode()))
        paths.append(str(path))
    result = pool.run_inputs(tmp_path, "planted", paths)
    assert result.counts == {"ok": 6}
    assert result.grown_descriptors == 3
    result += pool.Seen("planted", grown_descriptors=2)
    assert result.grown_descriptors == 3
    lane.main(["--target", "planted", "--folder", str(tmp_path), "--input", *paths])
    assert "and 3 descriptors" in capsys.readouterr().out


def test_fuzz_inputs_depend_only_on_their_number() -> None:
    data = bytes(range(256)) * 8
    value = {"a": [1, 2, {"b": "c"}], "d": None}
    for name in NAMES:
        first = draw(name, 3, 7)
        second = draw(name, 3, 7)
        assert mutated_bytes(first, data) == mutated_bytes(second, data)
        assert mutated_json(first, value) == mutated_json(second, value)
    nasty = json.dumps(NASTY)
    drawn = [mutated_json(Random(number), value) for number in range(2000)]
    assert len(set(drawn)) > 500
    assert drawn == [mutated_json(Random(number), value) for number in range(2000)]
    assert value == {"a": [1, 2, {"b": "c"}], "d": None}
    assert json.dumps(NASTY) == nasty
