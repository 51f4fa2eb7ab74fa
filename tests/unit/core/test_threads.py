"""How many threads there may be."""

from __future__ import annotations

from typing import Any

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import check_threads


@pytest.mark.parametrize("threads", [0, 1, 256])
def test_so_many_threads_may_be(threads: int) -> None:
    assert check_threads(threads) == threads


@pytest.mark.parametrize("threads", [-1, 257, 1.5, "2"])
def test_so_many_threads_are_none(threads: Any) -> None:
    with pytest.raises(OptionError, match=r"threads is .*, expected 0 \(automatic\) to 256"):
        check_threads(threads)
