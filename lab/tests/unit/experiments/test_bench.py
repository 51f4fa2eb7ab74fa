"""Which cases the benchmark of all programs runs."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.experiments.bench import RIVALS, plan_machine, select_cases

PLAN = plan_machine("micro", threads=1)


def test_default_row_has_every_program() -> None:
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
