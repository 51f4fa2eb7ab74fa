"""Engines that own their whole loop: asked for a window's tokens or text, not for logits.

Rules that such an engine cannot honour are refused before it runs, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from whisper_hailo.core.errors import OptionError
from whisper_hailo.core.protocols import Closeable
from whisper_hailo.core.spec import ModelSpec
from whisper_hailo.core.types import FloatArray
from whisper_hailo.decoding.decoded import Decoded
from whisper_hailo.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@runtime_checkable
class Recognizer(Closeable, Protocol):
    """Audio features in, tokens out, such as CTranslate2."""

    @property
    def spec(self) -> ModelSpec:
        """The model that this engine belongs to."""
        ...

    @property
    def name(self) -> str:
        """Short name for results, such as `ctranslate2-int8`."""
        ...

    def check(self, options: DecodingOptions) -> None:
        """Refuse what cannot be honoured; called before any audio is touched.

        Raises:
            OptionError: a rule or cure that this engine does not have.
        """
        ...

    def detect_language(self, audio_features: FloatArray) -> dict[str, float]:
        """Language code to probability for the first row, likeliest first.

        Args:
            audio_features: `(batch, n_audio_ctx, d_model)` float32.
        """
        ...

    def recognize(
        self, audio_features: FloatArray, prefix: tuple[int, ...], options: DecodingOptions
    ) -> tuple[Decoded, ...]:
        """Decode a batch of windows.

        Args:
            audio_features: `(batch, n_audio_ctx, d_model)` float32, as the encoder gave them:
                padding is done here.
            prefix: forced ids, the same for every row, beginning with start-of-transcript.
            options: checked before; language and task are in the prefix already.

        Returns:
            one result per row, in order.
        """
        ...


@runtime_checkable
class AudioRecognizer(Closeable, Protocol):
    """Samples in, text out, with its own log-mel and encoder, such as Hailo's Speech2Text."""

    @property
    def spec(self) -> ModelSpec:
        """The model that this engine runs."""
        ...

    @property
    def name(self) -> str: ...

    def check(self, options: DecodingOptions) -> None:
        """Refuse what cannot be honoured; called before any audio is touched.

        Raises:
            OptionError: a rule or cure that this engine does not have.
        """
        ...

    def recognize_audio(self, audio: FloatArray, options: DecodingOptions) -> str:
        """Text of one window.

        Args:
            audio: `(n_samples,)` float32, 16 kHz mono in [-1, 1], at most the full context.
            options: language and task.
        """
        ...


_OWN_LOOPS: dict[type, bool] = {}
"""Kinds of engines met so far: a protocol asks each of its members, a third of a millisecond in
all for one recording."""


def owns_loop(engine: object) -> TypeIs[Recognizer | AudioRecognizer]:
    """Whether an engine decodes by itself, so that no rule or search of ours applies."""
    kind = type(engine)
    if kind not in _OWN_LOOPS:
        _OWN_LOOPS[kind] = isinstance(engine, Recognizer | AudioRecognizer)
    return _OWN_LOOPS[kind]


def refuse_unhonoured(options: DecodingOptions, honoured: frozenset[str], engine: str) -> None:
    """Refuse every option that an engine does not honour and that is not at its default.

    What is added to the options later is so refused too, until the engine learns it.

    Args:
        options: what the caller asked for.
        honoured: names of fields, those of groups as `cures.pad_to`.
        engine: its name, for messages.

    Raises:
        OptionError: at the first one.
    """
    for name, value in _changed(options, ""):
        if name not in honoured:
            option = name.rpartition(".")[2].replace("_", "-")
            raise OptionError(f"{engine} cannot honour --{option} {value}; leave it out")


def _changed(options: Any, within: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a group
    """Names and values of the fields, at any depth, that are not at their default."""
    for field in fields(options):
        factory = field.default_factory
        default = field.default if factory is MISSING else factory()
        value, name = getattr(options, field.name), f"{within}{field.name}"
        if is_dataclass(value) and type(value) is type(default):
            yield from _changed(value, f"{name}.")
        elif value != default:
            yield name, value
