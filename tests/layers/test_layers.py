"""The real command under the vendor's own Python layer of every release that we know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import DEMO, one_line
from tests.layers.conftest import Files, Run
from tests.layers.vendor import EARLIER, LATER, REPOSITORY
from tests.standin.make_hef import decoder_network, encoder_network, hef
from whisper_hailo_lab.clip_archives import unpack_clips

if not REPOSITORY:
    pytest.skip(
        "HAILORT_GIT names no git copy of hailo-ai/hailort", allow_module_level=True
    )

SPEECH = sorted((unpack_clips() / "unseen").glob("*.ogg"))[0]


def _words(files: Files, tag: str) -> tuple[object, ...]:
    encoder, _ = files.later if tag in LATER else files.earlier
    return ("transcribe", "--model", files.model, "--encoder", encoder, DEMO)


@pytest.mark.parametrize("tag", [*EARLIER, *LATER])
def test_encoder_on_the_chip_gives_the_text_of_the_cpu(
    files: Files, under: Run, tag: str
) -> None:
    result = under(tag, *_words(files, tag))
    assert result.returncode == 0, result.stderr
    assert result.stdout == files.text


def test_both_halves_on_chip_give_same_text_on_either_kind(
    files: Files, under: Run
) -> None:
    texts = []
    for tag, (encoder, decoder) in (
        (EARLIER[-1], files.earlier),
        (LATER[-1], files.later),
    ):
        halves = ("--encoder", encoder, "--decoder", decoder)
        result = under(tag, "transcribe", "--model", files.model, *halves, SPEECH)
        assert result.returncode == 0, result.stderr
        assert "decoder hef-" in result.stderr
        texts.append(result.stdout)
    assert texts[0] == texts[1]
    assert texts[0].strip()


@pytest.mark.parametrize("tag", LATER)
def test_encoder_of_file_of_both_halves_is_opened_by_its_name(
    files: Files, under: Run, tmp_path: Path, tag: str
) -> None:
    """As HailoRT's own server does, sizes in the JSON inside."""
    sizes = {"chunk_size_seconds": 10, "num_mel_bins": 80, "n_audio_ctx": 500}
    halves = [
        decoder_network(files.model, "chip", "decoder"),
        encoder_network(files.model, "m-encoder"),
    ]
    resources = {"hailo-config.json": json.dumps(sizes).encode()}
    both = tmp_path / "Whisper-Micro.hef"
    both.write_bytes(hef("hailo10h", halves, 3, resources=resources))
    result = under(tag, "transcribe", "--model", files.model, "--encoder", both, DEMO)
    assert (result.returncode, result.stdout) == (0, files.text), result.stderr
    assert "encoder hef-hailo10h" in result.stderr


def test_shared_chip(files: Files, under: Run) -> None:
    """By the service on an 8L, by group on a 10H."""
    for tag, facts in ((EARLIER[-1], {"service": True}), (LATER[-1], {})):
        result = under(tag, *_words(files, tag), "--share", **facts)
        assert result.stdout == files.text, result.stderr
    alone = under(EARLIER[-1], *_words(files, EARLIER[-1]), "--share")
    assert "systemctl enable --now hailort.service" in one_line(alone)


@pytest.mark.skipif(np.__version__ < "2", reason="this environment has NumPy 1")
def test_binding_that_does_not_know_numpy_2(
    files: Files,
    under: Run,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = under("v4.23.0", *_words(files, "v4.23.0"), pybind="")
    assert result.returncode == 6
    assert "as empty; pip install 'numpy<2'" in one_line(result)
    monkeypatch.setitem(environment, "WHISPER_HAILO_CACHE", str(tmp_path))
    shutil.copytree(files.earlier[0].parent, tmp_path / "hefs" / "hailo8l" / "tiny")
    for pybind, found in (("", "as empty"), ("new", "ran on arrays of NumPy 2")):
        assert found in under("v4.23.0", "doctor", pybind=pybind).stdout


@pytest.mark.parametrize(
    ("tag", "fail", "expected"),
    [
        (
            "v4.23.0",
            {"scan": "HAILO_DRIVER_OPERATION_FAILED"},
            "HAILO_DRIVER_OPERATION_FAILED",
        ),
        (
            "v4.23.0",
            {"vdevice": "HAILO_INVALID_DRIVER_VERSION"},
            "install all of one release",
        ),
        (
            "v4.23.0",
            {"vdevice": "HAILO_OUT_OF_PHYSICAL_DEVICES"},
            "another program holds",
        ),
        (
            "v4.20.0",
            {"configure": "HAILO_INVALID_HEF"},
            "for another chip or a newer HailoRT",
        ),
        ("v4.21.0", {"load": "HAILO_HEF_FILE_CORRUPTED"}, "HAILO_HEF_FILE_CORRUPTED"),
        (
            "v4.21.0",
            {"configure": "HAILO_HEF_NOT_COMPATIBLE_WITH_DEVICE"},
            "this chip is a different",
        ),
        ("v5.2.0", {"vdevice": "HAILO_DEVICE_IN_USE"}, "another program holds"),
        ("v5.2.0", {"vdevice": "HAILO_DEVICE_TEMPORARILY_UNAVAILABLE"}, "try again"),
    ],
)
def test_what_keeps_a_chip_from_running_is_one_line(
    files: Files, under: Run, tag: str, fail: dict[str, str], expected: str
) -> None:
    result = under(tag, *_words(files, tag), fail=fail)
    assert result.returncode in {4, 6}
    assert expected in one_line(result)


@pytest.mark.parametrize(
    ("tag", "status"),
    [
        ("v4.23.0", "HAILO_STREAM_ABORT"),
        ("v4.23.0", "HAILO_COMMUNICATION_CLOSED"),
        ("v5.2.0", "HAILO_DEVICE_NOT_CONNECTED"),
    ],
)
def test_chip_that_is_lost_is_opened_again(
    files: Files, under: Run, tag: str, status: str
) -> None:
    result = under(tag, *_words(files, tag), fail={"callback": f"{status}@0"})
    assert (result.returncode, result.stdout) == (0, files.text), result.stderr
    assert f"({status})" in result.stderr
    assert "opening it again" in result.stderr


@pytest.mark.parametrize("tag", ["v4.23.0", "v5.2.0"])
def test_driver_that_hangs_when_it_is_released(
    files: Files, under: Run, tag: str
) -> None:
    """The text is out, and the program ends all the same."""
    result = under(tag, *_words(files, tag), hang=["release"])
    assert (result.returncode, result.stdout) == (6, files.text)
    assert "releasing the chip did not end within 10 s" in one_line(result)


def test_auto_without_a_chip_that_answers(files: Files, under: Run) -> None:
    result = under(
        "v4.23.0", "transcribe", "-v", "--model", files.model, DEMO, hang=["scan"]
    )
    assert (result.returncode, result.stdout) == (0, files.text)
    assert "on the CPU, looking for chips did not end within 20 s" in result.stderr
