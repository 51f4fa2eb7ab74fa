from pathlib import Path

import pytest

from whisper_hailo.cli import workload
from whisper_hailo.cli.workload import Workload


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(workload, "monotonic", lambda: seconds[0])
    return seconds


def write_files(folder: Path, **sizes: int) -> list[Path | None]:
    """Return files of so many bytes, with the suffix behind the last underscore."""
    paths: list[Path | None] = []
    for name, n_bytes in sizes.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(bytes(n_bytes))
        paths.append(path)
    return paths


def test_workload_of_one_has_no_position(now: list[float]) -> None:
    work = Workload([None])
    work.report(10.0, 100.0, 1.0)
    assert (work.position, work.left_s(1.0)) == ("", None)
    assert now == [0.0]


@pytest.mark.usefixtures("now")
def test_workload_left_follows_sizes_of_a_format(tmp_path: Path) -> None:
    """A byte of MP3 is ten of WAV here; each format is measured by its own."""
    paths = write_files(tmp_path, a_wav=1000, b_mp3=100, c_wav=2000, d_mp3=300)
    work = Workload(paths)
    assert work.left_s(0.0) is None
    work.report(50.0, 100.0, 10.0)
    # 50 s of this one, and of the others by its bytes, MP3 not known yet: 10, 200 and 30.
    assert work.left_s(10.0) == pytest.approx((50 + 10 + 200 + 30) / 5)
    work.begin(1)
    assert work.position == "2 of 4, "
    work.report(100.0, 100.0, 20.0)
    # 150 s in 20 s; the second MP3 is three times the first.
    assert work.left_s(20.0) == pytest.approx((200 + 300) / 7.5)


@pytest.mark.usefixtures("now")
def test_workload_left_falls_between_reports(tmp_path: Path) -> None:
    work = Workload(write_files(tmp_path, a_wav=1000, b_wav=1000))
    work.report(50.0, 100.0, 10.0)
    assert work.left_s(14.0) == pytest.approx(30 - 4)
    assert work.left_s(400.0) == 0.0


@pytest.mark.usefixtures("now")
def test_workload_skips_audio_of_an_earlier_run(tmp_path: Path) -> None:
    work = Workload(write_files(tmp_path, a_wav=1000, b_wav=1000))
    work.skip(40.0)
    work.report(50.0, 100.0, 10.0)
    assert work.left_s(10.0) == pytest.approx(150)


def test_workload_takes_missing_files_and_pipes(tmp_path: Path) -> None:
    work = Workload([None, tmp_path / "missing.wav"])
    work.report(50.0, 100.0, work.left_s(0.0) or 10.0)
    assert work.left_s(10.0) is not None
