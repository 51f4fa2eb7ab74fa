import tomllib
from pathlib import Path
from typing import get_args

from whisper_hailo.core.extras import Extra, to_add

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def test_every_extra_that_is_advised_can_be_installed() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    assert set(get_args(Extra)) <= set(project["optional-dependencies"])


def test_what_to_type_is_quoted_for_the_shell() -> None:
    assert to_add("media").startswith("pip install -e '.[media]'")
