"""Tables and picture of the emulated quantisation: pure functions of its result file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whisper_hailo_lab.marks import remark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "conversion.md"
RESULT = ROOT / "docs" / "img" / "emulated-quantisation.json"
PICTURE = RESULT.with_suffix(".png")

PARTS = ("encoder", "decoder")
LABELS = {
    "float32": "float32",
    "all8": "all 8 bits",
    "adds16": "+ adds at 16",
    "norms16": "+ norms at 16",
    "script": "model script",
}
COLOURS = {"all8": "#D55E00", "adds16": "#0072B2", "norms16": "#009E73", "script": "#333333"}
MARKERS = {"all8": "o", "adds16": "s", "norms16": "^", "script": "D"}


def plan_table(result: dict[str, Any]) -> str:
    """Markdown: one line per plan and part, noise and word errors."""
    lines = [
        "| part | plan | SNR dB | cosine | WER | less that of float32 |",
        "|---|---|---|---|---|---|",
    ]
    for part in PARTS:
        for row in result[part]["plans"]:
            noise = ("", "")
            if "snr_db" in row:
                noise = (f"{row['snr_db']:.1f}", f"{row['cosine']:.4f}")
            lines.append(_line(part, LABELS[row["plan"]], *noise, _words(row), _more(row)))
    both = result["both"]
    lines.append(_line("both", LABELS[both["plan"]], "", "", _words(both), _more(both)))
    return "\n".join(lines)


def scale_table(result: dict[str, Any]) -> str:
    """Markdown: SNR by plan and by the way in which scales are chosen."""
    methods = list(next(iter(result["encoder"]["scales"].values())))
    methods.sort(key=("minmax", "percentile", "mse").index)
    lines = [
        "| part | plan | " + " | ".join(f"{method}, SNR dB" for method in methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for part in PARTS:
        for plan in COLOURS:
            found = result[part]["scales"][plan]
            cells = [f"{found[method]:.1f}" for method in methods]
            lines.append(_line(part, LABELS[plan], *cells))
    return "\n".join(lines)


def kind_table(result: dict[str, Any]) -> str:
    """Markdown: what one kind of layers costs alone."""
    lines = [
        "| at 8 bits, all else at 16 | encoder, SNR dB | decoder, SNR dB |",
        "|---|---|---|",
    ]
    names = sorted(result["encoder"]["kinds"], key=lambda name: -result["encoder"]["kinds"][name])
    for name in names:
        cells = [f"{result[part]['kinds'][name]:.1f}" for part in PARTS]
        lines.append(_line("nothing" if name == "none" else name, *cells))
    return "\n".join(lines)


TABLES = {"plans": plan_table, "kinds": kind_table, "scales": scale_table}


def insert_tables(text: str, result: dict[str, Any], weights: str) -> str:
    """A page with its tables made anew between `<!-- emulation: NAME -->` and `<!-- end -->`.

    Args:
        text: the page.
        result: of a run.
        weights: mark of the present weights; what was measured with others says so.
    """
    other = remark((result[part].get("weights", "") for part in PARTS), weights)
    origin = f"`micro`, {result['machine']}{other}.\n\n"
    for name, table in TABLES.items():
        head, tail = f"<!-- emulation: {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(head)
        _, found, after = rest.partition(tail)
        if not found:
            raise SystemExit(f"{DOCS} has no place for the table {name!r}")
        text = before + head + origin + table(result) + "\n" + tail + after
    return text


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


def draw(result: dict[str, Any], path: Path = PICTURE) -> None:
    """The picture: noise along the residual stream, at the output, and by kind of layer."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    _draw_stream(axes[0], result)
    _draw_plans(axes[1], result)
    _draw_kinds(axes[2], result)
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def _draw_stream(axes: Axes, result: dict[str, Any]) -> None:
    """SNR after every residual add of the encoder."""
    for row in result["encoder"]["plans"]:
        if "adds_snr_db" not in row:
            continue
        values = row["adds_snr_db"]
        plan = row["plan"]
        axes.plot(
            range(1, len(values) + 1),
            values,
            color=COLOURS[plan],
            marker=MARKERS[plan],
            markersize=4,
            label=LABELS[plan],
        )
    axes.set_xticks(range(1, len(values) + 1))
    axes.set_xlabel("residual add, in the order of the encoder")
    axes.set_ylabel("SNR, dB (more is better)")
    axes.set_title("Noise along the residual stream")
    axes.legend(frameon=False)


def _draw_plans(axes: Axes, result: dict[str, Any]) -> None:
    """SNR of the features and word error rate, per plan."""
    rows = [row for row in result["encoder"]["plans"] if "snr_db" in row]
    values = [row["snr_db"] for row in rows]
    bars = axes.bar(range(len(rows)), values, color=[COLOURS[row["plan"]] for row in rows])
    for bar, row in zip(bars, rows, strict=True):
        text = f"{row['snr_db']:.1f} dB\n{100 * row['wer']:.1f} % WER"
        where = (bar.get_x() + bar.get_width() / 2, bar.get_height())
        axes.annotate(
            text,
            where,
            ha="center",
            va="bottom",
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7.5,
        )
    exact = next(row for row in result["encoder"]["plans"] if row["plan"] == "float32")
    axes.set_xticks(
        range(len(rows)), [LABELS[row["plan"]].replace(" at ", "\nat ") for row in rows]
    )
    axes.set_ylim(0, max(values) * 1.22)
    axes.set_ylabel("SNR of the audio features, dB")
    axes.set_title(f"Encoder's output (float32: WER {100 * exact['wer']:.1f} %)")


def _draw_kinds(axes: Axes, result: dict[str, Any]) -> None:
    """SNR of the features when one kind alone has 8 bits."""
    found = {name: db for name, db in result["encoder"]["kinds"].items() if name != "none"}
    names = sorted(found, key=lambda name: found[name], reverse=True)
    colours = ["#D55E00" if name == "residual adds" else "#9A9A9A" for name in names]
    bars = axes.barh(range(len(names)), [found[name] for name in names], color=colours)
    for bar, name in zip(bars, names, strict=True):
        where = (bar.get_width(), bar.get_y() + bar.get_height() / 2)
        axes.annotate(
            f"{found[name]:.1f}", where, va="center", xytext=(3, 0), textcoords="offset points"
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, max(found.values()) * 1.12)
    axes.set_xlabel("SNR of the audio features, dB (shorter: costs more)")
    axes.set_title("One kind at 8 bits, all else at 16")


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


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
    low, high = row["more_interval"]
    return f"{100 * row['more']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
