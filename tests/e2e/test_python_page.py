"""The examples of `docs/python.md` run as they are written, and its table names what there is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, ROOT
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.arguments import merge_transcribe_kwargs

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda text: text.split("\n", 1)[0][:30]
)
def test_examples_run_as_they_are_written(
    example: str, environment: dict[str, str], tmp_path: Path
) -> None:
    shutil.copy(DEMO, tmp_path / "talk.flac")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"talk.flac"}


def test_there_are_examples_of_every_kind() -> None:
    assert len(EXAMPLES) >= 9


def test_names_that_are_said_to_be_the_same_are() -> None:
    (row,) = re.findall(
        r"^\| (`beam_size`.*) \| the same names \|$", PAGE, re.MULTILINE
    )
    names = re.findall(r"`(\w+)`", row)
    assert len(names) >= 20
    for name in names:  # a name that is not known would be told first
        with pytest.raises(Exception, match=r"expected|needs") as told:
            merge_transcribe_kwargs(DecodingOptions(), {name: object()})
        assert "there is no option" not in str(told.value)
