"""The report's pictures, as SVG and PNG, from summaries; the same records give the same bytes.

Bars of the study are hatched and in panels of their own: they are from other hardware and must not
be read along the same axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

import numpy as np

from whisper_hailo_lab.report.canvas import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    Chart,
    bars,
    draw_chart,
    legend,
    logarithmic,
    stacked,
)
from whisper_hailo_lab.report.gather import RunSource
from whisper_hailo_lab.report.study import LIBRISPEECH, MEMORY_MB
from whisper_hailo_lab.runs.records import ComparisonRecord
from whisper_hailo_lab.runs.summary import Summary

HATCH: Final = "////"
PUBLISHED: Final = "published (Raspberry Pi 5 + Hailo-8L)"
MEASURED: Final = "measured here"


def latency_chart(source: RunSource) -> Chart | None:
    """Stacked bars of encoder, decoder and the rest, measured and published."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401 - matplotlib has no types
        left, right = axes
        stacked(left, [(s.case.name, *_parts(s)) for s in shown], hatch=None)
        left.set_title(MEASURED)
        published = [
            (row.name, row.encoder_ms or 0.0, row.decoder_ms or 0.0,
             row.total_ms - (row.encoder_ms or 0.0) - (row.decoder_ms or 0.0))
            for row in LIBRISPEECH
        ]  # fmt: skip
        stacked(right, published, hatch=HATCH)
        right.set_title(PUBLISHED)
        for ax in axes:
            ax.set_xlabel("mean ms per file")
        legend(left, 3)

    rows = max(len(shown), len(LIBRISPEECH))
    return draw_chart("latency", "Time per file: encoder, decoder, the rest", draw, (1, 2), rows)


def _parts(summary: Summary) -> tuple[float, float, float]:
    """Encoder, decoder and the rest in mean milliseconds."""
    times = summary.times
    if times is None:
        return 0.0, 0.0, 0.0
    encoder, decoder = times.encoder_ms or 0.0, times.decoder_ms or 0.0
    return encoder, decoder, max(0.0, times.total_ms - encoder - decoder)


def tail_chart(source: RunSource) -> Chart | None:
    """Every file's time, with the median and the 95th percentile."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        ax = axes[0]
        for y, summary in enumerate(shown):
            files = [r.total_ms for r in source.files[summary.case.name] if not r.error]
            ax.plot(files, [y] * len(files), "|", color=GREY, markersize=9)
            times = summary.times
            if times is not None:
                ax.plot(times.median_ms, y, "o", color=BLUE, label="median" if y == 0 else None)
                ax.plot(
                    times.p95_ms, y, "D", color=RED, label="95th percentile" if y == 0 else None
                )
        ax.set_yticks(range(len(shown)), [s.case.name for s in shown])
        ax.invert_yaxis()
        logarithmic(ax)
        ax.set_xlabel("ms per file (logarithmic); a line is one file")
        legend(ax, 2)

    return draw_chart("tail", "Tail latency", draw, (1, 1), len(shown))


def memory_chart(source: RunSource) -> Chart | None:
    """Load and warm-up per component, measured and published."""
    bars = [
        (f"{s.case.name}: {component}", s.case.memory.load.get(component, 0.0),
         s.case.memory.warm_up.get(component, 0.0))
        for s in source.systems
        for component in dict.fromkeys([*s.case.memory.load, *s.case.memory.warm_up])
    ]  # fmt: skip
    if not bars:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        published = [(name, load, warm - load) for name, (load, warm) in MEMORY_MB.items()]
        for ax, rows, hatch in ((left, bars, None), (right, published, HATCH)):
            labels = [row[0] for row in rows]
            load, warm = (np.array([row[i] for row in rows]) for i in (1, 2))
            style = {"hatch": hatch, "edgecolor": "white"}
            ax.barh(labels, load, color=GREEN, label="load", **style)
            ax.barh(labels, warm, left=load, color=ORANGE, label="warm-up", **style)
            ax.invert_yaxis()
        left.set_title(MEASURED)
        right.set_title(PUBLISHED)
        left.set_xlabel("growth of resident memory, MiB")
        right.set_xlabel("MB")
        legend(left, 2)

    return draw_chart("memory", "Memory by component", draw, (1, 2), max(len(bars), len(MEMORY_MB)))


def accuracy_chart(source: RunSource) -> Chart | None:
    """Word error rates in both forms."""
    shown = [s for s in source.systems if s.n_heard]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        y = np.arange(len(shown))
        corpus = [100 * s.normalised.words.rate for s in shown]
        simple = [100 * s.simple.mean_wer for s in shown]
        left.barh(y - 0.2, corpus, 0.4, color=BLUE, label="corpus WER, normalised")
        left.barh(y + 0.2, simple, 0.4, color=ORANGE, label="mean WER, simple (the study's)")
        left.set_yticks(y, [s.case.name for s in shown])
        right.barh(
            [row.name for row in LIBRISPEECH], [100 * row.wer for row in LIBRISPEECH],
            color=ORANGE, hatch=HATCH, edgecolor="white",
        )  # fmt: skip
        left.set_title(MEASURED)
        right.set_title(f"{PUBLISHED}, LibriSpeech")
        for ax in axes:
            ax.invert_yaxis()
            ax.set_xlabel("%")
        legend(left, 2)

    return draw_chart(
        "accuracy", "Word error rate", draw, (1, 2), max(len(shown), len(LIBRISPEECH))
    )


def scatter_chart(source: RunSource) -> Chart | None:
    """Word error rate against time, each point a case."""
    shown = [s for s in source.systems if s.times is not None]
    if not shown:
        return None

    def draw(axes: Any) -> None:  # noqa: ANN401
        left, right = axes
        for number, s in enumerate(shown, 1):
            if s.times is not None:
                x, y = s.times.median_ms, 100 * s.simple.mean_wer
                colour = BLUE if s.case.system == "ours" else RED
                left.plot(x, y, "o", color=colour)
                left.annotate(str(number), (x, y), (4, 4), textcoords="offset points", fontsize=8)
                left.plot([], [], " ", label=f"{number}  {s.case.name}")
        for row in LIBRISPEECH:
            right.plot(row.total_ms, 100 * row.wer, "o", mfc="none", color=GREY)
            right.annotate(
                row.name, (row.total_ms, 100 * row.wer), (0, 6), textcoords="offset points",
                fontsize=7, ha="center",
            )  # fmt: skip
        left.set_title(f"{MEASURED} (blue: ours)")
        right.set_title(PUBLISHED)
        right.margins(0.25, 0.15)
        for ax in axes:
            logarithmic(ax)
            ax.set_xlabel("ms per file (logarithmic)")
            ax.set_ylabel("simple mean WER, %")
        legend(left, 2)

    return draw_chart("scatter", "Accuracy against time", draw, (1, 2), 9)


def comparison_chart(record: ComparisonRecord) -> Chart | None:
    """The picture of one comparison; `mel` has none but its table."""
    draw = {"cache": _draw_cache, "window": _draw_window, "precision": _draw_window,
            "padding": _draw_padding, "captions": _draw_captions}.get(record.name)  # fmt: skip
    if draw is None or not record.rows:
        return None
    titles = {
        "cache": "Decoding with and without a cache",
        "window": "Short and full windows",
        "precision": "Weights of encoder and decoder",
        "padding": "Padding before cross-attention",
        "captions": "Live captions of the same stream",
    }
    return draw_chart(
        record.name, titles[record.name], lambda axes: draw(axes, record.rows), (1, 2), 6
    )


def _draw_cache(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    first = rows[0].get("what", "")
    shown = [row for row in rows if row.get("what", "") == first]
    labels, colours = [row["decoder"] for row in shown], [RED, ORANGE, BLUE, GREEN][: len(shown)]
    title = f"attention rows computed, {first}".rstrip(", ")
    bars(axes[0], labels, [row["attention_rows"] for row in shown], title, colour=colours, digits=0)
    bars(
        axes[1],
        labels,
        [row["ms"] for row in shown],
        "median ms",
        colour=colours,
        digits=0,
        labelled=False,
    )


def _draw_window(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["value"]) for row in rows]
    parts = [
        (label, row["encoder_ms"] or 0.0, row["decoder_ms"] or 0.0, 0.0)
        for label, row in zip(labels, rows, strict=True)
    ]
    stacked(axes[0], parts, hatch=None)
    axes[0].set_title("mean ms per file")
    legend(axes[0], 2)
    _error_bars(axes[1], labels, rows)


def _draw_padding(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["value"]) for row in rows]
    y = np.arange(len(rows))
    ran, repeats = ([row[key] or 0 for row in rows] for key in ("runaway", "repetitive"))
    axes[0].barh(y - 0.2, ran, 0.4, color=RED, label="budget ran out")
    axes[0].barh(y + 0.2, repeats, 0.4, color=ORANGE, label="repeats itself")
    axes[0].set_yticks(y, labels)
    axes[0].set_xlim(0, max(1, *ran, *repeats) * 1.1)
    axes[0].invert_yaxis()
    axes[0].set_title(f"files, of {rows[0]['files']}")
    legend(axes[0], 2)
    _error_bars(axes[1], labels, rows)


def _draw_captions(axes: Any, rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    labels = [str(row["way"]) for row in rows]
    for ax, key, title, colour, digits in (
        (axes[0], "decode_ms_per_partial", "decoder ms per partial", ORANGE, 1),
        (axes[1], "corrections_per_word", "words shown and then changed, per word", BLUE, 2),
    ):
        values = [row[key] or 0.0 for row in rows]
        bars(ax, labels, values, title, colour=colour, digits=digits, labelled=ax is axes[0])


def _error_bars(ax: Any, labels: list[str], rows: Sequence[dict[str, Any]]) -> None:  # noqa: ANN401
    bars(ax, labels, [100 * (row["wer"] or 0.0) for row in rows], "corpus WER, %", labelled=False)


STAGES = (
    ("audio", "16 kHz mono", "any format", "cpu"),
    ("log-mel", "80 x 1000", "per 10 s window", "cpu"),
    ("encoder", "500 x d", "fixed shape", "npu"),
    ("cross K/V", "once a window", "+ 1 column of padding", "cpu"),
    ("decoder", "a token a step", "with a cache", "cpu"),
    ("text", "segments", "txt, json", "cpu"),
)
COLOURS = {"cpu": "#e8f1f8", "npu": "#fdebd0"}
WIDTH, HEIGHT, GAP = 128, 66, 26


def data_path_svg() -> str:
    """An SVG picture, the same for every report."""
    total = len(STAGES) * (WIDTH + GAP) - GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT + 26}" role="img" '
        f'aria-label="data path" font-family="sans-serif">'
    ]
    for index, (name, shape, note, where) in enumerate(STAGES):
        x = index * (WIDTH + GAP)
        centre = x + WIDTH / 2
        parts.append(
            f'<rect x="{x}" y="0" width="{WIDTH}" height="{HEIGHT}" rx="6" '
            f'fill="{COLOURS[where]}" stroke="#555"/>'
        )
        for y, text, size, weight in (
            (20, name, 14, 700),
            (39, shape, 11, 400),
            (55, note, 11, 400),
        ):
            parts.append(
                f'<text x="{centre:g}" y="{y}" text-anchor="middle" font-size="{size}" '
                f'font-weight="{weight}">{escape(text)}</text>'
            )
        if index + 1 < len(STAGES):
            start, end, middle = x + WIDTH + 2, x + WIDTH + GAP - 3, HEIGHT / 2
            parts.append(
                f'<path d="M{start} {middle:g} H{end - 6} m0 -4 l6 4 l-6 4" fill="none" '
                'stroke="#555"/>'
            )
    parts.append(
        f'<text x="0" y="{HEIGHT + 18}" font-size="11" fill="#444">blue: processor; orange: Hailo '
        "chip where there is one, else the processor too</text></svg>"
    )
    return "".join(parts) + "\n"
