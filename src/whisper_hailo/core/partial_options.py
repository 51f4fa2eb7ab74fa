"""Options that a caller gave, on a command line or as keywords, without the defaults.

A command line has parsed values of options (`from_command_line`), Python has keywords, whose types
are checked here (`from_keywords`). Both become `PartialOptions`, which are applied to the defaults
or to a base that is only known later, such as the defaults of a loaded decoder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import (
    field_named,
    flag_of,
    group_fields,
    is_required,
    keywords_of,
    option_key,
    option_name,
    require_choice,
)

T = TypeVar("T")

_SIMILARITY: Final = 0.6
"""Least likeness of a suggested keyword, by `difflib`."""


@dataclass(frozen=True, slots=True)
class PartialOptions(Generic[T]):
    """Some values of a dataclass of options.

    Attributes:
        kind: the dataclass.
        values: of its fields, by name.
        groups: the same for its fields that are dataclasses.
    """

    kind: type[T]
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, PartialOptions[Any]] = dataclasses.field(default_factory=dict)

    def build(self) -> T:
        """Return the defaults with these values.

        Raises:
            OptionError: a value is out of range or missing, or needs another option.
        """
        for field in fields(self.kind):  # type: ignore[arg-type]
            if is_required(field) and field.name not in self.values:
                raise OptionError(f"{option_name(field)} is missing; see --help")
        defaults = {
            name: default_of(field_named(self.kind, name)) for name in self.groups
        }
        return self.kind(**self._changes(defaults))

    def apply_to(self, base: T) -> T:
        """Return `base` with these values.

        Raises:
            OptionError: a value is out of range, or needs another option.
        """
        groups = {name: getattr(base, name) for name in self.groups}
        return replace(base, **self._changes(groups))  # type: ignore[type-var]

    def given_fields(self) -> Iterator[Field[Any]]:
        """Yield the fields with values, those of groups, too."""
        for field in fields(self.kind):  # type: ignore[arg-type]
            if field.name in self.values:
                yield field
        for group in self.groups.values():
            yield from group.given_fields()

    def _changes(self, group_bases: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of changed fields, groups put together from what they start from."""
        changes = dict(self.values)
        for name, group in self.groups.items():
            base = changes.get(name, group_bases[name])
            changes[name] = group._put_into(field_named(self.kind, name), base)
        return changes

    def _put_into(self, holder: Field[Any], base: T | bool | None) -> T | None:
        """Return what a field holds: a switch that is on stands for the defaults of its options."""
        if base is True:
            return self.build()
        if base:
            return self.apply_to(base)
        given = next(self.given_fields(), None)
        if given is not None:
            raise OptionError(
                f"{option_name(given)} needs {option_name(holder)}; give both"
            )
        return None


def from_command_line(
    kind: type[T], parsed: Mapping[str, Any], only: tuple[str, ...] = ()
) -> PartialOptions[T]:
    """Return the options of a dataclass, or `only` some, out of parsed ones by `option_key`."""
    values: dict[str, Any] = {}
    groups: dict[str, PartialOptions[Any]] = {}
    for field, hint in option_fields(kind, only):
        key = option_key(option_name(field))
        if flag_of(field) is not None and key in parsed:
            values[field.name] = parsed[key]
        group = group_type(hint)
        if group is not None:
            groups[field.name] = from_command_line(
                group, parsed, fields_below(field, only)
            )
    return PartialOptions(kind, values, groups)


def from_keywords(
    kind: type[T], keywords: dict[str, Any], only: tuple[str, ...] = ()
) -> PartialOptions[T]:
    """Move the options of a dataclass, or `only` some, out of keywords, and check their types.

    Raises:
        OptionError: a value of another type, or not among the choices.
    """
    values: dict[str, Any] = {}
    groups: dict[str, PartialOptions[Any]] = {}
    for field, hint in option_fields(kind, only):
        for keyword in keywords_of(field):
            if keyword in keywords:
                values[field.name] = _convert(
                    field, hint, keyword, keywords.pop(keyword)
                )
        group = group_type(hint)
        if group is not None:
            groups[field.name] = from_keywords(
                group, keywords, fields_below(field, only)
            )
    return PartialOptions(kind, values, groups)


def refuse_unknown(
    keywords: Mapping[str, Any], peers: Mapping[str, str], *kinds: type[Any]
) -> None:
    """Refuse keywords that no dataclass took; `peers` has advice for those of other programs."""
    for keyword in keywords:
        if keyword in peers:
            raise OptionError(
                f"{keyword} is an option of another program; {peers[keyword]}"
            )
        known: set[str] = set()
        for kind in kinds:
            known.update(keyword_names(kind))
        similar = get_close_matches(keyword, sorted(known), 1, _SIMILARITY)
        advice = f"did you mean {similar[0]}?" if similar else "see help(Transcriber)"
        raise OptionError(f"there is no option {keyword}; {advice}")


def keyword_names(kind: type[Any]) -> Iterator[str]:
    """Yield all keywords of a dataclass and of its groups."""
    for field, hint in option_fields(kind):
        yield from keywords_of(field)
        group = group_type(hint)
        if group is not None:
            yield from keyword_names(group)


_hints_of: Final = cache(get_type_hints)
"""Types of fields by name; Python takes 5 ms a call."""


def option_fields(
    kind: type[Any], only: tuple[str, ...] = ()
) -> Iterator[tuple[Field[Any], Any]]:
    """Yield the fields of a dataclass, or `only` some, with their types.

    `prompts.hotwords` in `only` names a field of the group `prompts`.
    """
    hints = _hints_of(kind)  # type: ignore[arg-type]  # every class has a hash
    names = [name.partition(".")[0] for name in only]
    for field in fields(kind):
        if not names or field.name in names:
            yield field, hints[field.name]


def fields_below(group: Field[Any], only: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of a group that `only` names, else those that it was declared with."""
    prefix = f"{group.name}."
    names = [name.removeprefix(prefix) for name in only if name.startswith(prefix)]
    return tuple(names) or group_fields(group)


def group_type(hint: Any) -> type[Any] | None:  # noqa: ANN401 - a type
    """Return the dataclass that a field of a type holds, if it holds one."""
    kind = inner_type(hint)
    return kind if is_dataclass(kind) and isinstance(kind, type) else None


def inner_type(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return `T` of the hint `T | None`, and any other hint as it is."""
    if get_origin(hint) in (Union, UnionType):
        return next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def default_of(field: Field[Any]) -> Any:  # noqa: ANN401 - of any field
    """Return the default of a field; `None` without one."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _convert(field: Field[Any], hint: Any, keyword: str, value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return the value of a keyword, converted to the type of its field."""
    # A command line needs none of it.
    from whisper_hailo.core.strict_json import MismatchError

    can_be_none = inner_type(hint) is not hint
    if type(value).__module__ == "numpy" and value.ndim == 0:
        value = value.item()
    if value is None and can_be_none:
        return None
    group = group_type(hint)
    if group is not None:
        is_switch = can_be_none and isinstance(value, bool)
        if is_switch or isinstance(value, group):
            return value
    flag = flag_of(field)
    try:
        if (
            flag is not None
            and flag.parse is not None
            and isinstance(value, str | list | tuple)
        ):
            require_choice(field, value)
            text = value if isinstance(value, str) else ",".join(map(str, value))
            return flag.parse(text)
        if group is not None:
            expected = f"{group.__name__}(...)"
            if can_be_none:
                expected += ", True or False"
            raise MismatchError(f"{keyword} is {value!r}, expected {expected}")
        return _decode(inner_type(hint), keyword, value)
    except MismatchError as error:
        raise OptionError(f"{error}; see help(Transcriber)") from None
    except ValueError as error:
        raise OptionError(f"{keyword} is {value!r}, expected {error}") from None


def _decode(kind: Any, keyword: str, value: Any) -> Any:  # noqa: ANN401 - of any type
    """Return a plain value as its type; a single one stands for a list of one."""
    from whisper_hailo.core.strict_json import decode

    if kind is Path:
        return value if isinstance(value, Path) else Path(decode(str, value, keyword))
    if get_origin(kind) is tuple:
        value = list(value) if isinstance(value, list | tuple) else [value]
    return decode(kind, value, keyword)
