"""Follows a draft while tokens are taken, and finds the way back into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_LOOK_AHEAD: Final = 6
"""How many dropped tokens of a draft are bridged."""

_GUESS: Final = 8
"""Tokens tried behind a difference before anything shows that the draft holds again."""


@dataclass(slots=True)
class DraftCursor:
    """Where in a draft the decoding is.

    Attributes:
        tokens: the draft.
        at: where in it the next token is expected.
        n_mismatched: tokens taken since the draft last held.
    """

    tokens: tuple[int, ...]
    at: int = 0
    n_mismatched: int = 0

    def observe(self, token: int) -> None:
        """Note the token that was taken."""
        # After a surprise, the token that it seemed to replace may still come: it was put before.
        begin = self.at - 1 if self.n_mismatched else self.at
        ahead = self.tokens[begin : self.at + 1 + _LOOK_AHEAD]
        if token in ahead:
            self.at = begin + ahead.index(token) + 1
            self.n_mismatched = 0
        else:
            self.at += 1 if self.n_mismatched == 0 else 0
            self.n_mismatched += 1

    def left(self) -> tuple[int, ...]:
        """What of the draft is still expected: nothing after two surprises."""
        return self.tokens[self.at :] if self.n_mismatched < 2 else ()

    def proposal(self) -> tuple[int, ...]:
        """What to try next: all that is left, little of it after a surprise."""
        return self.left() if self.n_mismatched == 0 else self.left()[:_GUESS]
