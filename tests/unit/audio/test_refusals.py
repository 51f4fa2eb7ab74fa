import io
import logging
import os
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.unit.sounds import noisy_speech, refusal, similarity, tone, write
from whisper_hailo.audio import load_audio, open_audio
from whisper_hailo.core.process import install_command

DATA = Path(__file__).parents[2] / "data"


def test_missing_and_directory(tmp_path: Path) -> None:
    assert "no.wav does not exist" in refusal(tmp_path / "no.wav")
    assert "is a directory" in refusal(tmp_path)
    assert "cannot be opened" in refusal(tmp_path / ("x" * 300))


def test_not_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "a.wav", tone(16_000))
    monkeypatch.setattr(os, "open", denied)  # The superuser may read what nobody may.
    assert "may not be read by this user; change its permissions" in refusal(path)


def test_empty(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"")
    assert "is empty (0 bytes)" in refusal(tmp_path / "a.wav")
    assert "upload is empty (0 bytes)" in refusal(io.BytesIO(), name="upload")


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_truncated_header(tmp_path: Path, suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    whole = write(tmp_path / f"whole.{suffix}", tone(16_000)).read_bytes()
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(whole[:20])
    assert "is not readable audio" in refusal(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("start", [b"just words ", b"\xff\xfb\x90\x00", b"ID3\x04\x00\x00", b"\0"])
def test_not_audio(tmp_path: Path, start: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.bin"
    noise = np.random.default_rng(2).integers(0, 128, 100_000, dtype=np.uint8)
    path.write_bytes(start + noise.tobytes())
    assert "is not readable audio" in refusal(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("suffix", ["wav", "aiff"])
def test_no_samples(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a.{suffix}", np.zeros(0), 44_100)
    assert "holds no samples" in refusal(path)


def test_no_samples_in_memory() -> None:
    assert "holds no samples" in refusal(np.zeros(0, dtype=np.float32))
    assert "(2, 5)" in refusal(np.zeros((2, 5), dtype=np.float32))
    assert "int16" in refusal(np.zeros(5, dtype=np.int16))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e20])
def test_samples_that_are_no_sound(tmp_path: Path, value: float) -> None:
    samples = np.stack([tone(8_000, 3.0), tone(8_000, 3.0)], axis=1)
    samples[20_000, 1] = value
    path = write(tmp_path / "a.wav", samples, 8_000, subtype="FLOAT")
    message = refusal(path)
    assert "at 2.500 s (channel 2)" in message
    assert "set such samples to zero" in message


def test_double_beyond_single_precision(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.array([0.0, 1e300]), subtype="DOUBLE")
    assert "value inf at 0.000 s" in refusal(path)


@pytest.mark.parametrize("rate_hz", [10, 999, 768_001, 2_000_000_000])
def test_absurd_rates(tmp_path: Path, rate_hz: int) -> None:
    path = write(tmp_path / "a.wav", np.zeros(100), rate_hz)
    assert f"sample rate of {rate_hz} Hz, expected 1000 to 768000 Hz" in refusal(path)


def test_absurd_channels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", np.zeros((10, 65)))
    assert "65 channels, expected 1 to 64" in refusal(path)


def test_duration_bound(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 2.0))
    assert "expected at most 1.5 s" in refusal(path, max_duration_s=1.5)
    with open_audio(path, max_duration_s=2.0) as stream:
        assert sum(len(block) for block in stream.blocks(16_000)) == 32_000


def test_duration_bound_holds_where_the_header_is_silent(tmp_path: Path) -> None:
    path = write(tmp_path / "a.flac", tone(16_000, 2.0))
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # STREAMINFO's 36 bits of total samples; 0 is unknown.
    content[22:26] = bytes(4)
    path.write_bytes(bytes(content))
    with open_audio(path) as stream:
        assert stream.duration_s is None
        assert sum(len(block) for block in stream.blocks(16_000)) == 32_000
    assert "expected at most 1.5 s" in refusal(path, max_duration_s=1.5)


@pytest.mark.parametrize("suffix", ["flac", "mp3"])
def test_half_a_file_gives_what_is_there_and_a_warning(
    tmp_path: Path,
    suffix: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    samples = noisy_speech(10.0)
    path = write(tmp_path / f"a.{suffix}", samples)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with caplog.at_level(logging.WARNING):
        audio = load_audio(path)
    assert 4.0 < len(audio) / 16_000 < 5.5
    assert similarity(audio, samples) > 0.8  # MP3 keeps 0.85 of such noise.
    assert f"breaks off after {len(audio) / 16_000:.1f} s of 10.0 s" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_whole_file_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for suffix in ("wav", "flac", "ogg", "mp3"):
        load_audio(write(tmp_path / f"a.{suffix}", noisy_speech(2.0), 44_100))
    assert caplog.text == ""


def test_half_a_wav_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.wav", tone(16_000, 10.0))
    path.write_bytes(path.read_bytes()[: 44 + 2 * 80_000])
    assert len(load_audio(path)) == 80_000
    assert "a.wav breaks off after 5.0 s of 10.0 s (truncated)" in caplog.text


def test_mp3_noise_is_kept_from_the_user_and_other_lines_are_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.mp3", noisy_speech(10.0))
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 5_000] = bytes(range(250)) * 20
    path.write_bytes(bytes(content))
    with pytest.raises(soundfile.SoundFileError):
        soundfile.read(path)
    assert "mpg123" in capfd.readouterr().err  # Else the next line would prove nothing.
    load_audio(path)
    os.write(2, b"still open\n")
    assert capfd.readouterr() == ("", "still open\n")


def test_media_extra_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "av.py").write_text("raise ImportError")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x18ftypM4A " + bytes(100))
    message = refusal(tmp_path / "a.m4a")
    assert install_command("media") in message
    assert "WAV, FLAC, OGG or MP3" in message


THREE_HOURS = """
import resource, sys
from pathlib import Path
from whisper_hailo.audio import open_audio
with open_audio(Path(sys.argv[1])) as stream:
    blocks = stream.blocks(160_000)
    next(blocks)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n_samples = 160_000 + sum(len(block) for block in blocks)
print(stream.duration_s, n_samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_three_hours_take_no_more_memory_than_ten_seconds(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 1, 8_000, 0, "NONE", ""))
        for _ in range(180):
            file.writeframesraw(bytes([128]) * 480_000)
    command = [sys.executable, "-c", THREE_HOURS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    duration_s, n_samples, grown_kib = done.stdout.split()
    assert float(duration_s) == 10_800.0
    assert int(n_samples) == 172_800_000  # 659 MiB of float32, had it been kept.
    assert int(grown_kib) < 16 * 1024


def test_importing_audio_loads_no_codec() -> None:
    code = (
        "import sys, whisper_hailo.audio; print(*{'soundfile', 'soxr', 'av'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
