"""Bars as SVG: a loader a row, a bar for each number of cores, whiskers from the slowest to the fastest round."""
from xml.sax.saxutils import escape

LEFT, WIDTH, BAR, GAP, TOP = 250, 560, 11, 10, 62
OURS, OTHERS, YARD = ("#0b6e8f", "#63b3c9"), ("#8a8f98", "#c3c7cd"), ("#b7791f", "#e3b873")


def _nice(top):
    step = 1
    while top / step > 7:
        step *= 10
    for part in (0.1, 0.2, 0.25, 0.5):
        if top / (step * part) <= 7:
            step *= part
            break
    return step


def _text(x, y, words, anchor="start", size=12, weight="normal", colour="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{colour}">{escape(words)}</text>')


def _bar(y, value, low, high, scale, colour):
    middle = y + BAR / 2
    return [f'<rect x="{LEFT}" y="{y}" width="{max(1, value * scale):.1f}" height="{BAR}" fill="{colour}"/>',
            f'<path d="M{LEFT + low * scale:.1f} {middle} H{LEFT + high * scale:.1f}" stroke="#222" stroke-width="1"/>',
            _text(LEFT + high * scale + 6, y + BAR - 1.5, f"{value:,.0f}", size=11)]


def draw(title, subtitle, rows, cores):
    """rows: [(label, "ours" | "other" | "yard", {cores: (median, low, high)})] -> the SVG's text"""
    top = max(high for _, _, bars in rows for _, _, high in bars.values())
    scale, step = (WIDTH - 60) / top, _nice(top)
    parts, y = [], TOP
    body = []
    for label, kind, bars in rows:
        palette = {"ours": OURS, "yard": YARD}.get(kind, OTHERS)
        body.append(_text(LEFT - 8, y + len(bars) * BAR / 2 + 4, label, "end", weight="bold" if kind == "ours" else "normal"))
        for k, (count, bar) in enumerate(sorted(bars.items())):
            body += _bar(y + k * BAR, *bar, scale, palette[min(cores.index(count), 1)])
        y += len(bars) * BAR + GAP
    for k in range(int(top / step) + 1):
        x = LEFT + k * step * scale
        parts.append(f'<path d="M{x:.1f} {TOP - 6} V{y}" stroke="#e4e6ea"/>')
        parts.append(_text(x, y + 14, f"{k * step:,.0f}", "middle", 11, colour="#666"))
    height = y + 24
    legend = "; ".join(f"{'darker' if i == 0 else 'lighter'}: {c} core{'s' if c > 1 else ''}" for i, c in enumerate(cores[:2]))
    head = [_text(LEFT, 20, title, size=15, weight="bold"), _text(LEFT, 38, subtitle + (f"; {legend}" if len(cores) > 1 else ""), colour="#555")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH} {height}" font-family="sans-serif" role="img">\n'
            f'<title>{escape(title)}</title>\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(head + parts + body) + "\n</svg>\n")
