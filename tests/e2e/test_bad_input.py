"""Bad input: one clear line, the documented exit code, nothing half-written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.e2e.conftest import ASSETS, DEMO, DEMO_TEXT, Command, one_line

MICRO = ASSETS / "micro"


def wav(path: Path, samples: np.ndarray, rate_hz: int = 16_000, subtype: str = "PCM_16") -> Path:
    sf.write(path, samples, rate_hz, subtype=subtype)
    return path


def bad_audio(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("RIFF of a different kind\n", encoding="utf-8")
    elif kind == "header":
        path.write_bytes(wav(path, np.zeros(100)).read_bytes()[:20])
    elif kind == "nothing":
        wav(path, np.zeros(0))
    elif kind == "nan":
        wav(path, np.full(16_000, np.nan), subtype="FLOAT")
    elif kind == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "header", "nothing", "nan", "folder"])
def test_unusable_audio(whisper_hailo: Command, tmp_path: Path, kind: str) -> None:
    path = bad_audio(tmp_path, kind)
    result = whisper_hailo("transcribe", "--model", "micro", path)
    assert result.returncode == 3
    assert path.name in one_line(result)
    assert not result.stdout


@pytest.mark.parametrize("n_samples", [1, 100, 16_000])
def test_silence_of_any_length_gives_no_text(
    whisper_hailo: Command, tmp_path: Path, n_samples: int
) -> None:
    path = wav(tmp_path / "quiet.wav", np.zeros(n_samples))
    result = whisper_hailo("transcribe", "--model", "micro", path)
    assert result.returncode == 0, result.stderr
    assert not result.stdout.strip()
    assert "no speech in" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--window", "0"], "--window is 0 s"),
        (["--window", "31"], "takes 0.02 s to 30 s"),
        (["--window", "1e-9"], "takes 0.02 s to 30 s"),
        (["--margin-s", "10"], "--margin-s is 10 s"),
        (["--pad-to", "1501"], "trained on 1500 positions"),
        (["--repetition-penalty", "0.5"], "expected 1.0 (off) or more"),
        (["--eot-boost", "-1"], "expected 0.0 (off) or more"),
        (["--preset", "bold"], "expected one of: conservative"),
        (["--language", "xx"], "unknown language 'xx'"),
        (["--task", "sing"], "unknown task 'sing'"),
        (["--quantize", "int2"], "expected one of: none, int8, int4"),
        (["--format", "doc"], "expected one of: txt, json"),
        (["--threads", "-1"], "--threads"),
        (["--threads", "100000"], "--threads"),
        (["--no-such-option"], "No such option"),
    ],
)
def test_impossible_options(whisper_hailo: Command, words: list[str], said: str) -> None:
    result = whisper_hailo("transcribe", "--model", "micro", *words, DEMO)
    assert result.returncode == 2
    assert said in one_line(result)


def test_inputs_that_would_overwrite_each_other(whisper_hailo: Command, tmp_path: Path) -> None:
    twin = tmp_path / "demo.ogg"
    result = whisper_hailo("transcribe", "--model", "micro", "--output-dir", tmp_path, DEMO, twin)
    assert result.returncode == 2
    assert "'demo'" in one_line(result)


def test_a_hub_out_of_reach_names_the_ways_without_it(whisper_hailo: Command) -> None:
    result = whisper_hailo("transcribe", DEMO)
    assert result.returncode == 5
    line = one_line(result)
    assert "openai/whisper-tiny" in line
    assert "--model micro" in line
    assert "local checkpoint" in line


def test_an_output_never_replaces_an_input(whisper_hailo: Command, tmp_path: Path) -> None:
    recording = tmp_path / "recording.txt"  # what is audio is told by its content
    shutil.copy(DEMO, recording)
    before = recording.read_bytes()
    result = whisper_hailo("transcribe", "--model", "micro", "--output-dir", tmp_path, recording)
    assert result.returncode == 2
    assert "would replace the input" in one_line(result)
    assert recording.read_bytes() == before


def test_odd_file_names_and_narrow_terminals(whisper_hailo: Command, tmp_path: Path) -> None:
    names = [os.fsdecode(b"\xff\xfe.flac"), "日本語 ñ.flac", "two\nlines.flac"]
    files = [tmp_path / name for name in names]
    for file in files:
        shutil.copy(DEMO, file)
    for env in ({"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-8"}):
        for words in ([], ["--json"]):
            result = whisper_hailo("transcribe", "--model", "micro", *words, *files, env=env)
            assert result.returncode == 0, result.stderr
            assert result.stdout.count(DEMO_TEXT) == len(files)
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["audio"] for line in printed] == [str(file) for file in files]
    missing = whisper_hailo("transcribe", "--model", "micro", tmp_path / "no\nsuch.wav")
    assert "no such.wav" in one_line(missing)


def test_closed_streams(environment: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = (
        f"{sys.executable} -m whisper_hailo transcribe --model micro --output-dir {out} {DEMO}"
    )
    for closed in (">&-", "2>&-", ">&- 2>&-", "<&-"):
        done = subprocess.run(
            ["sh", "-c", f"{command} {closed}"], env=environment, check=False, timeout=120
        )
        assert done.returncode == 0, closed
        assert (out / "demo.txt").read_text(encoding="utf-8").strip() == DEMO_TEXT
        (out / "demo.txt").unlink()


def test_a_terminated_conversion_leaves_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """SIGTERM at many moments: the directory is there, whole, or not at all."""
    codes = set()
    for tenth in range(2, 14):
        out = tmp_path / "out"
        process = subprocess.Popen(
            [sys.executable, "-m", "whisper_hailo", "convert", "micro", str(out)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(tenth / 10)
        process.terminate()
        codes.add(process.wait(timeout=60))
        left = [entry.name for entry in tmp_path.iterdir()]
        assert left in ([], ["out"])
        if left:
            assert (out / "model.json").is_file()
            shutil.rmtree(out)
    assert codes <= {0, 128 + signal.SIGTERM, -signal.SIGTERM}
    assert codes & {128 + signal.SIGTERM, -signal.SIGTERM}


def test_weights_that_are_no_numbers(whisper_hailo: Command, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(MICRO, checkpoint)
    arrays = load_file(checkpoint / "model.safetensors")
    arrays["model.decoder.layers.0.fc1.weight"][:] = np.nan
    save_file(arrays, checkpoint / "model.safetensors")
    result = whisper_hailo("transcribe", "--model", checkpoint, "--json", DEMO)
    assert result.returncode == 4
    assert "no numbers" in one_line(result)
    assert json.loads(result.stdout)["exit_code"] == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"dims": {"n_encoder_layers": 10**9}},
        {"dims": {"n_decoder_heads": 0}},
        {"dims": {"n_mels": 128}},
        {"tokens": {"sot": "x"}},
        {"tokens": {"no_speech": 10**6}},
        {"tokens": {"languages": {"en": -1}}},
        {"files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}},
    ],
)
def test_a_model_description_that_is_nonsense(
    whisper_hailo: Command, tmp_path: Path, changes: dict[str, dict[str, object]]
) -> None:
    assert whisper_hailo("convert", "micro", tmp_path / "model").returncode == 0
    file = tmp_path / "model" / "model.json"
    spec = json.loads(file.read_text(encoding="utf-8"))
    for key, values in changes.items():
        spec[key].update(values)
    file.write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", tmp_path / "model", DEMO)
    assert result.returncode == 4
    assert one_line(result)


@pytest.mark.parametrize("where", ["../secret.bin", "absolute", "link"])
def test_external_data_outside_the_model_directory_is_not_read(
    whisper_hailo: Command, tmp_path: Path, where: str
) -> None:
    import onnx

    model = tmp_path / "model"
    assert whisper_hailo("convert", "micro", model).returncode == 0
    data = model / "decoder.onnx.data"
    secret = tmp_path / "secret.bin"
    shutil.copy(data, secret)
    if where == "link":
        data.unlink()
        data.symlink_to(secret)
    else:
        location = str(secret) if where == "absolute" else where
        graph = onnx.load(model / "decoder.onnx", load_external_data=False)
        for tensor in graph.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = location
        content = graph.SerializeToString()
        (model / "decoder.onnx").write_bytes(content)
        spec = json.loads((model / "model.json").read_text(encoding="utf-8"))
        spec["files"]["decoder.onnx"]["bytes"] = len(content)
        (model / "model.json").write_text(json.dumps(spec), encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4, result.stdout
    assert "decoder.onnx" in one_line(result)


def broken_checkpoint(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "checkpoint"
    if kind == "no checkpoint":
        path.mkdir()
        (path / "notes.txt").touch()
        return path
    shutil.copytree(MICRO, path)
    weights = path / "model.safetensors"
    if kind == "truncated":
        os.truncate(weights, weights.stat().st_size // 2)
    elif kind == "header":
        weights.write_bytes(b"\xff" * 64)
    elif kind == "pickle":
        weights.rename(path / "pytorch_model.bin")
    elif kind == "no weights":
        weights.unlink()
    elif kind == "bad config":
        (path / "config.json").write_text("{", encoding="utf-8")
    else:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        config.update(
            {"misshapen": {"d_model": 192}, "missing": {"encoder_layers": 5},
             "other": {"model_type": "bert"}}[kind]
        )  # fmt: skip
        (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no checkpoint", "config.json"),
        ("truncated", "model.safetensors"),
        ("header", "model.safetensors"),
        ("pickle", "safetensors"),
        ("no weights", "safetensors"),
        ("bad config", "config.json"),
        ("misshapen", "expected"),
        ("missing", "layers.4"),
        ("other", "bert"),
    ],
)
def test_broken_checkpoints(whisper_hailo: Command, tmp_path: Path, kind: str, said: str) -> None:
    checkpoint, out = broken_checkpoint(tmp_path, kind), tmp_path / "out"
    for words in (["convert", checkpoint, out], ["transcribe", "--model", checkpoint, DEMO]):
        result = whisper_hailo(*words)
        assert result.returncode == 4, result.stderr
        assert said in one_line(result)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["checkpoint"]


def test_a_truncated_graph_in_a_model_directory(whisper_hailo: Command, tmp_path: Path) -> None:
    for name in ("encoder.onnx", "cross_kv.onnx", "decoder.onnx"):
        model = tmp_path / name.partition(".")[0]
        assert whisper_hailo("convert", "micro", model).returncode == 0
        os.truncate(model / name, (model / name).stat().st_size // 2)
        result = whisper_hailo("transcribe", "--model", model, DEMO)
        assert result.returncode == 4
        assert name in one_line(result)
    (model / "model.json").write_text("{}", encoding="utf-8")
    result = whisper_hailo("transcribe", "--model", model, DEMO)
    assert result.returncode == 4
    assert "model.json" in one_line(result)


def test_a_full_disk_behind_standard_output(whisper_hailo: Command) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        result = whisper_hailo(
            "transcribe", "--model", "micro", DEMO, capture_output=False, stdout=full, stderr=-1
        )
    assert result.returncode == 7
    assert "No space left on device" in one_line(result)


def small_files_only() -> None:
    """Writing more than 64 KiB to one file fails, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))


def test_a_full_disk_while_converting_leaves_nothing(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    result = whisper_hailo("convert", "micro", tmp_path / "out", preexec_fn=small_files_only)
    assert result.returncode == 7
    assert "File too large" in one_line(result)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written(whisper_hailo: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"WHISPER_HAILO_CACHE": str(tmp_path / "file" / "cache")}
    result = whisper_hailo("transcribe", "--model", "micro", DEMO, env=env)
    assert result.returncode == 7
    assert "WHISPER_HAILO_CACHE" in one_line(result)


def test_an_unwritable_output_folder_is_told_per_file(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    result = whisper_hailo("transcribe", "--model", "micro", "--output-dir", file, DEMO)
    assert result.returncode == 7
    assert "cannot write" in one_line(result)


def test_a_reader_that_goes_away_is_no_error(whisper_hailo: Command) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        result = whisper_hailo(
            "transcribe", "--model", "micro", DEMO, capture_output=False, stdout=pipe, stderr=-1
        )
    assert result.returncode == 0
    assert not result.stderr


def test_a_directory_that_is_not_ours_is_not_overwritten(
    whisper_hailo: Command, tmp_path: Path
) -> None:
    keep = tmp_path / "out" / "thesis.txt"
    keep.parent.mkdir()
    keep.write_text("years of work", encoding="utf-8")
    result = whisper_hailo("convert", "micro", keep.parent)
    assert result.returncode != 0
    assert "out" in one_line(result)
    assert keep.read_text(encoding="utf-8") == "years of work"


def long_recording(path: Path, silence_s: int) -> Path:
    """A sparse file of silence with the demo at its end: long, quick to make, not all silent."""
    samples, rate_hz = sf.read(DEMO, dtype="int16")
    content = wav(path, samples).read_bytes()
    n_silent = silence_s * rate_hz * 2
    header, data = bytearray(content[:44]), content[44:]
    header[4:8] = (n_silent + len(data) + 36).to_bytes(4, "little")
    header[40:44] = (n_silent + len(data)).to_bytes(4, "little")
    with path.open("wb") as file:
        file.write(header)
        file.seek(n_silent, os.SEEK_CUR)
        file.write(data)
    return path


def peak_mib(environment: dict[str, str], *words: object) -> tuple[float, str]:
    """Peak resident memory of one run of the command, and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "whisper_hailo", *map(str, words)],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024, output


def test_three_hours_in_flat_memory(
    environment: dict[str, str], whisper_hailo: Command, tmp_path: Path
) -> None:
    whisper_hailo("transcribe", "--model", "micro", DEMO)  # the model is converted
    words = ["transcribe", "--model", "micro", "--json"]
    minute_mib, _ = peak_mib(environment, *words, long_recording(tmp_path / "minute.wav", 60))
    hours_mib, output = peak_mib(environment, *words, long_recording(tmp_path / "h.wav", 10_800))
    printed = json.loads(output)
    assert printed["duration_s"] > 3 * 3600
    assert printed["text"].split()[-3:] == DEMO_TEXT.split()[-3:]
    # Three hours of samples alone are 660 MiB as float32.
    assert hours_mib < minute_mib + 40
