"""Model scripts: known commands, known layers."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

_COMMANDS = {
    "model_optimization_flavor",
    "model_optimization_config",
    "post_quantization_optimization",
    "pre_quantization_optimization",
    "quantization_param",
    "performance_param",
    "resources_param",
}
_LINE = re.compile(r"(\w+)\((.*)\)$")


def read_script(path: Path, names: list[str]) -> list[tuple[str, dict[str, str]]]:
    """Commands with their arguments; raises on what is no command or names no layer."""
    commands = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or match.group(1) not in _COMMANDS:
            raise ValueError(f"no command: {line}")
        words = [word.strip() for word in match.group(2).split(",")]
        arguments = dict(word.split("=", 1) for word in words if "=" in word)
        patterns = [arguments.get("layers", "")]
        if match.group(1) == "quantization_param":
            patterns.append(words[0])
        for pattern in filter(None, patterns):
            if not any(fnmatch(name, pattern.strip("{}")) for name in names):
                raise ValueError(f"no layer is called {pattern}")
        commands.append((match.group(1), arguments))
    if not commands:
        raise ValueError("an empty script")
    return commands
