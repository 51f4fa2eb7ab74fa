"""A small model that decodes ahead: the same output, on the CPU and beside a chip."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, ROOT, Command, one_line
from tests.packed import write_packed_checkpoint
from tests.shared import made_once
from tests.standin import with_chip
from tests.standin.make_hef import encoder_network, hef

GERMAN = ROOT / "tests/data/micro/german/german-000.ogg"
AHEAD = {"WHISPER_HAILO_TRANSCRIBE_DRAFT_TOKENS": "4"}


@pytest.fixture(scope="module")
def nano(shared: Path) -> Path:
    """The bundled model's smaller sibling."""
    return made_once(shared / "nano", lambda out: write_packed_checkpoint("nano", out))


@pytest.mark.parametrize("recording", [DEMO, GERMAN])
@pytest.mark.parametrize(
    "words",
    [(), ("--timestamps",), ("--quantize", "int4"), ("--quantize", "none", "--word-timestamps")],
)
def test_the_output_is_that_of_the_model_alone(
    whisper_hailo: Command, nano: Path, words: tuple[str, ...], recording: Path
) -> None:
    asked = ("transcribe", "-m", "micro", recording, "--format", "srt", *words)
    plain = whisper_hailo(*asked, "--batch-size", "1")
    helped = whisper_hailo(*asked, "--draft-model", nano, "--batch-size", "1", env=AHEAD)
    assert helped.returncode == 0, helped.stderr
    assert helped.stdout == plain.stdout
    assert "draft model nano, cached-int4" in helped.stderr


def test_what_promises_nothing_is_left_out_and_user_hears_of_it(whisper_hailo: Command) -> None:
    plain = whisper_hailo("transcribe", "-m", "micro", DEMO)
    helped = whisper_hailo("transcribe", "-m", "micro", "--draft-model", "micro", DEMO)
    assert helped.returncode == 0, helped.stderr
    assert helped.stdout == plain.stdout
    assert "draft model micro is left out, since ahead of micro with int8 weights" in helped.stderr


def test_another_vocabulary_is_refused_before_anything_is_loaded(
    whisper_hailo: Command, nano: Path, tmp_path: Path
) -> None:
    english = tmp_path / "english"
    converted = whisper_hailo("convert", nano, english)
    assert converted.returncode == 0, converted.stderr
    told = json.loads((english / "model.json").read_text())
    told["dims"]["n_vocab"] += 1
    (english / "model.json").write_text(json.dumps(told))
    result = whisper_hailo("transcribe", "-m", "micro", "--draft-model", english, DEMO)
    assert result.returncode == 2
    assert "with 51866 tokens, micro has 51865" in one_line(result)


def test_options_without_effect_are_refused(whisper_hailo: Command) -> None:
    result = whisper_hailo("transcribe", "-m", "micro", DEMO, env=AHEAD)
    assert result.returncode == 2
    assert one_line(result).endswith("draft-tokens is 4, but there is no --draft-model; give one")


def _with_hef(model: Path, out: Path) -> Path:
    """A copy of a model directory that lists a HEF of its encoder."""
    shutil.copytree(model, out)
    (out / "hailo/hailo8l").mkdir()
    network = encoder_network(model, f"{out.name}-encoder-10s")
    (out / "hailo/hailo8l/e.hef").write_bytes(hef("hailo8l", [network]))
    told = json.loads((out / "model.json").read_text())
    record = {"part": "encoder", "arch": "hailo8l", "file": "hailo/hailo8l/e.hef", "bytes": 1}
    hashes = ("sha256", "graph_sha256", "script_sha256", "calibration_sha256", "compiler_version")
    told["hefs"] = [{**record, **dict.fromkeys(hashes, "x")}]
    (out / "model.json").write_text(json.dumps(told))
    return out


@pytest.fixture(scope="module")
def pairs(
    whisper_hailo: Command, micro_hailo: Path, nano: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Path]]:
    """Model directories without and with a HEF."""
    folder = tmp_path_factory.mktemp("pairs")
    small = folder / "plain"
    result = whisper_hailo("convert", nano, small, "--hailo")
    assert result.returncode == 0, result.stderr
    return {
        "micro": (micro_hailo, _with_hef(micro_hailo, folder / "micro")),
        "nano": (small, _with_hef(small, folder / "nano")),
    }


@pytest.mark.parametrize(("large_hef", "small_hef"), [*product((False, True), repeat=2)])
def test_the_encoders_run_where_their_hefs_are(
    *,
    whisper_hailo: Command,
    pairs: dict[str, tuple[Path, Path]],
    tmp_path: Path,
    large_hef: bool,
    small_hef: bool,
) -> None:
    model, draft_model = pairs["micro"][large_hef], pairs["nano"][small_hef]
    machine = tmp_path / "machine"
    env = with_chip(machine, AHEAD)
    asked = ("transcribe", "-v", "-m", model, DEMO, "--batch-size", "1", "--window", "10")
    plain = whisper_hailo(*asked, env=with_chip(tmp_path / "other", {}))
    helped = whisper_hailo(*asked, "--draft-model", draft_model, env=env)
    assert helped.returncode == 0, helped.stderr
    assert helped.stdout == plain.stdout
    heard = {True: "encoder hef-hailo8l", False: "encoder onnx"}
    assert heard[large_hef] in helped.stderr
    assert f"hears through {heard[small_hef]}" in helped.stderr
    assert not (machine / "violations.log").exists()
    runs = machine / "runs.log"
    lines = runs.read_text().splitlines() if runs.exists() else []
    networks = {json.loads(line)["network"] for line in lines}
    assert len(networks) == large_hef + small_hef
