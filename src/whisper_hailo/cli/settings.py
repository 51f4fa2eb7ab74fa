"""Options that are not typed: from the environment, or from a file, or as they are by default."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_origin

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import Flag, flag, flag_of, typed_name
from whisper_hailo.core.given_options import Given, hints_of
from whisper_hailo.core.names import shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_settings import BaseSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")

PREFIX: Final = "WHISPER_HAILO_SERVE_"
"""Of variables: `WHISPER_HAILO_SERVE_MAX_UPLOAD` is `--max-upload`."""


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    """Where else options come from."""

    config: Path | None = flag(
        None, "Options in TOML, such as max-upload = 25.", metavar="FILE", shown=f"${PREFIX}CONFIG"
    )


class ConfiguredOptions:
    """What environment and file say of some options.

    Args:
        kinds: dataclasses of options, each with the fields that are meant; without any, all.
        config: a TOML file; `None` is the one that the environment names, if it does.
    """

    def __init__(self, kinds: Mapping[type[Any], Sequence[str]], config: Path | None) -> None:
        self._kinds = kinds
        options = {
            _key(one): _kind(kind, one, how) for kind in kinds for one, how in self._options(kind)
        }
        self._values = _read({"config": Path, **options}, config)

    def settle(self, given: Given[T]) -> Given[T]:
        """What was typed, and what of the rest is said elsewhere."""
        found = {
            one.name: _parsed(one, how, self._values[_key(one)])
            for one, how in self._options(given.kind)
            if _key(one) in self._values
        }
        return replace(given, typed={**found, **given.typed})

    def _options(self, kind: type[Any]) -> Iterator[tuple[Field[Any], Flag]]:
        """Fields that are options of their own; those of groups are in no file."""
        only = self._kinds[kind]
        for one in fields(kind):
            if (how := flag_of(one)) is not None and (not only or one.name in only):
                yield one, how


def _key(one: Field[Any]) -> str:
    return typed_name(one).lstrip("-").replace("-", "_")


def _kind(kind: type[Any], one: Field[Any], how: Flag) -> Any:  # noqa: ANN401 - a type
    """The type of a value as it is written."""
    if how.parse is not None:
        return str
    hint = hints_of(kind)[one.name]  # type: ignore[arg-type]  # every class has a hash
    return tuple[str, ...] if get_origin(hint) is tuple else hint


def _parsed(one: Field[Any], how: Flag, value: Any) -> Any:  # noqa: ANN401 - of any field
    if how.parse is None:
        return value
    try:
        return how.parse(value)
    except ValueError as error:
        raise OptionError(f"{typed_name(one)} is {value!r}, expected {error}") from None


def _listed(value: Any) -> Any:  # noqa: ANN401 - of any field
    """Variables hold lists with commas between."""
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


def _read(options: Mapping[str, Any], config: Path | None) -> dict[str, Any]:
    if config is None and not any(name.upper().startswith(PREFIX) for name in os.environ):
        return {}  # without the 10 MiB that reading nothing would take
    from pydantic import BeforeValidator, ValidationError, create_model
    from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

    def field(kind: Any) -> Any:  # noqa: ANN401 - a type
        if get_origin(kind) is tuple:
            return (Annotated[kind, NoDecode, BeforeValidator(_listed)] | None, None)
        return (kind | None, None)

    class Base(BaseSettings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", env_ignore_empty=True)

    _warn_of_unknown({"config", *options})
    model: type[BaseSettings] = create_model(
        "Options", __base__=Base, **{name: field(kind) for name, kind in options.items()}
    )
    try:
        environment = model().model_dump(exclude_none=True)
        config = config or environment.get("config")
        own = {} if config is None else _toml(config)
        return model(**{**own, **environment}).model_dump(exclude_none=True)
    except ValidationError as error:
        raise OptionError(_complaint(error)) from error


def _warn_of_unknown(names: Collection[str]) -> None:
    """Warn of variables with our prefix that name no option: most are misspelt."""
    known = [PREFIX + name.upper() for name in names]
    for name in sorted(os.environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            similar = get_close_matches(name.upper(), known, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            logger.warning("%s is no option of serve and is ignored%s", name, hint)


def _toml(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OptionError(
            f"--config {shown(path)} cannot be read ({why}); expected TOML such as max-upload = 25"
        ) from error
    return {name.replace("-", "_"): value for name, value in content.items()}


def _complaint(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]).replace("_", "-")
    if first["type"] == "extra_forbidden":
        return f"{name} is no option of serve; see --help for those there are"
    return f"--{name} is {str(first['input'])!r}: {first['msg']}; see --help"
