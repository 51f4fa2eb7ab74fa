"""Cases of the benchmark of all programs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.experiments.bench import (
    RIVALS,
    plan_emulated,
    plan_machine,
    plan_people,
    read_people,
    select_cases,
)

PLAN = plan_machine("micro", threads=1)


def test_select_cases_default_row_has_every_program() -> None:
    cases = select_cases(PLAN, [], ["default"])
    assert [case.system for case in cases] == ["ours", *RIVALS]
    assert cases[0].name == "whisper-hailo, default"


def test_select_cases_by_system_and_row() -> None:
    (case,) = select_cases(PLAN, ["faster-whisper"], ["matched"])
    assert case.name == "faster-whisper, matched"
    assert select_cases(PLAN, []) == PLAN


def test_select_cases_refuses_what_the_plan_lacks() -> None:
    with pytest.raises(OptionError, match="ours, study"):
        select_cases(PLAN, ["ours"], ["study"])


def test_plan_people_has_windows_and_rivals() -> None:
    cases = {case.name: case for case in plan_people(1, [])}
    assert {"base", "base, 5 s", "base, 30 s", "tiny.en, 10 s"} <= cases.keys()
    assert cases["base"].row == cases["faster-whisper base"].row == "default"
    assert cases["faster-whisper tiny.en, greedy"].row == "matched"


def test_plan_emulated_is_named_after_its_window() -> None:
    form = SimpleNamespace(window_s=5)
    spec: Any = SimpleNamespace(
        name="base",
        quantization="int8",
        encoder_quantization="int8",
        hailo_form=lambda _part: form,
    )
    case = plan_emulated("models/base", spec, threads=1)
    assert case.name == "base, 5 s, emulated chip"
    assert case.model == "models/base"
    assert case.settings["encoder_backend"] == "emulator"
    assert case.settings["quantize"] == "int8"
    assert case.settings["encoder_quantize"] == "int8"


def test_read_people_adds_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter as many without speech, and none longer than 30 s."""
    lines = [
        {"set": "a", "id": f"{n}", "text": "Hello.", "language": "en", "seconds": n}
        for n in range(20, 34)
    ]
    lines += [
        {"set": "b", "id": f"{n}", "text": "", "language": "none", "seconds": 5}
        for n in range(4)
    ]
    manifest = "".join(
        json.dumps(line | {"kind": "", "file": f"{line['id']}.flac"}) + "\n"
        for line in lines
    )
    (tmp_path / "MANIFEST.jsonl").write_text(manifest)
    monkeypatch.setenv("WHISPER_HAILO_SPEECH", str(tmp_path))
    people = read_people(8)
    assert [bool(sample.reference) for sample in people.samples] == [True] * 8 + [
        False
    ] * 2
    assert len(read_people(100).samples) == 11 + 4
