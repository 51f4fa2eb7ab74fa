"""The tables of the emulated quantisation, and what its document says in words."""

from __future__ import annotations

from typing import Any, Final

from whisper_hailo_lab.report.table import Table, difference_text
from whisper_hailo_lab.repository import ROOT
from whisper_hailo_lab.runs.machine import remark

RESULT: Final = ROOT / "docs" / "img" / "emulated-quantisation.json"
PARTS: Final = ("encoder", "decoder")
LABELS: Final = {
    "float32": "float32",
    "all8": "all 8 bits",
    "adds16": "+ adds at 16",
    "norms16": "+ norms at 16",
    "script": "model script",
}


def tables(result: dict[str, Any], weights: str) -> dict[str, str]:
    """Plans and kinds of layers.

    Args:
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    other = remark((result[part].get("weights", "") for part in PARTS), weights)
    origin = f"`micro`, {result['machine']}{other}.\n\n"
    made = {"plans": plan_table, "kinds": kind_table}
    return {f"emulation-{name}": origin + make(result).markdown() for name, make in made.items()}


def plan_table(result: dict[str, Any]) -> Table:
    """One line per plan and part, noise and word errors."""
    rows = [(part, row) for part in PARTS for row in result[part]["plans"]]
    cells = tuple(
        (part, LABELS[row["plan"]], *_noise(row), _words(row), _more(row))
        for part, row in [*rows, ("both", result["both"])]
    )
    return Table(("part", "plan", "SNR dB", "cosine", "WER", "less that of float32"), cells)


def kind_table(result: dict[str, Any]) -> Table:
    """What one kind of layers costs alone."""
    kinds = result["encoder"]["kinds"]
    cells = tuple(
        (
            "nothing" if name == "none" else name,
            *(f"{result[part]['kinds'][name]:.1f}" for part in PARTS),
        )
        for name in sorted(kinds, key=lambda name: -kinds[name])
    )
    return Table(("at 8 bits, all else at 16", "encoder, SNR dB", "decoder, SNR dB"), cells)


def contradictions(result: dict[str, Any]) -> list[str]:
    """What the page says in words and this result does not bear out."""
    kinds = result["encoder"]["kinds"]
    claims = {
        "adds and attention's products cost an encoder most": set(
            sorted(kinds, key=lambda name: kinds[name])[:2]
        )
        == {"residual adds", "attention's products"},
        "16-bit adds gain more than 16-bit norms after them": _gain(result, "all8", "adds16")
        > _gain(result, "adds16", "norms16"),
    }
    return [claim for claim, holds in claims.items() if not holds]


def _gain(result: dict[str, Any], before: str, after: str) -> float:
    found = {row["plan"]: row for row in result["encoder"]["plans"]}
    gain_db: float = found[after]["snr_db"] - found[before]["snr_db"]
    return gain_db


def _noise(row: dict[str, Any]) -> tuple[str, str]:
    return (f"{row['snr_db']:.1f}", f"{row['cosine']:.4f}") if "snr_db" in row else ("", "")


def _words(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return (
        f"{100 * row['wer']:.1f} % ({100 * low:.1f}-{100 * high:.1f}; {row['substitutions']} S "
        f"{row['deletions']} D {row['insertions']} I of {row['words']}, {row['clips']} clips)"
    )


def _more(row: dict[str, Any]) -> str:
    """Points of WER more than float32 on the same clips, with the paired interval."""
    if row["plan"] == "float32" or "more" not in row:
        return ""
    return difference_text(row["more"], row["more_interval"])
