"""The trimmed vocabulary: the ids that training uses, numbered without gaps."""

from dataclasses import dataclass
from random import Random

from tokenizers import Tokenizer

from lab.training import whisper_vocabulary as ids
from lab.training.text.grammar import Grammar
from lab.training.text.lexicon import LEXICONS
from lab.training.text.plans import all_phrases

PREFIX = (ids.SOT, ids.FIRST_LANGUAGE, ids.TRANSCRIBE, ids.NO_TIMESTAMPS)
_N_SAMPLED = 120_000


@dataclass(frozen=True, slots=True)
class KeptTokens:
    """Two-way map between Whisper's ids and rows of the trimmed embedding.

    Attributes:
        ids: Whisper's id of each row, rising.
    """

    ids: tuple[int, ...]

    def rows(self, tokens: list[int]) -> list[int]:
        """Returns the rows of Whisper ids.

        Raises:
            KeyError: an id is not kept.
        """
        index = {token: row for row, token in enumerate(self.ids)}
        return [index[token] for token in tokens]


def choose(tokenizer: Tokenizer) -> KeptTokens:
    """Returns the ids that occur in a large fixed sample of the grammar, and the special ones."""
    grammar = Grammar()
    rng = Random("kept tokens")
    texts = [" " + grammar.sentence(rng) for _ in range(_N_SAMPLED)]
    found = {
        token for encoded in tokenizer.encode_batch(texts) for token in encoded.ids
    }
    return KeptTokens(tuple(sorted(found | {*PREFIX, ids.EOT, ids.NO_SPEECH})))


def choose_for_tasks(tokenizer: Tokenizer) -> KeptTokens:
    """Returns the ids of both languages' grammars, of all translations, and of every task.

    Each word is taken by itself, within a sentence and as its first; the sample adds the marks.
    """
    rng = Random("kept tokens of all tasks")
    found = set[int]()
    texts = [text for pair in all_phrases() for text in pair]
    for lexicon in LEXICONS:
        grammar = Grammar(lexicon)
        words = grammar.cased_words()
        texts += [
            form
            for word in sorted(words)
            for form in (word, word[0].upper() + word[1:])
        ]
        texts += [grammar.sentence(rng) for _ in range(_N_SAMPLED // len(LEXICONS))]
        found.add(ids.FIRST_LANGUAGE + ids.LANGUAGES.index(lexicon.language))
    for encoded in tokenizer.encode_batch([" " + text for text in texts]):
        found |= set(encoded.ids)
    times = range(ids.FIRST_TIMESTAMP, ids.FIRST_TIMESTAMP + ids.N_TIMESTAMPS)
    special = {*PREFIX, ids.EOT, ids.NO_SPEECH, ids.TRANSLATE, ids.START_OF_PREV}
    return KeptTokens(tuple(sorted(found | special | set(times))))
