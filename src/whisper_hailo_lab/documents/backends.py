"""The table of `experiments.backend_matrix`: every encoder with every decoder."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table
from whisper_hailo_lab.repository import RESULTS
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = RESULTS / "backend_matrix.json"
COLUMNS: Final = (
    "encoder", "decoder", "text", "WER %", "encoder ms", "decoder ms", "total ms", "MiB",
)  # fmt: skip


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """A line per pair, the texts below, and what is refused.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    measured = [row for row in result["cells"] if "refused" not in row]
    texts = list(dict.fromkeys(row["text"] for row in measured))
    refused: dict[str, list[str]] = {}
    for row in result["cells"]:
        if "refused" in row:
            refused.setdefault(row["refused"], []).append(f"{row['encoder']} with {row['decoder']}")
    paragraphs = (
        "`python -m whisper_hailo_lab.experiments.backend_matrix`: `micro` "
        f"({result['weights'][:8]}), {result['clips']} clips of `tests/data/micro/seen`, one "
        "thread, a fresh process each; medians of processor time per clip, memory after loading / "
        f"after warm-up without the interpreter; {result['machine']}, shared with other work"
        f"{remark([result['weights']], weights)}. HEFs run on the stand-in for the vendor's "
        "binding: true texts, no times.",
        Table(COLUMNS, tuple(_row(row, texts) for row in measured)).markdown().rstrip(),
        "Texts of the first clip:",
        "\n".join(f"- {_letter(i)}: {text or '(none)'}" for i, text in enumerate(texts)),
        "Refused before anything is loaded:",
        "\n".join(f'- "{message}": {"; ".join(who)}' for message, who in refused.items()),
    )
    return {"backends": "\n\n".join(paragraphs) + "\n"}


def _row(row: dict[str, Any], texts: list[str]) -> tuple[str, ...]:
    chips = ["HEF" in row["encoder"], "HEF" in row["decoder"]]
    times = [
        "-" if hidden else f"{row[f'{part}_ms']:.1f}"
        for part, hidden in zip(("encoder", "decoder", "total"), [*chips, any(chips)], strict=True)
    ]
    memory = "-" if any(chips) else f"{row['load_mib']:.0f} / {row['warm_mib']:.0f}"
    text = _letter(texts.index(row["text"]))
    return (row["encoder"], row["decoder"], text, f"{100 * row['wer']:.1f}", *times, memory)


def _letter(index: int) -> str:
    """A to Z, then A2 and so on."""
    return chr(ord("A") + index % 26) + (str(index // 26 + 1) if index >= 26 else "")
