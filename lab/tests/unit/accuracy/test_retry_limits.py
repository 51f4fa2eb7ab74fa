from __future__ import annotations

from pathlib import Path

import pytest

from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import Thresholds
from whisper_hailo.decoding.search import fallback
from whisper_hailo.decoding.search.retry_bound import bound_retry
from whisper_hailo_lab.accuracy.retry_limits import (
    POLICIES,
    measure_policies,
    without_limit,
)
from whisper_hailo_lab.clip_archives import find_clips, text_beside
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.documents.retries import make_tables
from whisper_hailo_lab.repository import MICRO

FIRST = Decoded((1, 2, 3), -0.6, 0.1, runaway=False)


def test_without_limit_ends_with_its_block() -> None:
    with without_limit():
        assert vars(fallback)["bound_retry"]([FIRST], 4.0, Thresholds(), 3) is None
    assert vars(fallback)["bound_retry"] is bound_retry


@pytest.mark.slow
def test_measure_policies_goes_on_with_its_files(tmp_path: Path) -> None:
    clips = [
        SpeechRecording(
            "seen", path.stem, text_beside(path), "en", 4.0, "made", (path,)
        )
        for path in find_clips("seen")[:2]
    ]
    measure_policies(str(MICRO), clips[:1], tmp_path, 1)
    rows = measure_policies(str(MICRO), clips, tmp_path, 1)
    assert [row["policy"] for row in rows] == [policy.name for policy in POLICIES]
    for row in rows:
        assert row["work"]["windows"] == 2
        assert row["work"]["rows"]["median"] >= 1.0
        assert row["words"]["English"]["recordings"] == 2
    files = list(tmp_path.glob("*.work.json-lines"))
    assert [len(file.read_text("utf-8").splitlines()) for file in files] == [2, 2]
    tables = make_tables({"models": {"micro": rows}})
    assert tables["retries-work"].count("| micro | default | 2 |") == 2
    assert tables["retries-words"].count(" of ") >= 2
