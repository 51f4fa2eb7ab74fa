"""What `tests/references` keeps is what the live references say today."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.references import cases

pytest.importorskip("torch", reason="the references need torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # theirs, not ours
    for module in ("whisper", "transformers", "faster_whisper", "numba"):
        pytest.importorskip(module, reason=f"the references need {module}")
    from tests.parity import record

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDING = 1e-4
"""Of float32 on another processor."""
SHOWN = 5e-5
"""Half of the last digit of a probability: both what is kept and what is said today are rounded."""


@pytest.mark.parametrize("name", ["openai_whisper", "faster_whisper"])
def test_texts_and_times_are_what_they_say(name: str) -> None:
    kept, today = (
        list(leaves(tree)) for tree in (cases.golden(name), getattr(record, name)())
    )
    assert [path for path, _ in kept] == [path for path, _ in today]
    for (path, expected), (_, got) in zip(kept, today, strict=True):
        if isinstance(expected, float):
            assert got == pytest.approx(expected, abs=ROUNDING + 2 * SHOWN), path
        else:
            assert got == expected, path


def leaves(
    tree: Any, path: tuple[object, ...] = ()
) -> Iterator[tuple[tuple[object, ...], Any]]:
    """Whatever is no list and no dictionary, with the way to it."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(value, (*path, key))
    else:
        yield path, tree


@pytest.mark.parametrize("name", ["transformers", "graph"])
def test_features_and_logits_are_what_it_computes(name: str) -> None:
    today = getattr(record, name)()
    with np.load(record.FOLDER / f"{name}.npz") as kept:
        assert sorted(kept) == sorted(today)
        for key, expected in kept.items():
            largest = np.abs(expected).max()
            np.testing.assert_allclose(
                today[key], expected, rtol=0, atol=ROUNDING * largest
            )
