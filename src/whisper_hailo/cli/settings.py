"""Options that are not typed: from the environment, or from a TOML file."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import click

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.names import shown
from whisper_hailo.core.partial_options import identifier

logger = logging.getLogger(__name__)

VARIABLES: Final = "WHISPER_HAILO"
"""Begins them: `WHISPER_HAILO_SERVE_MAX_UPLOAD` is `serve --max-upload`."""


def load_settings(context: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Have Click take what is not typed from a TOML file; the callback of `--config`.

    Raises:
        OptionError: the file cannot be read, or names no option of the command.
    """
    command = context.command
    _warn_of_unknown(f"{context.auto_envvar_prefix}_", command.params)
    if path is None:
        return
    names = {
        identifier(name): one.name
        for one in command.params
        if isinstance(one, click.Option) and one is not param
        for name in one.opts
        if name.startswith("--")
    }
    settings: dict[str, Any] = {}
    for name, value in _read_toml(path).items():
        if (known := names.get(identifier(name))) is None:
            similar = get_close_matches(identifier(name), names, 1)
            hint = f"did you mean {similar[0].replace('_', '-')}?" if similar else "see --help-all"
            raise OptionError(
                f"{shown(path)}: {shown(name)} is no option of {command.name}; {hint}"
            )
        settings[known] = value
    context.default_map = settings


def _read_toml(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OptionError(
            f"--config {shown(path)} cannot be read ({why}); expected TOML such as model = 'base'"
        ) from error


def _warn_of_unknown(prefix: str, params: Collection[click.Parameter]) -> None:
    """Warn of variables with our prefix that name no option: most are misspelt."""
    known = {f"{prefix}{one.name}".upper() for one in params if isinstance(one, click.Option)}
    for name in sorted(os.environ):
        if name.upper().startswith(prefix) and name not in known:
            similar = get_close_matches(name.upper(), sorted(known), 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            logger.warning("%s names no option and is ignored%s", name, hint)
