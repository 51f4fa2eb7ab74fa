"""Click commands made of functions that take options, with their help and settings files."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from whisper_hailo.cli.everyday_options import EVERYDAY_OPTIONS
from whisper_hailo.cli.messages import PRODUCT_LOGGER, Verbosity, set_verbosity
from whisper_hailo.cli.options import (
    Argument,
    FieldSubset,
    Option,
    argument_of,
    options_of,
)
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import CHIP, ENGINE, Flag, option_key
from whisper_hailo.core.partial_options import PartialOptions, from_command_line
from whisper_hailo.core.read_files import read_text

ENV_PREFIX: Final = "WHISPER_HAILO"
"""Prefix of environment variables: `WHISPER_HAILO_SERVE_MAX_UPLOAD` is `serve --max-upload`."""

SHOWS_RARE: Final = "whisper_hailo.shows_rare"
"""Key of a context's `meta`: its help has the rare options, too."""

TYPED: Final = "whisper_hailo.typed"
"""Key of a context's `meta`: what was typed for options in the words of other programs."""

_HOTWORDS: Final = "hotwords"
"""An option of the commands that transcribe; these know the options of other programs."""

_EVERYDAY: Final = "Options"
_MORE: Final = "More"
"""Topic of options that are about options."""

_RARE: Final = "Rare options"
_LAST_TOPICS: Final = (ENGINE, CHIP, _MORE, _RARE)

_NAME_COLUMNS: Final = 33
"""Width of the column of names in the help; longer names have a line of their own."""

logger = logging.getLogger(__name__)


class Command(click.Command):
    """A command whose help is by topic, and that may take options of other Whisper programs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        transcribes = any(param.name == _HOTWORDS for param in self.params)
        if transcribes and not ctx.resilient_parsing:
            from whisper_hailo.cli.compat import normalize_argv

            args = normalize_argv(args, self, ctx.meta.setdefault(TYPED, {}))
        return super().parse_args(ctx, args)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        params = self.get_params(ctx)
        shows_all = SHOWS_RARE in ctx.meta
        groups = EVERYDAY_OPTIONS.get(str(self.name))
        if groups is None or shows_all:
            write_options(params, formatter, rare=shows_all)
            return
        write_groups(groups, params, formatter)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of a command's function.

    Attributes:
        options: its Click options, or its argument.
        read: returns its value, out of what was given by `option_key`.
    """

    options: Sequence[click.Parameter]
    read: Callable[[dict[str, Any]], Any]


def command_of(name: str, function: Callable[..., Any]) -> Command:
    """Return a command that calls a function with options.

    A parameter of the function is a dataclass of options, `PartialOptions` of one, or a single
    value annotated with its `Flag` or `Argument`. A dataclass annotated with `FieldSubset` has
    options for some of its fields.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: dict[str, _Parameter] = {}
    options: list[click.Parameter] = []
    for key, parameter in inspect.signature(function).parameters.items():
        parameters[key] = _parameter_of(key, hints[key], parameter.default)
        options += parameters[key].options
    options += options_of(Verbosity)
    if any(isinstance(option, Option) and option.hidden for option in options):
        options += _options_about_options()

    def run(**parsed: Any) -> Any:  # noqa: ANN401 - whatever the options are
        given = given_options(click.get_current_context(), parsed)
        verbosity = from_command_line(Verbosity, given)
        if verbosity.values:  # else what was given before the command's name counts
            set_verbosity(verbosity.build())
        # Other packages log as much as ours.
        package = function.__module__.partition(".")[0]
        logging.getLogger(package).setLevel(logging.getLogger(PRODUCT_LOGGER).level)
        arguments = {
            key: parameter.read(given) for key, parameter in parameters.items()
        }
        return function(**arguments)

    return Command(name, params=options, callback=run, help=inspect.getdoc(function))


def given_options(context: click.Context, parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were typed, or set by the environment or a file."""
    return {
        name: value
        for name, value in parsed.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def _parameter_of(key: str, hint: Any, default: Any) -> _Parameter:  # noqa: ANN401
    """Return the options of a function's parameter, by its annotation."""
    note: Any = None
    if get_origin(hint) is Annotated:
        hint, note = get_args(hint)[:2]
    is_partial = get_origin(hint) is PartialOptions
    kind = get_args(hint)[0] if is_partial else hint
    if is_dataclass(kind) and isinstance(kind, type):
        only = note.names if isinstance(note, FieldSubset) else ()
        return _dataclass_parameter(kind, only, is_partial=is_partial)
    return _single_parameter(key, hint, note, default)


def _dataclass_parameter(
    kind: type[Any], only: tuple[str, ...], *, is_partial: bool
) -> _Parameter:
    """Return the options of a dataclass; it is built, unless the function takes what was given."""

    def read(given: dict[str, Any]) -> Any:  # noqa: ANN401 - of any kind
        partial = from_command_line(kind, given, only)
        return partial if is_partial else partial.build()

    return _Parameter([*options_of(kind, only)], read)


def _single_parameter(
    key: str,
    hint: Any,  # noqa: ANN401 - a type
    note: Flag | Argument,
    default: Any,  # noqa: ANN401 - of any type
) -> _Parameter:
    """Return the one option or argument of a parameter that is no dataclass."""
    required = default is inspect.Parameter.empty
    if required:
        default = None
    option: click.Parameter
    if isinstance(note, Argument):
        name = key
        option = argument_of(key, hint, note, required=required)
    else:
        long = note.name or "--" + key.replace("_", "-")
        name = option_key(long)
        option = Option(long, note, hint, default, required=required)

    def read(given: dict[str, Any]) -> Any:  # noqa: ANN401 - of any type
        if option.multiple or option.nargs == -1:
            return list(given.get(name, ())) or default
        return given.get(name, default)

    return _Parameter([option], read)


def _options_about_options() -> Iterable[Option]:
    """Yield `--help-all` and `--config`, for commands with rare options."""
    help_all = Flag("Show all options.", _MORE)
    yield _eager_option("--help-all", help_all, bool, _show_all)
    config = Flag("Options in TOML, such as seed = 7.", _MORE, metavar="FILE")
    yield _eager_option("--config", config, Path, load_settings)


def _eager_option(
    long: str, flag: Flag, hint: type[Any], callback: Callable[..., None]
) -> Option:
    """Return an option that is no argument of the function: its callback does its work."""
    option = Option(long, flag, hint)
    option.callback = callback
    option.expose_value = False
    option.is_eager = True
    return option


def _show_all(
    context: click.Context, _: click.Parameter, is_given: bool | None
) -> None:
    if is_given and not context.resilient_parsing:
        context.meta[SHOWS_RARE] = True
        emit(context.get_help() + "\n")
        context.exit()


def load_settings(
    context: click.Context, _: click.Parameter, path: Path | None
) -> None:
    """Make the values of a TOML file the defaults; the callback of `--config`.

    A key is the name of an option, with hyphens or underscores.
    """
    _warn_of_unknown(f"{context.auto_envvar_prefix}_", context.command.params)
    if path is None:
        return
    options: dict[str, Option] = {}
    for param in context.command.params:
        if isinstance(param, Option) and param.expose_value:  # not --config itself
            long_names = [name for name in param.opts if name.startswith("--")]
            options |= {option_key(name): param for name in long_names}
    settings: dict[str, Any] = {}
    for name, value in _read_toml(path).items():
        option = options.get(option_key(name))
        if option is None:
            similar = get_close_matches(option_key(name), options, 1)
            hint = (
                f"did you mean {similar[0].replace('_', '-')}?"
                if similar
                else "see --help-all"
            )
            raise OptionError(
                f"{display_path(path)}: {display_path(name)} is not a key of "
                f"{context.command.name}; "
                f"{hint}"
            )
        is_single = option.multiple and not isinstance(value, list)
        settings[str(option.name)] = [value] if is_single else value
    context.default_map = settings


def _read_toml(path: Path) -> dict[str, Any]:
    """Return what a settings file has; raises `OptionError` if it cannot be read."""
    import tomllib

    try:
        return tomllib.loads(read_text(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(
            f"--config {display_path(path)} cannot be read ({reason}); expected TOML such as "
            "model = 'base'"
        ) from error


def _warn_of_unknown(prefix: str, params: Iterable[click.Parameter]) -> None:
    """Warn of environment variables with our prefix that name no option.

    A misspelt one may be an API key, without which a server would be open to everybody.
    """
    variables = [f"{prefix}{param.name}".upper() for param in params]
    for name in sorted(os.environ):
        if name.upper().startswith(prefix) and name not in variables:
            similar = get_close_matches(name.upper(), variables, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            logger.warning("%s matches no option and is ignored%s", name, hint)


def write_options(params: Iterable[Any], formatter: Any, *, rare: bool = False) -> None:  # noqa: ANN401
    """Write options by topic, with the rare ones if wanted."""
    topics: dict[str, list[tuple[str, str]]] = {}
    for param in params:
        if isinstance(param, click.Option) and (rare or not param.hidden):
            row = (_format_names(param), param.help or "")
            topics.setdefault(_topic_of(param), []).append(row)
    for topic in sorted(topics, key=_topic_rank):
        with formatter.section(topic):
            formatter.write_dl(topics[topic], col_max=_NAME_COLUMNS)


def write_groups(
    groups: Mapping[str, Sequence[str]],
    params: Iterable[Any],
    formatter: Any,  # noqa: ANN401
) -> None:
    """Write the options that `groups` names, under its headings."""
    by_name = {
        name: param
        for param in params
        if isinstance(param, click.Option)
        for name in param.opts
    }
    for heading, names in groups.items():
        rows = []
        for name in names:
            param = by_name.get(name)
            if param is not None:
                rows.append((_format_names(param), param.help or ""))
        with formatter.section(heading):
            formatter.write_dl(rows, col_max=_NAME_COLUMNS)


def is_everyday(command: str, option: Option) -> bool:
    """Return whether `-h` of a command lists an option."""
    groups = EVERYDAY_OPTIONS.get(command)
    if groups is None:
        return not option.hidden
    return any(option.opts[0] in names for names in groups.values())


def _topic_of(param: click.Option) -> str:
    """Return the heading of an option; Click's own, such as `--help`, have no topic."""
    topic = param.topic if isinstance(param, Option) else ""
    if param.hidden and not topic:
        return _RARE
    return topic or _EVERYDAY


def _topic_rank(topic: str) -> int:
    """Return the sort key of a heading: those of one rank stay in the order of their options."""
    if topic == _EVERYDAY:
        return -2
    return _LAST_TOPICS.index(topic) if topic in _LAST_TOPICS else -1


def _format_names(param: click.Option) -> str:
    """Return `-m, --model NAME`: our names, not those of other programs."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    if isinstance(param, Option) and param.can_be_switched_off:
        long = f"--[no-]{long[2:]}"
    value = "" if param.is_flag else f" {param.metavar}"
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"
