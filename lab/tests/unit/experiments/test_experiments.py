"""A job in simulated time ends when its narrowest place is through."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.types import Segment, Settings, Timings, Transcript, Word
from whisper_hailo_lab.data.clips import SpokenClip, spoken_clips
from whisper_hailo_lab.documents.windows import CASES, SETS, tables
from whisper_hailo_lab.documents.windows import RESULT as WINDOWS_RESULT
from whisper_hailo_lab.experiments.archive_scale import (
    Archive,
    ArchiveCosts,
    Cluster,
    Ran,
    simulate,
)
from whisper_hailo_lab.experiments.archives import cpu_s, peaks_mib
from whisper_hailo_lab.experiments.backend_matrix import RESULT, pairs
from whisper_hailo_lab.experiments.bench import RIVALS, machine_plan, only
from whisper_hailo_lab.experiments.fallback import RESULT as FALLBACK_RESULT
from whisper_hailo_lab.experiments.fallback import SPOKEN, music, noise
from whisper_hailo_lab.experiments.windows import start_errors

COSTS = ArchiveCosts(0.0, 0.0, 10.0, 1e6, 300.0, 5e3, 1e4)
ARCHIVE = Archive(2000.0)
CLUSTER = Cluster(10, 10.0, node_bytes_s=1e12, storage_bytes_s=1e12, days_up=1e9)


def ran(costs: ArchiveCosts = COSTS, cluster: Cluster = CLUSTER, archive: Archive = ARCHIVE) -> Ran:
    return simulate(archive, cluster, costs, seed=1)


def test_workers_that_never_wait_take_the_ideal_time() -> None:
    found = ran()
    assert found.n_tasks == 2000 * 12
    assert found.ideal_s == pytest.approx(2000 * 3600 / (40 * 10.0))
    assert found.seconds == pytest.approx(found.ideal_s, rel=0.01)
    assert found.busy["workers"] == pytest.approx(1, rel=0.01)
    assert found.again == 0


@pytest.mark.parametrize(
    ("place", "costs", "cluster"),
    [
        ("driver", replace(COSTS, dispatch_s=1.5, note_s=0.5), CLUSTER),
        ("readers", replace(COSTS, reading=150 / CLUSTER.n_readers), CLUSTER),
        ("storage", COSTS, replace(CLUSTER, storage_bytes_s=8000 * 3600 * 2000 / 48_000)),
    ],
)
def test_the_narrowest_place_decides(place: str, costs: ArchiveCosts, cluster: Cluster) -> None:
    found = ran(costs, cluster)
    assert found.seconds == pytest.approx(48_000, rel=0.03)
    assert found.busy[place] == pytest.approx(1, rel=0.03)
    assert max(found.busy, key=lambda name: found.busy[name]) == place


def test_what_a_dead_node_was_at_is_done_again() -> None:
    found = ran(cluster=replace(CLUSTER, days_up=0.1))
    assert found.again == pytest.approx(found.n_tasks * 30 / 8640, rel=0.3)
    assert found.seconds > ran().seconds
    assert found.n_tasks == ran().n_tasks
    assert found == ran(cluster=replace(CLUSTER, days_up=0.1))


def test_memory_and_restart_follow_recordings_and_tasks() -> None:
    slow = replace(CLUSTER, node_bytes_s=1e6)
    one, more = (ran(cluster=slow, archive=replace(ARCHIVE, item_s=s)) for s in (3600.0, 36.0))
    assert (one.driver_bytes, more.driver_bytes) == (2000 * 300, 200_000 * 300)
    assert (one.ledger_bytes, more.ledger_bytes) == (24_000 * 5e3, 200_000 * 5e3)
    assert one.restart_s == pytest.approx(120, rel=0.01)
    assert more.restart_s == pytest.approx(1000, rel=0.01)


def test_every_pair_was_run() -> None:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert [(cell["encoder"], cell["decoder"]) for cell in result["cells"]] == list(pairs())
    for cell in result["cells"]:
        too_long = "30 s" in cell["encoder"] and "10 s" in cell["decoder"]
        assert too_long == ("refused" in cell)
        if not too_long:
            assert cell["words"] > 100
            assert min(cell[f"{part}_ms"] for part in ("encoder", "decoder", "total")) > 0
            assert min(cell["load_mib"], cell["warm_mib"], cell["peak_mib"]) > 0
            assert cell["text_of_real_recording"]


def test_the_kept_result_has_every_set() -> None:
    result = json.loads(FALLBACK_RESULT.read_text(encoding="utf-8"))
    assert {row["set"] for row in result["rows"]} >= {*SPOKEN, "silence"}


def test_noise_falls_off_with_its_colour() -> None:
    for colour, low, high in ((0.0, 0.5, 2.0), (1.0, 5.0, 20.0), (2.0, 50.0, 200.0)):
        power = np.abs(np.fft.rfft(noise(8.0, colour))) ** 2
        ratio = power[4_000:4_400].mean() / power[40_000:44_000].mean()
        assert low < ratio < high


def test_music_is_loud_and_has_a_beat() -> None:
    samples = music(4.0)
    assert samples.shape == (64_000,)
    assert 0.3 < np.abs(samples).max() <= 1.0
    beats = samples.reshape(8, 8_000)
    assert np.all((beats[:, :2_000] ** 2).mean(1) > 2 * (beats[:, 2_000:4_000] ** 2).mean(1))


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
    with pytest.raises(OptionError, match="ours, study"):
        only(PLAN, ["ours"], ["study"])


def transcript(*words: tuple[str, float]) -> Transcript:
    heard = tuple(Word(start, start + 0.1, f" {text}", 0.9) for text, start in words)
    segment = Segment(0.0, 1.0, "", (), -0.1, 0.0, words=heard)
    settings = Settings("m", "e", "d", 10, 1, 0, 1.0, 0.0, "none", 1)
    return Transcript("a.wav", 1.0, "en", "transcribe", (segment,), Timings(), settings)


def test_starts_are_compared_where_the_word_was_heard_as_said() -> None:
    said = (("Good", 0.1, 0.4), ("morning,", 0.4, 0.9), ("Vienna!", 1.0, 1.5))
    clip = SpokenClip("x", Path("x"), "en", "Good morning, Vienna!", said)
    heard = transcript(("good", 0.15), ("mourning", 0.4), ("so", 0.8), ("Vienna", 0.9))
    assert start_errors(clip, heard) == pytest.approx([0.05, -0.1])
    assert start_errors(clip, transcript()) == []


def test_the_table_gives_rates_of_words_not_of_clips() -> None:
    counts = {"10 s": [[1, 0, 0, 9], [0, 0, 0, 30]], "30 s": [[1, 0, 0, 9], [1, 1, 1, 28]]}
    rows = [
        {"case": case, "set": "seen", "counts": found, "start_errors_s": [0.05, -0.15, 0.3]}
        for case, found in counts.items()
    ]
    text = tables({"machine": "m", "limit": 2, "rows": rows}, "")["windows"]
    assert "| seen | 2 | 40 | 2.5 % | 10.0 % | - | -7.5 (" in text
    assert "| seen | 10 s | 3 | 0.15 | +0.07 | 33 % | 67 % |" in text


def test_the_kept_result_has_long_audio_in_every_case() -> None:
    result = json.loads(WINDOWS_RESULT.read_text(encoding="utf-8"))
    seen = {(row["case"], row["set"]) for row in result["rows"]}
    assert {(case.name, "long") for case in CASES} <= seen


def test_every_clip_of_the_manifest_has_times_that_rise() -> None:
    for name in SETS:
        for clip in spoken_clips(name):
            starts = [start_s for _, start_s, _ in clip.words]
            assert clip.path.is_file()
            assert starts == sorted(starts)
            assert starts


TAKEN_MIB = 40


def hold(pipe: Connection) -> None:
    taken = b"x" * (TAKEN_MIB << 20)
    pipe.send(len(taken))
    pipe.recv()


@pytest.mark.slow
def test_a_worker_is_told_with_what_it_took() -> None:
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    worker = context.Process(target=hold, args=(theirs,), daemon=True)
    worker.start()
    pipe.recv()
    peaks = peaks_mib(os.getpid())
    worker.kill()
    worker.join()
    assert worker.pid is not None
    assert TAKEN_MIB < peaks[worker.pid] < 1000
    assert os.getpid() not in peaks


def test_command_without_workers_counts_itself() -> None:
    words = [sys.executable, "-c", "input(print('here', flush=True))"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as alone:
        assert alone.stdout is not None
        assert alone.stdout.readline() == b"here\n"
        (found,) = peaks_mib(alone.pid).items()
        assert found[0] == alone.pid
        assert 1 < found[1] < 200
        alone.communicate(b"\n")
    assert peaks_mib(alone.pid) == {}


@pytest.mark.slow
def test_the_processor_s_time_of_a_command_is_told() -> None:
    words = [sys.executable, "-c", "sum(range(20_000_000)); input(print('here', flush=True))"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        assert busy.stdout.readline() == b"here\n"
        (taken,) = cpu_s(busy.pid).items()
        busy.communicate(b"\n")
    assert taken[0] == busy.pid
    assert 0.01 < taken[1] < 60
    (gone,) = cpu_s(busy.pid).values()
    assert gone == 0
