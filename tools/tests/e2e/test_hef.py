"""From the bundled model to a HEF: the real commands, the compiler a stand-in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import DEMO, Command, one_line
from tests.standin import with_chip, with_compiler
from whisper_hailo_lab.clip_archives import unpack_clips

SPEECH = unpack_clips()
STEMS = {"encoder": "micro_encoder_10s", "decoder": "micro_decoder_10s_32"}


@pytest.fixture(scope="module")
def model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("hef") / "micro")


@pytest.fixture(scope="module")
def sets(
    whisper_hailo: Command, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("sets")
    archives = {}
    for part in STEMS:
        words = (
            "--audio",
            SPEECH,
            "--out",
            out,
            "--part",
            part,
            "--count",
            6,
            "--json",
        )
        result = whisper_hailo("calibrate", model, *words)
        assert result.returncode == 0, result.stderr
        facts = json.loads(result.stdout)
        assert facts["n_windows"] == 6
        assert facts["skipped"] == {}
        archives[part] = Path(facts["path"])
    return archives


def _compile(model: Path, sets: dict[str, Path], part: str) -> list[object]:
    return [
        "compile",
        model,
        "--arch",
        "hailo8l",
        "--part",
        part,
        "--calibration",
        sets[part],
    ]


def test_calibrate_sets_have_the_chips_shapes(sets: dict[str, Path]) -> None:
    assert np.load(sets["encoder"]).shape == (6, 1, 1000, 80)
    with np.load(sets["decoder"]) as archive:
        shapes = {key: archive[key].shape for key in archive}
    assert shapes == {
        "micro_decoder_10s_32/input_layer1": (6, 1, 500, 128),
        "micro_decoder_10s_32/input_layer2": (6, 32, 1, 128),
    }


@pytest.mark.parametrize("part", STEMS)
def test_compile_of_both_parts_makes_hefs(
    whisper_hailo: Command,
    model: Path,
    sets: dict[str, Path],
    part: str,
    tmp_path: Path,
) -> None:
    own_model = shutil.copytree(model, tmp_path / "micro")
    words = _compile(own_model, sets, part)
    failed = whisper_hailo(*words, env=with_compiler({}, fail="compile:raise"))
    assert failed.returncode == 4
    assert "compile" in one_line(failed)
    result = whisper_hailo(*words, "--json", env=with_compiler({}))
    assert result.returncode == 0, result.stderr
    assert "optimize: already done, kept" in result.stderr
    facts = json.loads(result.stdout)
    assert facts["file"] == f"hailo/hailo8l/{STEMS[part]}.hef"
    assert facts["snr_db"]["output_layer1"] == 21.5
    assert (own_model / facts["file"]).stat().st_size == facts["bytes"]
    assert facts["file"] in whisper_hailo("inspect", own_model).stdout


def test_compiled_hefs_are_inspected_and_run(
    whisper_hailo: Command, model: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    """From the checkpoint to text: convert, calibrate, compile, inspect, transcribe."""
    own_model = tmp_path / "micro"
    shutil.copytree(model, own_model)
    plain = whisper_hailo("transcribe", "--model", own_model, DEMO)
    fixed = whisper_hailo(
        "transcribe", "--model", own_model, "--decoder-backend", "fixed", DEMO
    )
    for part in STEMS:
        result = whisper_hailo(*_compile(own_model, sets, part), env=with_compiler({}))
        assert result.returncode == 0, result.stderr
    encoder, decoder = (
        own_model / f"hailo/hailo8l/{STEMS[part]}.hef" for part in STEMS
    )
    facts = json.loads(whisper_hailo("inspect", encoder).stdout)
    assert facts["compiled_for"] == "hailo8l"
    assert facts["runs_on"] == ["hailo8", "hailo8l"]
    (network,) = facts["networks"].values()
    assert network["part"] == "encoder"
    assert network["window_s"] == 10
    assert network["d_model"] == 128
    (network,) = json.loads(whisper_hailo("inspect", decoder).stdout)[
        "networks"
    ].values()
    assert network["part"] == "decoder"
    assert network["positions"] == 500
    assert network["length"] == 32
    assert "the host adds the position rows" in network["contract"]
    env = with_chip(tmp_path / "chip", {})
    named = whisper_hailo(
        "transcribe", "--model", own_model, "--encoder", encoder, DEMO, env=env
    )
    assert named.returncode == 0, named.stderr
    auto = whisper_hailo("transcribe", "-v", "--model", own_model, DEMO, env=env)
    assert "encoder hef-hailo8l: on hailo8l" in auto.stderr
    assert named.stdout == auto.stdout == plain.stdout
    both = whisper_hailo(
        "transcribe", "--model", own_model, "--decoder-backend", "hailo", DEMO, env=env
    )
    assert "decoder hef-hailo8l" in both.stderr
    assert both.stdout == fixed.stdout
    short = whisper_hailo(
        "transcribe", "-v", "--model", own_model, "--window", "5", DEMO, env=env
    )
    assert short.returncode == 0, short.stderr
    assert (
        f"on the CPU, hailo8l 0000:01:00.0, but {encoder.name} takes 10 s"
        in short.stderr
    )
    window_options = ("--window", "5", "--encoder-backend", "hailo")
    refused = whisper_hailo(
        "transcribe", "--model", own_model, *window_options, DEMO, env=env
    )
    assert refused.returncode == 2
    assert "--window is 5 s" in one_line(refused)
    assert not (tmp_path / "chip" / "violations.log").exists()


def test_compile_without_compiler_says_what_helps(
    whisper_hailo: Command, model: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    words = _compile(model, sets, "encoder")
    result = whisper_hailo(*words, "--out", tmp_path / "out")
    assert result.returncode == 6
    assert "--bundle OUT.zip" in one_line(result)
    packed = whisper_hailo(*words, "--bundle", tmp_path / "b.zip")
    assert packed.returncode == 0, packed.stderr
    assert "unzip b.zip -d build && python3 build/build.py" in packed.stdout
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "build")
    command = [sys.executable, str(tmp_path / "build" / "build.py")]
    env = with_compiler()
    built = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "build" / "out" / "micro_encoder_10s.hef").is_file()


def test_convert_again_keeps_hefs(
    whisper_hailo: Command, model: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    own_model = shutil.copytree(model, tmp_path / "micro")
    whisper_hailo(*_compile(own_model, sets, "encoder"), env=with_compiler({}))
    result = whisper_hailo("convert", "micro", own_model, "--hailo")
    assert result.returncode == 7
    assert "which no conversion wrote" in one_line(result)


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (
            ["compile", "M", "--arch", "hailo8", "--part", "encoder"],
            2,
            "whisper-hailo calibrate",
        ),
        (
            ["compile", "M", "--arch", "x", "--part", "encoder", "--calibration", "f"],
            2,
            "--arch",
        ),
        (["calibrate", "M", "--audio", "none", "--out", "o"], 3, "is not a folder"),
        (
            ["calibrate", "M", "--audio", ".", "--out", "o", "--count", "0"],
            2,
            "--count is 0",
        ),
        (
            ["calibrate", "none", "--audio", ".", "--out", "o"],
            4,
            "whisper-hailo convert",
        ),
    ],
)
def test_bad_input_is_one_line(
    *,
    whisper_hailo: Command,
    model: Path,
    tmp_path: Path,
    words: list[str],
    code: int,
    expected: str,
) -> None:
    named = [str(model) if word == "M" else word for word in words]
    result = whisper_hailo(*named, cwd=tmp_path)
    assert result.returncode == code
    assert expected in one_line(result)
