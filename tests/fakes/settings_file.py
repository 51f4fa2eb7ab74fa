"""Words of a command whose rare options are in a settings file."""

from __future__ import annotations

from pathlib import Path


def given(typed: str, folder: Path) -> list[str]:
    """Return the words of `--threads 2 | seed = 7`, what is behind the bar in a file of `folder`.

    Several keys are separated by `;`.
    """
    words, _, settings = typed.partition("|")
    if not settings:
        return words.split()
    file = folder / "settings.toml"
    file.write_text("\n".join(settings.split(";")), encoding="utf-8")
    return [*words.split(), "--config", str(file)]
