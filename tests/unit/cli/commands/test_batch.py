"""The `batch` command, with stand-ins for its workers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.fakes.batch_command import Works, batch, works
from tests.fakes.commands import missing_data
from whisper_hailo.batch import run as run_module
from whisper_hailo.cli import progress
from whisper_hailo.cli.app import run
from whisper_hailo.cli.commands import batch as module
from whisper_hailo.core.errors import ExitCode, OptionError
from whisper_hailo.speakers.attribution import SpeakerAttribution
from whisper_hailo.speakers.finder import SpeakerFinder
from whisper_hailo.speakers.turns import SpeakerTurns
from whisper_hailo.transcription.pipeline import USUAL_BATCH

__all__ = ["works"]


def texts() -> list[str]:
    lines = (
        Path("job/transcripts/part-00000.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return [json.loads(line).get("text") for line in lines]


def test_batch_transcribes_folder_and_reports(
    works: Works, capsys: pytest.CaptureFixture[str]
) -> None:
    works.model.reasons = ("encoder a: why",)
    assert batch() == 0
    output = capsys.readouterr()
    assert output.out == ""
    first, last = output.err.splitlines()
    assert first == "encoder a"
    assert not missing_data(last, "3 0 1:30")
    assert "failures" not in last
    assert texts() == ["said", "said", "said"]
    assert works.items == ["a.wav", "b.wav", "c.wav"]
    assert batch() == 0
    assert "nothing left to do" in capsys.readouterr().err


def test_batch_failed_item_is_reported_and_listed(
    works: Works, capsys: pytest.CaptureFixture[str]
) -> None:
    works.failing = {"b.wav": "audio"}
    assert batch() == ExitCode.AUDIO
    line = capsys.readouterr().err.splitlines()[-1]
    assert not missing_data(line, "3 1 1:00 job/failures")
    assert batch("--json") == 0, "as JSON the state is the result"
    facts = json.loads(capsys.readouterr().out)
    assert (facts["items"], facts["done"], facts["failed"], facts["remaining"]) == (
        3,
        2,
        1,
        0,
    )
    assert facts["failures"] == {"audio": 1}
    assert works.items == ["a.wav", "b.wav", "c.wav"], "what is done is not done again"


def test_batch_accepts_several_folders_and_files(works: Works) -> None:
    for name in ("more/a.wav", "more/d.wav", "e.wav"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("some sound")
    assert batch() == 0
    assert run(["batch", "talks", "more", "e.wav", "-o", "job", "-f", "srt"]) == 0
    assert works.items == ["a.wav", "b.wav", "c.wav", "a.wav", "d.wav", "e.wav"]
    names = {
        path.relative_to("job/srt").as_posix()
        for path in Path("job/srt").rglob("*.srt")
    }
    ids = ("a", "b", "c", "more/a", "d", "e")
    assert names == {f"{item}.srt" for item in ids}


def test_batch_options_reach_the_workers(works: Works) -> None:
    words = "--task translate --language de --long overlap --batch-size 3 --model base --window 9"
    assert (
        batch(
            f"{words} --fallback 0.5 --format srt --format txt --max-words-per-line 1"
        )
        == 0
    )
    ((setup, n_workers),) = works.asked
    assert n_workers == 5
    assert (setup.options.task, setup.options.language) == ("translate", "de")
    assert setup.options.search.temperatures == (0.0, 0.5, 1.0)
    assert not setup.options.timestamps, "the text is that of any format"
    assert (setup.long.strategy, setup.batch_size) == ("overlap", 3)
    assert (setup.model["model"], setup.model["window_s"], setup.model["threads"]) == (
        "base",
        9,
        1,
    )
    assert works.models[0].threads == 1
    untimed = replace(setup.options, word_timestamps=False)
    assert works.model.asked_of == [(untimed, setup.long, 3)]
    assert {path.parent.name for path in Path("job").glob("*/a.*")} == {
        "srt",
        "txt",
    }
    assert (
        json.loads(
            Path("job/transcripts/part-00000.jsonl").read_text().splitlines()[0]
        )["task"]
        == "translate"
    )


def test_batch_speakers_turn_word_times_on(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_turns = SpeakerTurns((), np.empty((0, 192), np.float32))
    monkeypatch.setattr(SpeakerFinder, "load", lambda _: None)
    monkeypatch.setattr(
        run_module, "_find_speakers", lambda *_: SpeakerAttribution(no_turns)
    )
    assert batch("--speakers 2") == 0
    ((setup, _),) = works.asked
    assert setup.options.word_timestamps


@pytest.mark.parametrize("words", ["", "--format srt", "--format srt --cues segments"])
def test_batch_times_segments_by_words_in_any_format(works: Works, words: str) -> None:
    """JSON has no words unless they are asked for, and the job is the same in any format."""
    assert batch(words) == 0
    ((setup, _),) = works.asked
    assert setup.options.word_timestamps
    (identified,) = works.model.asked_of
    assert not identified[0].word_timestamps


def test_batch_without_options_uses_defaults(works: Works) -> None:
    assert batch() == 0
    ((setup, _),) = works.asked
    assert setup.batch_size == USUAL_BATCH
    assert not setup.options.timestamps
    assert setup.options.search.temperatures == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert {path.name for path in Path("job").iterdir() if path.is_dir()} >= {
        "transcripts"
    }
    assert not list(Path("job").glob("*/a.*"))


@pytest.mark.parametrize(
    ("words", "encoder", "expected"),
    [
        ("", "onnx-int8", 5), ("", "hef-hailo8", 1), ("--workers 3", "onnx-int8", 3),
        ("--workers 3", "hef-hailo8", 3), ("--workers 4096", "onnx-int8", 4096),
    ],
)  # fmt: skip
def test_batch_workers_default_to_cores_or_one_for_chip(
    works: Works, words: str, encoder: str, expected: int
) -> None:
    works.model.encoder = SimpleNamespace(name=encoder)
    assert batch(words) == 0
    assert [n_workers for _, n_workers in works.asked] == [expected]


def test_batch_threads_option_reaches_workers(works: Works) -> None:
    assert batch("--threads 3") == 0
    assert works.asked[0][0].model["threads"] == 3


@pytest.mark.parametrize(
    ("words", "given"),
    [("", (None, None)), ("--address head:6379 --workers 7", ("head:6379", 7))],
)
def test_batch_engine_ray_passes_address_and_workers(
    works: Works, words: str, given: tuple[object, ...]
) -> None:
    assert batch(f"--engine ray {words}") == 0
    assert works.asked == []
    ((setup, *rest),) = works.rayed
    assert tuple(rest) == given
    assert setup.batch_size == USUAL_BATCH
    assert texts() == ["said", "said", "said"]


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("batch", "MANIFEST|FOLDER|FILE"),
        ("batch talks", "--output-dir"),
        ("batch status job more", "--output-dir"),
        ("batch status", "--output-dir"),
        ("batch talks -o job --workers 0", "--workers 0 1 4096"),
        ("batch talks -o job --workers 4097", "--workers 4097 4096"),
        ("batch talks -o job --batch-size 0", "--batch-size 0"),
        ("batch talks -o job --shard 4/3", "--shard 4/3"),
        (
            "batch talks -o job --watch --shard 1/2",
            "--watch --shard",
        ),
        ("batch talks -o job --part-items 0", "--part-items 0 1"),
        (
            "batch talks -o job --engine dask",
            "--engine dask local ray",
        ),
        ("batch talks -o job --address a:1", "--address '--engine ray'"),
        ("batch talks -o job --format doc", "--format doc"),
        ("batch talks -o job --model tiny.en -l de", "tiny.en"),
        (
            "batch talks -o job --highlight-words",
            "--highlight-words --word-timestamps",
        ),
    ],
)
def test_batch_wrong_option_is_refused_before_loading(
    works: Works, words: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert not missing_data(capsys.readouterr().err, data)
    assert works.models == []
    assert not Path("job").exists()


def test_batch_refusal_of_model_creates_no_job(
    works: Works, capsys: pytest.CaptureFixture[str]
) -> None:
    works.model.refusal = OptionError("this model cannot")
    assert batch() == 2
    assert "this model cannot" in capsys.readouterr().err
    assert not Path("job").exists()


@pytest.mark.parametrize(
    ("words", "needed"),
    [("", []), ("--engine ray", [("cluster", "--engine ray", "ray")])],
)
def test_batch_missing_extra_is_refused_before_loading(
    works: Works,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    needed: list[tuple[str, ...]],
) -> None:
    required: list[tuple[str, ...]] = []

    def require(*given: str) -> None:
        assert works.models == []
        required.append(given)
        raise OptionError("it is not installed")

    monkeypatch.setattr(module, "require_extra", require)
    assert batch(words) == (2 if needed else 0)
    assert required == needed


def test_batch_output_dir_expands_tilde(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like `transcribe`: shells leave the `~` behind a `=`."""
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert run(["batch", "talks", "--output-dir=~/job"]) == 0
    assert texts() == ["said", "said", "said"]
    assert run(["batch", "status", "~/job"]) == 0
    assert len(works.asked) == 1


def test_batch_status_prints_progress(
    works: Works, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it is done, too, while it is interrupted."""
    from whisper_hailo.batch.status import Status

    del works
    unfinished = Status(
        10, 6, 1, 3725.0, 298.0, 12.34, 75.0, {"audio": 1}, {"truncated": 2}
    )
    for status, data in (
        (unfinished, "6 10 1 3 1:02:05 12.3 1:15 288 audio 2"),
        (Status(3, 3, left_s=0.0), "3 0 0:00 0.0"),
        (Status(3, 1), "1 3 0 2 0:00 0.0"),
        (Status(3, 3, left_s=9.0), "3 0 0:00 0.0"),
    ):
        monkeypatch.setattr(
            "whisper_hailo.batch.status.read_status", lambda _, s=status: s
        )
        assert run(["batch", "status", "job"]) == 0
        output = capsys.readouterr().out
        assert not missing_data(output, data)
        assert "0:09" not in output, "a finished job has no rest"
    assert run(["batch", "status", "job", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["items"], facts["remaining"], facts["left_s"]) == (3, 0, 9.0)


def test_status_writes_metrics(works: Works) -> None:
    del works
    assert batch() == 0
    assert run(["batch", "status", "job", "--metrics", "out/job.prom"]) == 0
    lines = Path("out/job.prom").read_text(encoding="utf-8").splitlines()
    assert 'whisper_hailo_batch_done{job="job"} 3' in lines


def test_batch_status_without_job_is_refused(
    works: Works, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["batch", "status", "talks"]) == 2
    assert "talks" in capsys.readouterr().err
    assert works.models == []


def test_batch_progress_line_appears_every_15_s(
    works: Works, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording takes 10 s."""
    for at in range(17):
        Path("talks", f"m{at}.wav").write_text("some sound")
    now = [1000.0]

    def advance() -> None:
        now[0] += 10.0

    works.between = advance
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr("whisper_hailo.batch.run.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "is_terminal", lambda: False)
    assert batch() == 0
    lines = capsys.readouterr().err.splitlines()[:-1]
    assert len(lines) == 9, "each 15 s at most, and a recording takes 10 s"
    assert lines[0].startswith("3 of 20 items, ")
    assert lines[0].endswith(" left")
    assert lines[-1].startswith("19 of 20 items, ")


def test_batch_progress_line_on_terminal_is_erased(
    works: Works, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]

    def advance() -> None:
        now[0] += 10.0

    works.between = advance
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert batch() == 0
    *lines, last = capsys.readouterr().err.split("\r\x1b[K")
    assert len(lines) == 3
    assert lines[-1].startswith("3 of 3 items, ")
    assert last.startswith("3 items in job")
