"""Click commands made of functions that take dataclasses of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource

from whisper_hailo.cli.compat import normalize_argv
from whisper_hailo.cli.help import (
    MORE,
    is_rare,
    usage_pieces,
    write_arguments,
    write_options,
)
from whisper_hailo.cli.options import (
    UNBROKEN,
    Argument,
    FieldSubset,
    Option,
    argument_of,
    options_of,
)
from whisper_hailo.cli.settings import load_settings
from whisper_hailo.cli.stdout import emit
from whisper_hailo.cli.verbosity import Verbosity, log_package, set_verbosity
from whisper_hailo.core.flags import Flag
from whisper_hailo.core.partial_options import PartialOptions, from_typed, identifier

_ALL: Final = "whisper_hailo.help_all"
_SPEAKING: Final = "hotwords"
"""An option of the commands that transcribe; these know others' options and settings files."""

Read: TypeAlias = Callable[[dict[str, Any]], Any]
"""Makes an argument of a function from parsed options, and takes them out."""


class Command(click.Command):
    """A command whose help is by topic.

    Attributes:
        topic: heading of the list of commands that it stands under.
    """

    topic = ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words behind the command, those of other programs, too."""
        transcribes = any(param.name == _SPEAKING for param in self.params)
        if transcribes and not ctx.resilient_parsing:
            args = normalize_argv(args, self)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        return super().get_help(ctx).replace(UNBROKEN, " ")

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return usage_pieces(self.params)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments that need more than their names."""
        write_arguments(self.params, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write options; rare ones if `--help-all` asks for them."""
        write_options(self.get_params(ctx), formatter, rare=ctx.meta.get(_ALL, False))


def help_context(command: Command, name: str, parent: click.Context) -> click.Context:
    """Return a context in which a command's help has its rare options, too."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    context.meta[_ALL] = True
    return context


def command_of(name: str, function: Callable[..., Any]) -> Command:
    """Make a command of a function.

    Args:
        name: as typed.
        function: its parameters are dataclasses of options, `PartialOptions` of them, or annotated
            with a `Flag` or an `Argument`.
    """
    params: list[click.Parameter] = []
    readers: dict[str, Read] = {}
    hints = get_type_hints(function, include_extras=True)
    for key, parameter in inspect.signature(function).parameters.items():
        readers[key] = _add(params, key, hints[key], parameter.default)
    _add_common(params)
    package = function.__module__.partition(".")[0]

    def run(**parsed: Any) -> Any:  # noqa: ANN401 - whatever the options are
        typed = typed_of(click.get_current_context(), parsed)
        verbosity = from_typed(Verbosity, typed)
        if verbosity.typed:
            set_verbosity(verbosity.on())
        log_package(package)
        return function(**{key: read(typed) for key, read in readers.items()})

    return Command(name, params=params, callback=run, help=inspect.getdoc(function))


def typed_of(context: click.Context, parsed: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were typed, or set by the environment or a file."""
    unset = ParameterSource.DEFAULT
    source = context.get_parameter_source
    return {name: value for name, value in parsed.items() if source(name) is not unset}


def _add(params: list[click.Parameter], key: str, hint: Any, default: Any) -> Read:  # noqa: ANN401
    """Add what a function's parameter is typed by; return what reads it."""
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
    if isinstance(note, Argument):
        params.append(argument_of(key, hint, note, required=required))
        name = key
    else:
        flag: Flag = note
        long = flag.name or "--" + key.replace("_", "-")
        params.append(Option(long, flag, hint, None if required else default, required=required))
        name = identifier(long)
    return lambda typed: _listed(typed.get(name, None if required else default))


def _listed(value: Any) -> Any:  # noqa: ANN401 - of any type
    return list(value) if isinstance(value, tuple) else value


def _add_common(params: list[click.Parameter]) -> None:
    """Add the options that commands share, where they have none of that name."""
    names = {param.name for param in params}
    params += [one for one in options_of(Verbosity) if one.name not in names]
    if any(map(is_rare, params)):
        params.append(_help_all())
    if _SPEAKING in names:
        config = Flag("Options in TOML, such as seed = 7.", panel=MORE, metavar="FILE")
        option = Option("--config", config, Path)
        option.callback, option.expose_value, option.is_eager = load_settings, False, True
        params.append(option)


def _help_all() -> click.Option:
    def show(context: click.Context, _: click.Parameter, wanted: bool | None) -> None:
        if wanted and not context.resilient_parsing:
            context.meta[_ALL] = True
            emit(context.get_help() + "\n")
            context.exit()

    option = click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show,
        help="Show rare options, too, and exit.", allow_from_autoenv=False,
    )  # fmt: skip
    option.topic = MORE  # type: ignore[attr-defined]
    return option
