import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from whisper_hailo.core import process
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.process import Extra, install_command

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_every_extra_that_is_advised_can_be_installed() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert set(get_args(Extra)) <= set(project["optional-dependencies"])


@pytest.mark.parametrize("extra", get_args(Extra))
def test_what_to_type_installs_from_a_lock(extra: Extra) -> None:
    (lock,) = re.findall(r"^pip install -r (\S+) in the clone$", install_command(extra))
    assert (PROJECT.parent / lock).is_file()


def test_who_has_no_clone_takes_the_extra_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process, "_ROOT", tmp_path)
    assert install_command("server") == "pip install 'whisper-hailo[server]'"


def test_a_missing_module_is_told_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    process.require_extra("web", "--web", "os", "json")
    with pytest.raises(OptionError) as told:
        process.require_extra("web", "--web", "os", "no_such_module")
    expected = "--web needs no-such-module, which is not installed: "
    assert str(told.value) == expected + process.install_command("web")
