"""The table of `fallback.py`: a function of its result."""

from __future__ import annotations

from typing import Any

from whisper_hailo_lab.marks import remark
from whisper_hailo_lab.score import Score, corpus

BEGIN, END = "<!-- fallback: begin -->", "<!-- fallback: end -->"


def table(result: dict[str, Any], weights: str) -> str:
    """Markdown: a line per set.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    lines = [
        f"`make fallback`: `micro`, at most {result['limit']} clips of each frozen set, 10 s "
        f"windows, off and on in turns; {result['machine']}"
        f"{remark([result.get('weights', '')], weights)}. Of times only the ratio is shown, since "
        "other work slows both alike.",
        "",
        "| set | clips | WER off | WER on | clips with text off / on | segments found hot "
        "| decoder time on : off |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        off, on = row["off"], row["on"]
        rates = [corpus(Score(*counts) for counts in found["counts"]) for found in (off, on)]
        wer = [f"{100 * r.rate:.1f} %" if r.reference_count else "-" for r in rates]
        lines.append(
            f"| {row['set']} | {row['clips']} | {wer[0]} | {wer[1]} | "
            f"{off['with_text']} / {on['with_text']} | {on['hot']} of {on['segments']} | "
            f"{on['decode_ms'] / off['decode_ms']:.2f} |"
        )
    return "\n".join(lines)


def filled(page: str, result: dict[str, Any], weights: str) -> str:
    """The page with the table of this result in its place; `weights` as for `table`."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(result, weights)}\n{END}{tail}"
