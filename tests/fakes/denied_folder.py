"""Folders that cannot be looked into, for the superuser too."""

import os
from pathlib import Path
from typing import Any

import pytest


def deny(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nobody may look into folders of this name."""
    real = os.scandir

    def scan(path: Any) -> Any:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
