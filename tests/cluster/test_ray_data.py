"""The program of `docs/archives.md` for Ray Data, as it is written there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import CLIPS, PATIENCE_S, ROOT, run

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

PAGE = (ROOT / "docs" / "archives.md").read_text(encoding="utf-8")
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_program_of_the_page_has_the_texts_of_batch(
    environment: dict[str, str], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    (calls / "more").mkdir(parents=True)
    names = ["a.ogg", "b.ogg", "more/c.ogg", "_skipped.ogg"]
    for name, clip in zip(names, CLIPS, strict=False):
        shutil.copyfile(clip, calls / name)
    (calls / "broken.ogg").write_bytes(b"no sound")
    environment = environment | {"RAY_USAGE_STATS_ENABLED": "0"}
    environment["RAY_AUTH_MODE"] = "disabled"  # as somebody who tries it
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = parquet.read_table(tmp_path / "texts").to_pylist()
    found = {Path(row["path"]).relative_to("calls").as_posix(): row for row in rows}
    assert set(found) == {"a.ogg", "b.ogg", "more/c.ogg", "broken.ogg"}
    assert "not" in found["broken.ogg"]["error"]
    run(environment, calls, "-o", tmp_path / "job")
    content = (tmp_path / "job/transcripts/part-00000.jsonl").read_text()
    records = [json.loads(line) for line in content.splitlines()]
    expected = {record["id"]: record.get("text") for record in records}
    assert {name.removesuffix(".ogg"): row["text"] for name, row in found.items()} == {
        item: text for item, text in expected.items() if item != "_skipped"
    }
