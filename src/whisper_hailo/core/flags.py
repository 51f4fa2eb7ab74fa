"""Options, declared once as fields of dataclasses.

A dataclass field such as

    beam_size: int = flag(1, "Hypotheses kept; 1 is greedy.", metavar="N")

is, without further code,

    --beam-size N                         an option of commands that take the dataclass
                                          (`cli.options.options_of`)
    beam-size = 5                         a key of their settings file (`cli.command.load_settings`)
    WHISPER_HAILO_TRANSCRIBE_BEAM_SIZE=5  an environment variable (named by Click after the option)
    beam_size=5                           a keyword in Python (`partial_options.from_keywords`)

`flag` keeps what a field cannot say itself, such as the help, in the field's metadata as a `Flag`.
The functions below derive the names from a field, and check values in terms of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Final, TypeVar

from whisper_hailo.core.errors import OptionError

T = TypeVar("T")

ENGINE: Final = "Engine"
"""Topics of help."""

CHIP: Final = "Hailo chip"

CHANNELS: Final = ("mix", "split")
"""All channels mixed, or each as a speaker."""

_FLAG: Final = "flag"
_GROUP_FIELDS: Final = "group fields"


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is given on the command line, and its help.

    Attributes:
        help: one line; the default and the choices are added to it.
        topic: heading in the help; empty: among the everyday options.
        name: the option with its hyphens; empty: made of the field's name.
        short: the one-letter option with its hyphen.
        also: aliases that users of other programs know, with their hyphens.
        metavar: placeholder of the value in the help.
        shown: the default in the help; empty: the default itself, and nothing for `None` and
            `False`.
        choices: allowed values; empty: any.
        optional: the value where none follows the option; empty: one has to.
        parse: converts the text of the value; its `ValueError` says what is expected.
        rare: only `--help-all` lists it.
        is_joined: several of it are one value, with commas between.
    """

    help: str
    topic: str = ""
    name: str = ""
    short: str = ""
    also: tuple[str, ...] = ()
    metavar: str = ""
    shown: str = ""
    choices: tuple[str, ...] = ()
    optional: str = ""
    parse: Callable[[str], Any] | None = None
    rare: bool = False
    is_joined: bool = False


def flag(default: T, help: str, topic: str = "", **details: Any) -> T:  # noqa: A002, ANN401
    """Return a dataclass field with a flag; `details` are further attributes of `Flag`."""
    return dataclasses.field(
        default=default, metadata={_FLAG: Flag(help, topic, **details)}
    )


def required_flag(help: str, **details: Any) -> Any:  # noqa: A002, ANN401
    """Return a dataclass field with a flag and no default; see `flag`."""
    return dataclasses.field(metadata={_FLAG: Flag(help, **details)})


def option_group(make: Callable[[], T], *names: str) -> T:
    """Return a field that holds another dataclass of options.

    Args:
        make: returns the default.
        names: the fields of it that are options here; none: all of them.
    """
    return dataclasses.field(default_factory=make, metadata={_GROUP_FIELDS: names})


def field_named(options: Any, name: str) -> Field[Any]:  # noqa: ANN401 - a dataclass
    """Return a field of a dataclass, or of an instance of one."""
    return next(field for field in fields(options) if field.name == name)


def flag_of(field: Field[Any]) -> Flag | None:
    """Return the flag of a field, if it has one."""
    flag: Flag | None = field.metadata.get(_FLAG)
    return flag


def group_fields(field: Field[Any]) -> tuple[str, ...]:
    """Return the fields of a group that are options; empty: all."""
    names: tuple[str, ...] = field.metadata.get(_GROUP_FIELDS, ())
    return names


def is_required(field: Field[Any]) -> bool:
    """Return whether a field has no default."""
    return field.init and field.default is MISSING and field.default_factory is MISSING


def option_name(field: Field[Any]) -> str:
    """Return the option of a field, such as `--beam-size`; a field without a flag has its name."""
    flag = flag_of(field)
    if flag is None:
        return field.name
    return flag.name or "--" + field.name.replace("_", "-")


def option_key(option: str) -> str:
    """Return `beam_size` for `--beam-size`: the name without hyphens, as Python writes it."""
    return option.lstrip("-").replace("-", "_")


def keywords_of(field: Field[Any]) -> tuple[str, ...]:
    """Return the keywords of a field: its own name, then those of its long options."""
    keywords = [field.name]
    flag = flag_of(field)
    if flag is not None:
        keywords.append(option_key(option_name(field)))
        keywords += [option_key(alias) for alias in flag.also if alias.startswith("--")]
    return tuple(dict.fromkeys(keywords))


def require_valid(options: Any, name: str, is_valid: bool, expected: str) -> None:  # noqa: ANN401
    """Raise `OptionError` for the value of a field unless it `is_valid`."""
    if is_valid:
        return
    value = getattr(options, name)
    if isinstance(value, float):
        given = f"{value:g}"
    elif isinstance(value, str) and not value.strip():
        given = "blank"
    else:
        given = repr(value)
    raise OptionError(
        f"{option_name(field_named(options, name))} is {given}, expected {expected}"
    )


def refuse_unused(options: Any, is_used: bool, needed: str, *names: str) -> None:  # noqa: ANN401
    """Raise `OptionError` for fields that were changed, unless they have an effect.

    `needed` is what they go with, for the message.
    """
    if is_used:
        return
    for field in fields(options):
        if field.name in names and getattr(options, field.name) != field.default:
            raise OptionError(
                f"{option_name(field)} goes with {needed} and has no effect here; leave it out"
            )


def require_choices(options: Any) -> None:  # noqa: ANN401 - a dataclass
    """Raise `OptionError` for values that are not among the choices of their fields."""
    for field in fields(options):
        require_choice(field, getattr(options, field.name))


def require_choice(field: Field[Any], value: object) -> None:
    """Raise `OptionError` for a text that is not among the choices of a field."""
    flag = flag_of(field)
    if flag is None or not flag.choices:
        return
    if isinstance(value, str) and value not in flag.choices:
        choices = ", ".join(flag.choices)
        raise OptionError(
            f"{option_name(field)} is {value!r}, expected one of: {choices}"
        )


def number_or_none(text: str) -> float | None:
    """Parse a number, or `none`, which switches a threshold off."""
    if text.strip().casefold() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number, or none (off)") from None
