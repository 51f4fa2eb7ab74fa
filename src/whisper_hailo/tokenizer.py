"""Text to token ids and back, and the prefix that tells the decoder language and task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whisper_hailo.core.errors import OptionError, TokenizerError
from whisper_hailo.core.spec import SpecialTokens

if TYPE_CHECKING:
    import tokenizers

TASKS = ("transcribe", "translate")
TOKENIZER_FILE = "tokenizer.json"


class Tokenizer:
    """A model's `tokenizer.json` together with its control token ids."""

    def __init__(self, backend: tokenizers.Tokenizer, special: SpecialTokens) -> None:
        self.backend = backend
        self.special = special

    @classmethod
    def load(cls, path: Path, special: SpecialTokens) -> Tokenizer:
        """Read a `tokenizer.json`.

        Raises:
            TokenizerError: no such file, or it is broken.
        """
        from tokenizers import Tokenizer as Backend

        if not path.is_file():
            raise TokenizerError(
                f"{path} is missing, so tokens cannot be turned into text; convert the checkpoint "
                "again with --tokenizer tokenizer.json"
            )
        try:
            backend = Backend.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for broken files
            raise TokenizerError(
                f"{path} is no tokenizer ({error}); convert the checkpoint again"
            ) from error
        tokenizer = cls(backend, special)
        tokenizer._check(path)
        return tokenizer

    def _check(self, path: Path) -> None:
        """Refuse the tokenizer of another model before it turns text into nonsense."""
        for name, token in (
            ("<|startoftranscript|>", self.special.sot),
            ("<|endoftext|>", self.special.eot),
        ):
            found = self.backend.token_to_id(name)
            if found is not None and found != token:
                raise TokenizerError(
                    f"{path} has {name} = {found}, the model has {token}; "
                    "use the tokenizer of the same model"
                )

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of plain text, without any control token."""
        return tuple(self.backend.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids; control tokens and timestamps are left out.

        Incomplete UTF-8 sequences give U+FFFD.
        """
        text_only = [token for token in tokens if token < self.special.eot]
        return self.backend.decode(text_only, skip_special_tokens=True)

    def prefix(self, language: str, task: str, *, timestamps: bool = False) -> tuple[int, ...]:
        """Forced ids that begin every transcript.

        Args:
            language: language code such as `en`.
            task: `transcribe` or `translate`.
            timestamps: leave out the id that asks for none.

        Raises:
            OptionError: the model does not know the language or the task.
        """
        special = self.special
        prefix = [special.sot]
        if special.languages:
            prefix.append(self._language_id(language))
            prefix.append(self._task_id(task))
        elif language != "en" or task != "transcribe":
            raise OptionError(
                f"this model only transcribes English, got language {language!r} and task "
                f"{task!r}; use a multilingual model such as tiny"
            )
        if not timestamps and special.no_timestamps is not None:
            prefix.append(special.no_timestamps)
        return tuple(prefix)

    def _language_id(self, language: str) -> int:
        try:
            return self.special.languages[language]
        except KeyError:
            known = ", ".join(self.special.languages)
            raise OptionError(f"unknown language {language!r}; this model knows: {known}") from None

    def _task_id(self, task: str) -> int:
        ids = {"transcribe": self.special.transcribe, "translate": self.special.translate}
        token = ids.get(task)
        if token is None:
            raise OptionError(f"unknown task {task!r}; expected one of: {', '.join(TASKS)}")
        return token
