"""Charts as SVG text: a roofline, bars of ratios, and lines over size. All axes of rates and sizes are logarithmic."""

import html
import math

COLORS = ["#0b6bb0", "#d1560a", "#1a8a5a", "#a8378c", "#7a6300", "#5a4fcf", "#b3261e", "#00808a", "#6b6b6b", "#c2185b"]


def number(value):
    """A number in a few characters: 0.0123, 4.56, 789, 12,300"""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def text(x, y, content, anchor="start", size=12, color="#333", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" {extra}>'
            f"{html.escape(str(content))}</text>")


def line(x1, y1, x2, y2, color="#ccc", width=1.0, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}"{dashes}/>')


def dot(x, y, color, tip, shape="circle"):
    title = f"<title>{html.escape(tip)}</title>"
    if shape == "square":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{color}" opacity="0.85">{title}</rect>'
    if shape == "triangle":
        return (f'<path d="M{x:.1f} {y - 5:.1f} l4.5 8 h-9 z" fill="{color}" opacity="0.85">{title}</path>')
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}" opacity="0.85">{title}</circle>'


def svg(width, height, parts):
    body = "\n".join(parts)
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif" role="img">\n{body}\n</svg>')


class Axis:
    """A logarithmic axis from `low` to `high`, between two places of the picture."""

    def __init__(self, values, begin, end, margin=1.3):
        low, high = min(values) / margin, max(values) * margin
        if high / low < 10:
            middle = math.sqrt(low * high)
            low, high = min(low, middle / 3.2), max(high, middle * 3.2)
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def place(self, value):
        value = min(max(value, self.low), self.high)
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        decades = math.log10(self.high / self.low)
        steps = (1,) if decades > 3 else (1, 3) if decades > 1.5 else (1, 2, 5)
        for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for step in steps:
                value = step * 10.0 ** power
                if self.low <= value <= self.high:
                    yield value


def frame(x, y, x_label, y_label):
    """Grid, ticks and labels of a chart between two axes."""
    parts = []
    for tick in x.ticks():
        parts += [line(x.place(tick), y.begin, x.place(tick), y.end, "#eee"),
                  text(x.place(tick), y.begin + 16, number(tick), "middle", 11, "#666")]
    for tick in y.ticks():
        parts += [line(x.begin, y.place(tick), x.end, y.place(tick), "#eee"),
                  text(x.begin - 6, y.place(tick) + 4, number(tick), "end", 11, "#666")]
    parts += [line(x.begin, y.begin, x.end, y.begin, "#888"), line(x.begin, y.begin, x.begin, y.end, "#888"),
              text((x.begin + x.end) / 2, y.begin + 34, x_label, "middle", 12),
              text(x.begin, y.end - 8, y_label, "start", 12)]
    return parts


def legend(entries, x, y, row_height=17):
    """One row per (name, color, shape)."""
    parts = []
    for i, (name, color, shape) in enumerate(entries):
        parts += [dot(x, y + i * row_height - 4, color, name, shape), text(x + 10, y + i * row_height, name, size=11)]
    return parts


def roofline(points, roofs, bandwidth):
    """points: (name, group, shape, flops per byte, GFLOP/s); roofs: {type: GFLOP/s}; bandwidth: GB/s of memory, or None.
    The lines are what the device can reach, a point is one benchmark."""
    width = 940
    x = Axis([p[3] for p in points] + [1], 62, 700)
    y = Axis([p[4] for p in points] + list(roofs.values()), 470, 34)
    parts = frame(x, y, "flops per byte of memory traffic", "GFLOP/s")
    if bandwidth:
        begin, end = max(x.low, y.low / bandwidth), min(x.high, max(roofs.values(), default=y.high) / bandwidth)
        if end > begin:
            middle = math.sqrt(begin * end)
            parts += [line(x.place(begin), y.place(begin * bandwidth), x.place(end), y.place(end * bandwidth), "#444", 1.6),
                      text(x.place(middle) - 8, y.place(middle * bandwidth) - 6, f"memory {number(bandwidth)} GB/s", "end", 11, "#444")]
    label_above = None  # where the last label stands, so that the next one does not cover it
    for kind, peak in sorted(roofs.items(), key=lambda roof: -roof[1]):
        begin = min(x.high, max(x.low, peak / bandwidth)) if bandwidth else x.low
        label = y.place(peak) - 5
        if label_above is not None and label - label_above < 13:
            label = y.place(peak) + 13
        label_above = label
        parts += [line(x.place(begin), y.place(peak), x.end, y.place(peak), "#444", 1.6),
                  text(x.end - 4, label, f"{kind} {number(peak)} GFLOP/s", "end", 11, "#444")]
    groups = sorted({p[1] for p in points})
    color = {group: COLORS[i % len(COLORS)] for i, group in enumerate(groups)}
    for name, group, shape, intensity, rate in points:
        tip = f"{name}: {number(rate)} GFLOP/s at {number(intensity)} flops per byte"
        parts.append(dot(x.place(intensity), y.place(rate), color[group], tip, shape))
    shapes = {"circle": "f32", "square": "f64", "triangle": "bf16"}
    parts += legend([(group, color[group], "circle") for group in groups], 722, 44)
    kinds = [(kind, "#666", shape) for shape, kind in shapes.items() if any(p[2] == shape for p in points)]
    parts += legend(kinds, 722, 44 + 17 * len(groups) + 12)
    return svg(width, max(520, 44 + 17 * (len(groups) + len(kinds)) + 12), parts)


def ratio_bars(rows):
    """rows: (name, other path, ratio, low, high): how many times as fast as the other path, with quartiles."""
    bar, top, left = 20, 34, 420
    width, height = 940, top + bar * len(rows) + 24
    x = Axis([r[2] for r in rows] + [0.5, 2], left, 870)
    parts = []
    for tick in x.ticks():
        parts += [line(x.place(tick), top - 6, x.place(tick), height - 18, "#eee"),
                  text(x.place(tick), top - 12, number(tick), "middle", 11, "#666")]
    for i, (name, other, ratio, low, high) in enumerate(rows):
        y = top + i * bar
        one, end = x.place(1), x.place(ratio)
        color = COLORS[2] if ratio >= 1 else COLORS[6]
        tip = html.escape(f"{name}: {number(ratio)} times as fast as {other}, quartiles {number(low)} to {number(high)}")
        parts += [text(left - 10, y + 12, f"{name}  vs {other}", "end", 11),
                  f'<rect x="{min(one, end):.1f}" y="{y + 2}" width="{max(1, abs(end - one)):.1f}" height="{bar - 8}" '
                  f'fill="{color}" opacity="0.75"><title>{tip}</title></rect>',
                  line(x.place(low), y + 8, x.place(high), y + 8, "#222", 1.4),
                  text(max(one, end, x.place(high)) + 6, y + 12, number(ratio), size=11)]
    parts.append(line(x.place(1), top - 6, x.place(1), height - 18, "#444", 1.4))
    return svg(width, height, parts)


def over_size(title, x_label, y_label, series):
    """A small chart. series: {name: [(size, rate)]}"""
    width, height = 460, 260
    x = Axis([s for points in series.values() for s, _ in points], 56, 330)
    y = Axis([r for points in series.values() for _, r in points], 216, 46)
    parts = [text(8, 18, title, size=13, extra='font-weight="600"')] + frame(x, y, x_label, y_label)
    entries = []
    for i, (name, points) in enumerate(sorted(series.items())):
        color = COLORS[i % len(COLORS)]
        entries.append((name, color, "circle"))
        path = " ".join(f"{x.place(s):.1f},{y.place(r):.1f}" for s, r in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        parts += [dot(x.place(s), y.place(r), color, f"{name}: {number(r)} at {number(s)}") for s, r in points]
    parts += legend(entries, 345, 60)
    return svg(width, height, parts)
