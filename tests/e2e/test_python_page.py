"""The examples of `docs/python.md` run as written, and its table has existing names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, ROOT
from whisper_hailo.core.errors import OptionError
from whisper_hailo.decoding.options import DecodingOptions
from whisper_hailo.transcription.arguments import merge_transcribe_kwargs

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda text: text.split("\n", 1)[0][:30]
)
def test_python_page_examples_run_as_written(
    example: str, environment: dict[str, str], tmp_path: Path
) -> None:
    shutil.copy(DEMO, tmp_path / "talk.flac")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"talk.flac"}


def test_python_page_has_all_examples() -> None:
    assert len(EXAMPLES) >= 9


def test_python_page_lists_names_that_exist() -> None:
    (row,) = re.findall(
        r"^\| (`beam_size`.*) \| the same names \|$", PAGE, re.MULTILINE
    )
    names = re.findall(r"`(\w+)`", row)
    assert len(names) >= 20
    for name in names:
        with pytest.raises(OptionError) as known:
            merge_transcribe_kwargs(DecodingOptions(), {name: object()})
        with pytest.raises(OptionError) as unknown:
            merge_transcribe_kwargs(DecodingOptions(), {f"{name}_x": object()})
        # An unknown name is refused before its value.
        reason = str(unknown.value).replace(f"{name}_x", name).partition(";")[0]
        assert not str(known.value).startswith(reason)
