"""`whisper-hailo inspect`: what a model directory, a graph or a HEF holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from whisper_hailo.cli.options import Argument
from whisper_hailo.cli.streams import emit, emit_json
from whisper_hailo.core.flags import Flag


def inspect(
    path: Annotated[Path, Argument("Model directory, ONNX file or HEF.")],
    as_json: Annotated[bool, Flag("Print JSON.", name="--json")] = False,
) -> None:
    """Show dimensions, windows, quantisation, sizes and hashes."""
    from whisper_hailo.convert.inspect import describe

    facts = describe(path)
    if as_json:
        emit_json(facts, indent=2)
    else:
        emit("\n".join(_lines(facts)) + "\n")


def _lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    """Format facts as an indented outline, one line each."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {value}")
    return lines
