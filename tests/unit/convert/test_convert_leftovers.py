"""What other runs and users leave beside a conversion, before it and while it works."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.convert.conftest import FILES, PLAIN, contents
from whisper_hailo.convert import convert
from whisper_hailo.convert.convert import convert_checkpoint
from whisper_hailo.core.errors import OutputError


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Lets something happen while the graphs are made."""
    real = convert.read_special_tokens

    def set_up(event: Callable[[], None]) -> None:
        def read(*args: object) -> object:
            event()
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(convert, "read_special_tokens", read)

    return set_up


def test_folders_on_the_way_are_made(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "many" / "more" / "out"
    convert_checkpoint(checkpoint, out, PLAIN)
    assert set(contents(out)) == FILES


@pytest.mark.parametrize("mask", [0o022, 0o007, 0o077])
def test_a_model_may_be_read_by_whom_any_new_folder_may(
    checkpoint: Path, tmp_path: Path, mask: int
) -> None:
    before = os.umask(mask)
    try:
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
        (tmp_path / "made").mkdir()
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "made").stat().st_mode


def test_half_a_model_goes_before_another_is_written_and_the_last_whole_one_stays(
    checkpoint: Path, tmp_path: Path, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    """They may fill the disk; a kill between two renames leaves a whole one under such a name."""
    folder = tmp_path / "folder"
    convert_checkpoint(checkpoint, folder / "out", PLAIN)
    whole = (folder / "out").rename(folder / ".out.writing.a")
    half = folder / ".out.writing.b"
    half.mkdir()
    (half / "encoder.onnx").touch()

    def fail() -> None:
        assert not half.exists()
        raise KeyboardInterrupt

    meanwhile(fail)
    with pytest.raises(KeyboardInterrupt):
        convert_checkpoint(checkpoint, folder / "out", PLAIN)
    assert set(contents(whole)) == FILES
    assert list(folder.iterdir()) == [whole]


def test_a_file_that_comes_while_a_model_is_made_is_not_replaced(
    checkpoint: Path, tmp_path: Path, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    out = tmp_path / "out"

    def write() -> None:
        out.mkdir()
        (out / "notes.txt").write_text("precious")

    meanwhile(write)
    with pytest.raises(OutputError, match=r"holds notes\.txt, which no conversion wrote"):
        convert_checkpoint(checkpoint, out, PLAIN)
    assert contents(out) == {"notes.txt": b"precious"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whisper-toy"]


@pytest.mark.parametrize("error", [SystemExit(143), KeyboardInterrupt()])
def test_a_signal_before_the_first_model_has_its_name_ends_the_run(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    real, errors = Path.rename, [error]

    def rename(path: Path, to: Path) -> Path:
        if errors:
            raise errors.pop()
        return real(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(type(error)):
        convert_checkpoint(checkpoint, tmp_path / "out", PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]


@pytest.mark.parametrize("place", ["long", "long/new"])
def test_a_name_that_is_too_long_is_told_before_any_work(
    checkpoint: Path,
    tmp_path: Path,
    meanwhile: Callable[[Callable[[], None]], None],
    place: str,
) -> None:
    meanwhile(lambda: pytest.fail("the conversion has begun"))
    with pytest.raises(OutputError, match=r"File name too long"):
        convert_checkpoint(checkpoint, tmp_path / place.replace("long", "x" * 300), PLAIN)
    assert [path.name for path in tmp_path.iterdir()] == ["whisper-toy"]
