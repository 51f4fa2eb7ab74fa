"""Click commands made of functions that take options, with their help and settings files."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from whisper_hailo.cli.messages import OURS, Verbosity, set_verbosity
from whisper_hailo.cli.options import Argument, FieldSubset, Option, argument_of, options_of
from whisper_hailo.cli.streams import emit
from whisper_hailo.core.errors import OptionError, display_path
from whisper_hailo.core.flags import CHIP, ENGINE, Flag
from whisper_hailo.core.partial_options import PartialOptions, from_typed, identifier
from whisper_hailo.core.read_files import read_text

ENV_PREFIX: Final = "WHISPER_HAILO"
"""Prefix of environment variables: `WHISPER_HAILO_SERVE_MAX_UPLOAD` is `serve --max-upload`."""

SHOWS_RARE: Final = "whisper_hailo.shows_rare"
"""Key of a context's `meta`: its help has the rare options, too."""

_SPEAKING: Final = "hotwords"
"""An option of the commands that transcribe; these know the options of other programs."""

logger = logging.getLogger(__name__)

Read: TypeAlias = Callable[[dict[str, Any]], Any]
_MORE: Final = "More"
"""Topic of options that are about options."""

_RARE: Final = "Rare options"
_LAST: Final = (ENGINE, CHIP, _MORE, _RARE)
_EVERYDAY: Final = "Options"


class Command(click.Command):
    """A command whose help is by topic, and that may take options of other Whisper programs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        transcribes = any(param.name == _SPEAKING for param in self.params)
        if transcribes and not ctx.resilient_parsing:
            from whisper_hailo.cli.compat import normalize_argv

            args = normalize_argv(args, self)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self.get_params(ctx), formatter, rare=SHOWS_RARE in ctx.meta)


def command_of(name: str, function: Callable[..., Any]) -> Command:
    """Make a command of a function, whose parameters are options or groups of them.

    A group is a dataclass or `PartialOptions` of one; others are annotated `Flag` or `Argument`.
    """
    params: list[click.Parameter] = []
    readers: dict[str, Read] = {}
    hints = get_type_hints(function, include_extras=True)
    for key, parameter in inspect.signature(function).parameters.items():
        readers[key] = _add_options(params, key, hints[key], parameter.default)
    params += options_of(Verbosity)
    if any(isinstance(param, Option) and param.hidden for param in params):
        help_all = Flag("Show the rare options, too.", _MORE)
        config = Flag("Options in TOML, such as seed = 7.", _MORE, metavar="FILE")
        params.append(_eager_option("--help-all", help_all, bool, _show_all))
        params.append(_eager_option("--config", config, Path, load_settings))

    def run(**parsed: Any) -> Any:  # noqa: ANN401 - whatever the options are
        typed = typed_of(click.get_current_context(), parsed)
        verbosity = from_typed(Verbosity, typed)
        if verbosity.typed:
            set_verbosity(verbosity.on())
        package = function.__module__.partition(".")[0]  # others log as much as ours
        logging.getLogger(package).setLevel(logging.getLogger(OURS).level)
        return function(**{key: read(typed) for key, read in readers.items()})

    return Command(name, params=params, callback=run, help=inspect.getdoc(function))


def typed_of(context: click.Context, parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were typed, or set by the environment or a file."""
    unset = ParameterSource.DEFAULT
    source = context.get_parameter_source
    return {name: value for name, value in parsed.items() if source(name) is not unset}


def _add_options(params: list[click.Parameter], key: str, hint: Any, default: Any) -> Read:  # noqa: ANN401
    """Add the options of a function's parameter; return what takes it out of parsed ones."""
    note: Any = None
    if get_origin(hint) is Annotated:
        hint, note = get_args(hint)[:2]
    partial = get_origin(hint) is PartialOptions
    kind = get_args(hint)[0] if partial else hint
    if is_dataclass(kind) and isinstance(kind, type):
        subset = note or FieldSubset(())
        params += options_of(kind, subset)

        def read(typed: dict[str, Any]) -> Any:  # noqa: ANN401 - of any kind
            given = from_typed(kind, typed, subset.names)
            return given if partial else given.on()

        return read
    required = default is inspect.Parameter.empty
    default = None if required else default
    made: click.Parameter
    if isinstance(note, Argument):
        name, made = key, argument_of(key, hint, note, required=required)
    else:
        long = note.name or "--" + key.replace("_", "-")
        name, made = identifier(long), Option(long, note, hint, default, required=required)
    params.append(made)
    if made.multiple or made.nargs == -1:
        return lambda typed: list(typed.get(name, ())) or default
    return lambda typed: typed.get(name, default)


def _eager_option(long: str, flag: Flag, hint: type[Any], callback: Callable[..., None]) -> Option:
    """Return an option that is no argument of the function: its callback does its work."""
    option = Option(long, flag, hint)
    option.callback, option.expose_value, option.is_eager = callback, False, True
    return option


def _show_all(context: click.Context, _: click.Parameter, wanted: bool | None) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[SHOWS_RARE] = True
        emit(context.get_help() + "\n")
        context.exit()


def load_settings(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Read defaults from a TOML file; the callback of `--config`."""
    import tomllib

    _warn_of_unknown(f"{context.auto_envvar_prefix}_", context.command.params)
    if path is None:
        return
    try:
        found = tomllib.loads(read_text(path))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OptionError(
            f"--config {display_path(path)} cannot be read ({why}); expected TOML such as model = "
            "'base'"
        ) from error
    options = (p for p in context.command.params if isinstance(p, Option) and p.expose_value)
    names = {identifier(name): one for one in options for name in one.opts if name[:2] == "--"}
    settings: dict[str, Any] = {}
    for name, value in found.items():
        if (known := names.get(identifier(name))) is None:
            similar = get_close_matches(identifier(name), names, 1)
            hint = f"did you mean {similar[0].replace('_', '-')}?" if similar else "see --help-all"
            raise OptionError(
                f"{display_path(path)}: {display_path(name)} is no key of {context.command.name}; "
                f"{hint}"
            )
        is_one_of_list = known.multiple and not isinstance(value, list)
        settings[str(known.name)] = [value] if is_one_of_list else value
    context.default_map = settings


def _warn_of_unknown(prefix: str, params: Iterable[click.Parameter]) -> None:
    """Warn of variables with our prefix that name no option: a misspelt one may be a key."""
    known = {f"{prefix}{one.name}".upper() for one in params}
    for name in sorted(os.environ):
        if name.upper().startswith(prefix) and name not in known:
            similar = get_close_matches(name.upper(), known, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            logger.warning("%s names no option and is ignored%s", name, hint)


def write_options(params: Iterable[Any], formatter: Any, *, rare: bool = False) -> None:  # noqa: ANN401
    """Write options by topic, with the rare ones if wanted."""
    topics: dict[str, list[tuple[str, str]]] = {_EVERYDAY: []}
    for param in params:
        if isinstance(param, click.Option) and (rare or not param.hidden):
            topic = _RARE if param.hidden else getattr(param, "topic", "") or _EVERYDAY
            topics.setdefault(topic, []).append((_format_names(param), param.help or ""))
    ranks = {topic: rank for rank, topic in enumerate(_LAST)}
    for topic in sorted(filter(topics.get, topics), key=lambda topic: ranks.get(topic, -1)):
        with formatter.section(topic):
            formatter.write_dl(topics[topic], col_max=33)  # longer names have a line of their own


def _format_names(param: click.Option) -> str:
    """Return `-m, --model NAME`: our names, not those of other programs."""
    short = next((name for name in param.opts if len(name) == 2), "")
    long = next(name for name in param.opts if name.startswith("--"))
    value = "" if param.is_flag else f" {param.metavar}"
    if isinstance(param, Option) and param.can_be_switched_off:
        long = f"--[no-]{long[2:]}"
    return f"{short}, {long}{value}" if short else f"{'':4}{long}{value}"
