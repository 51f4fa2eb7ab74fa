"""The table of `backend_matrix.py`: a function of its result."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.marks import remark

BEGIN, END = "<!-- backend matrix: begin -->", "<!-- backend matrix: end -->"


def filled(page: str, result: dict[str, Any], weights: str) -> str:
    """The page with the table of this result in its place; `weights` as for `table`."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(result, weights)}\n{END}{tail}"


def table(result: dict[str, Any], weights: str) -> str:
    """Markdown: one line per pair, the texts below, and what is refused.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    heard = [row for row in result["cells"] if "refused" not in row]
    texts = list(dict.fromkeys(row["text"] for row in heard))
    lines = [
        f"`python benchmarks/backend_matrix.py`: `micro` ({result['weights'][:8]}), "
        f"{result['clips']} clips of `tests/data/micro/seen`, one thread, a fresh process each; "
        "medians of processor time per clip, memory after loading / after warm-up without the "
        f"interpreter; {result['machine']}, shared with other work"
        f"{remark([result['weights']], weights)}. HEFs run on the stand-in for the vendor's "
        "binding: true texts, no times.",
        "",
        "| encoder | decoder | text | WER % | encoder ms | decoder ms | total ms | MiB |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(row, texts) for row in heard),
        "",
        "Texts of the first clip:",
        "",
        *(f"- {_letter(i)}: {text or '(none)'}" for i, text in enumerate(texts)),
        "",
        "Refused before anything is loaded:",
        "",
    ]
    refused: dict[str, list[str]] = {}
    for row in result["cells"]:
        if "refused" in row:
            refused.setdefault(row["refused"], []).append(f"{row['encoder']} with {row['decoder']}")
    lines += [f'- "{message}": {"; ".join(who)}' for message, who in refused.items()]
    return "\n".join(lines)


def _line(row: dict[str, Any], texts: list[str]) -> str:
    chips = ["HEF" in row["encoder"], "HEF" in row["decoder"]]
    on_chip = [*chips, any(chips)]
    times = [
        "-" if hidden else f"{row[f'{part}_ms']:.1f}"
        for part, hidden in zip(("encoder", "decoder", "total"), on_chip, strict=True)
    ]
    memory = "-" if any(chips) else f"{row['load_mib']:.0f} / {row['warm_mib']:.0f}"
    text = _letter(texts.index(row["text"]))
    cells = [row["encoder"], row["decoder"], text, f"{100 * row['wer']:.1f}", *times, memory]
    return f"| {' | '.join(cells)} |"


def _letter(index: int) -> str:
    """A to Z, then A2 and so on."""
    return chr(ord("A") + index % 26) + (str(index // 26 + 1) if index >= 26 else "")
