"""The tables of the emulated quantisation follow from its result file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from whisper_hailo_lab.documents.emulation import RESULT, tables
from whisper_hailo_lab.emulation.part import PICTURE


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    return found


def test_the_picture_is_one() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")


def test_another_result_makes_other_tables(result: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(result))
    changed["encoder"]["plans"][1]["snr_db"] += 1
    before, after = tables(result, ""), tables(changed, "")
    assert [name for name in before if before[name] != after[name]] == ["emulation-plans"]


def test_the_result_says_what_it_should(result: dict[str, Any]) -> None:
    """Bounds that hold whatever the weights: wider is better, and nothing is lost at 16 bits."""
    for part in ("encoder", "decoder"):
        rows = {row["plan"]: row for row in result[part]["plans"]}
        assert set(rows) == {"float32", "all8", "adds16", "norms16", "script"}
        gain_db = rows["adds16"]["snr_db"] - rows["all8"]["snr_db"]
        assert gain_db > (0 if part == "encoder" else -0.5)
        found = result[part]["kinds"]
        assert found["none"] > max(value for name, value in found.items() if name != "none")
        assert {row["words"] for row in rows.values()} == {rows["float32"]["words"]}
    adds = {row["plan"]: row.get("adds_snr_db") for row in result["encoder"]["plans"]}
    assert all(wide > narrow for wide, narrow in zip(adds["adds16"], adds["all8"], strict=True))
