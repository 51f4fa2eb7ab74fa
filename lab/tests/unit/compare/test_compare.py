"""Counted work, paired times, and comparisons of settings made from constructed runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.tests.unit.small_run import HEADER, OURS, OURS_FILES
from tests.checkpoints import random_arrays, write_checkpoint
from whisper_hailo.backends.fixed import FixedDecoder, OnnxFixedRunner
from whisper_hailo.backends.onnx import CachedDecoder
from whisper_hailo.backends.select import hailo_form
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.convert.options import ConvertOptions, HailoOptions
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import AnyDecoder, Padding
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.compare import settings as module
from whisper_hailo_lab.compare.cache import (
    CountingDecoder,
    CountingRunner,
    GrowingDecoder,
    Work,
)
from whisper_hailo_lab.compare.paired import PairedTimes, time_in_turns
from whisper_hailo_lab.compare.settings import PLANS, compare_settings, run_comparison
from whisper_hailo_lab.data.datasets import Dataset, Sample
from whisper_hailo_lab.runs.records import Case, RunRecords
from whisper_hailo_lab.runs.run_file import read_run

LENGTH = 32


def ignore_progress(done: int, total: int, what: str) -> None:
    """Ignore the progress."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ModelSpec]:
    folder = tmp_path_factory.mktemp("model")
    checkpoint = write_checkpoint(folder / "toy", random_arrays())
    options = ConvertOptions("none", hailo=HailoOptions(1, LENGTH))
    return folder / "out", convert_checkpoint(checkpoint, folder / "out", options)


def make_decoders(model: tuple[Path, ModelSpec]) -> dict[str, tuple[AnyDecoder, Work]]:
    directory, spec = model
    counts = [Work() for _ in range(3)]
    runner = OnnxFixedRunner(hailo_form(directory, spec, "decoder"), spec, 1)
    cached = CachedDecoder(directory, spec, 1)
    return {
        "fixed": (FixedDecoder(CountingRunner(runner, counts[0]), spec), counts[0]),
        "growing": (GrowingDecoder(cached, counts[1]), counts[1]),
        "cached": (CountingDecoder(cached, counts[2]), counts[2]),
    }


def test_counting_decoders_count_rows(
    model: tuple[Path, ModelSpec],
) -> None:
    features = np.random.default_rng(0).standard_normal((1, 50, 64)).astype(np.float32)
    logits = {}
    for name, (decoder, count) in make_decoders(model).items():
        with decoder:
            state = decoder.start(features, (Padding(None),))
            last = np.array([0])
            for step in range(LENGTH):
                output, state = decoder.step(np.array([[30 + step]]), state, last)
            logits[name] = output.logits
        assert count.runs == LENGTH
        assert count.rows == {"fixed": 1024, "growing": 528, "cached": 32}[name]
        assert count.projected == {"fixed": 1024, "growing": 32, "cached": 32}[name]
        assert count.products == {
            "fixed": 32 * 1024, "growing": sum(n * n for n in range(33)), "cached": 528,
        }[name]  # fmt: skip
    np.testing.assert_allclose(logits["growing"], logits["cached"], atol=1e-4)
    np.testing.assert_allclose(logits["fixed"], logits["cached"], atol=1e-4)


def test_growing_decoder_rewinds(
    model: tuple[Path, ModelSpec],
) -> None:
    features = np.ones((1, 50, 64), np.float32)
    decoder, _ = make_decoders(model)["growing"]
    with decoder:
        start = decoder.start(features, (Padding(None),))
        look = np.array([0])
        _, long = decoder.step(np.array([[30, 31, 32]]), start, look)
        again, _ = decoder.step(np.array([[40]]), decoder.rewind(long, 1), look)
        direct, _ = decoder.step(np.array([[30, 40]]), start, np.array([1]))
    np.testing.assert_allclose(again.logits, direct.logits, atol=1e-6)
    assert decoder.batch_size(long) == 1
    assert decoder.name == "growing"


@pytest.mark.slow
def test_run_comparison_of_caches_has_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisper_hailo_lab.compare.cache.ROUNDS", 1)
    clip = unpack_clips() / "seen" / "seen-000.ogg"
    dataset = Dataset("clips", clip.parent, (Sample("a", clip, "words"),))
    out = tmp_path / "run.jsonl"
    record = run_comparison(
        "cache", dataset, Case("", "ours", "matched", threads=1), ignore_progress, out
    )
    assert read_run(out).comparisons[0].name == "cache"
    plain = {row["decoder"]: row for row in record.rows if row["what"] == "32 steps"}
    assert [plain[name]["attention_rows"] for name in ("fixed", "growing", "cached")] == [
        1024, 528, 32,
    ]  # fmt: skip
    real = {row["decoder"]: row for row in record.rows if row["what"] == "a recording"}
    assert len({real[name]["text"] for name in ("fixed", "growing", "cached")}) == 1
    steps = real["cached"]["runs"]
    n_prefix = record.settings["prefix"]
    assert real["cached"]["attention_rows"] == n_prefix + steps - 1
    assert real["growing"]["attention_rows"] == sum(n_prefix + i for i in range(steps))
    assert real["fixed"]["attention_rows"] == LENGTH * steps
    assert all(row["ms"] > 0 for row in record.rows)
    assert plain["cached"]["ratio"] == 1.0


def test_time_in_turns_changes_the_order() -> None:
    order: list[str] = []
    ways = {name: (lambda name=name: order.append(name)) for name in "abc"}
    result = time_in_turns(ways, rounds=2)  # type: ignore[arg-type]
    rounds = ["".join(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert len(rounds) == 5
    assert all(sorted(look) == ["a", "b", "c"] for look in rounds)
    pairs = set(pairwise(order))
    assert {("a", "b"), ("b", "a")} <= pairs, "no way always follows the same other"
    assert {name: len(ms) for name, ms in result.ms.items()} == {"a": 2, "b": 2, "c": 2}


def test_paired_times_ratio_is_of_the_same_round() -> None:
    result = PairedTimes({"a": (10.0, 100.0, 10.0), "b": (5.0, 50.0, 2.0)})
    assert result.ratio("a", "b") == 2.0
    assert result.median_ms("a") == 10.0


def test_time_in_turns_accepts_returned_times() -> None:
    assert time_in_turns({"a": lambda: 7.0}, rounds=1).ms == {"a": (7.0,)}


def fake_run(cases: list[Case], *_: Any) -> RunRecords:
    """Return cases each twice as slow as the one before; the last one runs away."""
    records = []
    files = []
    for number, case in enumerate(cases):
        records.append(
            replace(OURS, name=case.name, settings=case.settings, group=case.group)
        )
        last = number == len(cases) - 1
        files += [
            replace(
                record,
                case=case.name,
                runaway=last,
                stages_ms={key: ms * 2**number for key, ms in record.stages_ms.items()},
            )
            for record in OURS_FILES
        ]
    return RunRecords(HEADER, tuple(records), tuple(files))


@pytest.mark.parametrize("name", PLANS)
def test_compare_settings_has_a_row_for_each_value(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "evaluate_cases", fake_run)
    common = Case("", "ours", "matched", "micro", settings={"preset": "conservative"})
    run, record = compare_settings(
        name, PLANS[name], Dataset("clips", Path(), ()), common, ignore_progress
    )
    assert {case.group for case in run.cases} == {name}
    assert [row["value"] for row in record.rows] == list(PLANS[name].values)
    if PLANS[name].stage != "total":
        assert [row["ratio"] for row in record.rows] == [
            2**n for n in range(len(record.rows))
        ]
    assert [row["runaway"] for row in record.rows][-1] == 3
    assert record.rows[0]["words"] == 2


def test_compare_settings_failed_case_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = RunRecords(
        HEADER, (replace(OURS, name="padding: none", error="no weights"),)
    )
    monkeypatch.setattr(module, "evaluate_cases", lambda *_: broken)
    with pytest.raises(OptionError, match="no weights"):
        compare_settings(
            "padding",
            PLANS["padding"],
            Dataset("clips", Path(), ()),
            Case("", "ours"),
            ignore_progress,
        )


def test_run_comparison_without_recordings_raises() -> None:
    empty = Dataset("none", Path(), ())
    with pytest.raises(OptionError, match="recordings"):
        run_comparison("window", empty, Case("", "ours"), ignore_progress, None)
