"""What hears live captions: our own engine or Moonshine, and which options each can make use of."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from whisper_hailo.backends.hailo.options import ChipPriority
from whisper_hailo.cli.captions.options import CaptionModel
from whisper_hailo.cli.model import tell_reasons
from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.flags import refuse_idle, typed_name
from whisper_hailo.core.partial_options import PartialOptions
from whisper_hailo.decoding.options import Cures, DecodingOptions
from whisper_hailo.live.options import CaptionOptions

if TYPE_CHECKING:
    from whisper_hailo.live.engine import CaptionEngine
    from whisper_hailo.transcription.transcriber import Transcriber

logger = logging.getLogger(__name__)

DECODING: Final = (
    "language", "task", "cures", "max_new_tokens", "thresholds", "limits", "prompts",
)  # fmt: skip
NO_EFFECT: Final = (
    "prefix", "condition_on_previous_text", "carry_initial_prompt",  # a segment stands alone
    "compression_ratio_threshold",  # nothing is tried again
)  # fmt: skip
"""Options of decoding that live captions cannot make use of."""


_WHISPERS: Final = ("drafts", "hold_back_s", "trim_window")
"""Options of captions that Moonshine cannot make use of."""

_NOT_MOONSHINE: Final = "Whisper's models, not --moonshine,"


def expect_heard(model: CaptionModel, options: CaptionOptions) -> None:
    """Refuse options that the engine which is asked for cannot make use of."""
    if model.moonshine is None:
        return
    for part in (model.convert, model.engine.hailo, model.engine, replace(model, moonshine=None)):
        for one in fields(part):
            if not is_dataclass(getattr(part, one.name)):
                refuse_idle(part, one.name, serves=False, of=_NOT_MOONSHINE)
    for name in _WHISPERS:
        refuse_idle(options, name, serves=False, of=_NOT_MOONSHINE)


def caption_engine(
    model: CaptionModel,
    given: PartialOptions[DecodingOptions],
    options: CaptionOptions,
    hotwords: str,
    stack: contextlib.ExitStack,
) -> CaptionEngine:
    """Open and warm up our own engine, or Moonshine, until the stack ends."""
    from whisper_hailo.live.engine import LONGEST_S, MoonshineEngine, TranscriberEngine, warm_up

    engine: CaptionEngine
    if model.moonshine is None:
        transcriber = model.transcriber(ChipPriority.LIVE)
        decoding = _expecting(hotwords, decoding_of(given, transcriber.default_cures), transcriber)
        engine = TranscriberEngine(transcriber, decoding, trim_window=options.trim_window)
        tell_reasons(transcriber)
        stack.enter_context(transcriber)
    else:
        ours = frozenset({"limits.max_per_second", "search.temperatures"})  # defaults
        refuse_unhonoured(decoding_of(given, Cures()), ours, "Moonshine")
        longest_s = LONGEST_S if options.max_segment_s is None else options.max_segment_s
        engine = stack.enter_context(MoonshineEngine(model.moonshine, longest_s))
    warm_up(engine)
    return engine


def decoding_of(given: PartialOptions[DecodingOptions], cures: Cures) -> DecodingOptions:
    """Put what was typed on the defaults of captions."""
    from whisper_hailo.live.engine import caption_defaults

    return given.on(caption_defaults(cures))


def _expecting(
    hotwords: str, decoding: DecodingOptions, transcriber: Transcriber
) -> DecodingOptions:
    """Add hotwords to options where the decoder takes any."""
    if not hotwords:
        return decoding
    both = ", ".join(filter(None, (decoding.prompts.hotwords, hotwords)))
    expecting = replace(decoding, prompts=replace(decoding.prompts, hotwords=both))
    try:
        transcriber.check(expecting)
    except OptionError as error:
        logger.warning("what --replace shows is not expected: %s", error)
        return decoding
    return expecting


def refuse_unhonoured(options: DecodingOptions, honoured: frozenset[str], engine: str) -> None:
    """Refuse every option that an engine does not honour and that is not at its default.

    Args:
        options: as the caller asked for.
        honoured: names of fields, those of groups as `cures.pad_to`.
        engine: its name, for messages.
    """
    for name, typed, value in _changed(options, ""):
        if name not in honoured:
            raise OptionError(f"{engine} cannot honour {typed} {value}; leave it out")


def _changed(options: Any, within: str) -> Iterator[tuple[str, str, Any]]:  # noqa: ANN401 - a group
    """Yield name, typed name and value of fields, at any depth, that are not at their default."""
    for field in fields(options):
        factory = field.default_factory
        default = field.default if factory is MISSING else factory()
        value, name = getattr(options, field.name), f"{within}{field.name}"
        if is_dataclass(value) and type(value) is type(default):
            yield from _changed(value, f"{name}.")
        elif value != default:
            yield name, typed_name(field), value
