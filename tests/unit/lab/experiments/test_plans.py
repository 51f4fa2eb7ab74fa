"""Which cases `make lab NAME=bench` measures."""

from __future__ import annotations

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo_lab.experiments.bench import RIVALS, machine_plan, only

PLAN = machine_plan("micro", threads=1)


def test_every_program_takes_part_as_it_comes() -> None:
    shown = only(PLAN, [], ["default"])
    assert [case.system for case in shown] == ["ours", *RIVALS]
    assert shown[0].name == "whisper-hailo, default"


def test_systems_and_rows_can_be_chosen() -> None:
    (case,) = only(PLAN, ["faster-whisper"], ["matched"])
    assert case.name == "faster-whisper, matched"
    assert only(PLAN, []) == PLAN


def test_what_the_plan_does_not_have_is_refused() -> None:
    with pytest.raises(OptionError, match="the plan has no case of ours, study"):
        only(PLAN, ["ours"], ["study"])
