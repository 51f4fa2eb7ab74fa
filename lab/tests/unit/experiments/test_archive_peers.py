"""Programs on archives: their recordings, costs and error rates."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from whisper_hailo.core.errors import WhisperHailoError
from whisper_hailo_lab.data.speech import SpeechRecording
from whisper_hailo_lab.documents.archive_peers import make_tables
from whisper_hailo_lab.experiments.archive_peers import (
    N_LONG,
    N_SHORT,
    Peer,
    PeerRun,
    choose_recordings,
    read_texts,
    run_counted,
    summarise_peer,
    write_manifest,
)

PEER = Peer("peer", "ours")


def recording(number: int, seconds: float, language: str = "en") -> SpeechRecording:
    name = f"{number:03}"
    path = Path(f"/{name}.flac")
    return SpeechRecording("set", name, "hello world", language, seconds, "", (path,))


def run_of(group: str, cpu_s: float, texts: dict[str, str]) -> PeerRun:
    return PeerRun(0, PEER.label, group, cpu_s, 100.0, texts)


def test_choose_recordings_takes_short_and_longest_speech() -> None:
    recordings = [recording(number, 3.0 + number) for number in range(100)]
    groups = choose_recordings([*recordings, recording(100, 500.0, "none")])
    assert len(groups["short"]) == 28
    assert len(groups["long"]) == N_LONG
    assert groups["start"] == groups["short"][:1]
    assert max(item.seconds for item in groups["short"]) <= 30.0
    assert [item.seconds for item in groups["long"]] == [102.0, 101.0, 100.0, 99.0]
    many = [recording(number, 3.0) for number in range(100)]
    assert len(choose_recordings(many)["short"]) == N_SHORT


def test_write_manifest_has_paths_and_keys(tmp_path: Path) -> None:
    write_manifest(tmp_path / "list.jsonl", [recording(7, 3.0)])
    (line,) = (tmp_path / "list.jsonl").read_text().splitlines()
    assert json.loads(line) == {"audio": "/007.flac", "id": "set/007"}


def test_read_texts_takes_parts_and_files(tmp_path: Path) -> None:
    parts = tmp_path / "job" / "transcripts"
    parts.mkdir(parents=True)
    (parts / "part-00000.jsonl").write_text('{"id": "a", "text": "one"}\n')
    (parts / "part-00001.jsonl").write_text('{"id": "b", "text": "two"}\n')
    (tmp_path / "file").write_text('{"id": "a", "text": "one"}\n')
    assert read_texts(tmp_path / "job") == {"a": "one", "b": "two"}
    assert read_texts(tmp_path / "file") == {"a": "one"}


def test_run_counted_includes_children(tmp_path: Path) -> None:
    work = "sum(range(3_000_000))"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    alone = run_counted([sys.executable, "-c", "pass"], tmp_path / "log")
    usage = run_counted([sys.executable, "-c", nested], tmp_path / "log")
    assert usage.ru_utime > alone.ru_utime


def test_run_counted_raises_if_the_program_fails(tmp_path: Path) -> None:
    with pytest.raises(WhisperHailoError):
        run_counted([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")


def test_summarise_peer_takes_the_start_off() -> None:
    first = recording(0, 6.0)
    short = [first, recording(1, 54.0)]
    long = [recording(2, 60.0)]
    texts = {item.key: "hello world" for item in short}
    runs = [
        run_of("start", 4.0, {first.key: "hello world"}),
        run_of("short", 6.0, texts),
        run_of("long", 13.0, {long[0].key: "hello there"}),
    ]
    groups = {"start": [first], "short": short, "long": long}
    summary = summarise_peer(PEER, runs, groups)  # type: ignore[arg-type]
    assert summary["start_s"] == 2.0
    assert summary["short"]["cpu_s_per_minute"] == pytest.approx(4.0)
    assert summary["long"]["cpu_s_per_minute"] == pytest.approx(11.0)
    assert summary["short"]["error_rate"] == 0.0
    assert summary["long"]["error_rate"] == 0.5
    table = make_tables({"about": "A machine.", "systems": [summary]})["archive-peers"]
    assert "| peer | 4.0 | 0.0 % | 11.0 | 50.0 % | 2.0 |" in table
