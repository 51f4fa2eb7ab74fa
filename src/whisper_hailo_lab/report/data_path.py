"""The way from sound to text, drawn: where the chip works and where the processor does."""

from __future__ import annotations

from html import escape

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
