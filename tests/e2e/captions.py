"""Options of captions that are computed quickly."""

from __future__ import annotations

QUICK = ("--model", "micro", "--threads", 1, "--min-partial", 0.5)
