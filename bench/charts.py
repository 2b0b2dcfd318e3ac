"""SVG charts: lines over message sizes on logarithmic axes, and bars. Every series has a name at its end, a colour
and a mark; ours are thicker. Text is escaped, so that the files are always well-formed."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 70, 60
# Colour-blind safe colours (Okabe and Ito); repeated with dashes.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
FONT = "font-family='sans-serif'"


@dataclass
class Series:
    name: str
    points: list        # (x, y) or (x, y, least, greatest)
    ours: bool = False


class Drawing:
    def __init__(self, title, subtitle):
        self.parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}'>",
                      f"<title>{escape(title)}</title>", f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>"]
        self.text(LEFT, 30, title, 20, bold=True)
        self.text(LEFT, 52, subtitle, 12, colour="#555555")

    def text(self, x, y, content, size=12, anchor="start", colour="#222222", bold=False, turned=False):
        turn = f" transform='rotate(-90 {x:.1f} {y:.1f})'" if turned else ""
        weight = " font-weight='bold'" if bold else ""
        self.parts.append(f"<text x='{x:.1f}' y='{y:.1f}' {FONT} font-size='{size}' text-anchor='{anchor}' fill='{colour}'{weight}{turn}>{escape(content)}</text>")

    def line(self, x1, y1, x2, y2, colour="#dddddd", width=1.0, dash=""):
        dashed = f" stroke-dasharray='{dash}'" if dash else ""
        self.parts.append(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'{dashed}/>")

    def finish(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def size_label(size):
    if size >= 1 << 20:
        return f"{size >> 20} MiB"
    return f"{size >> 10} KiB" if size >= 1 << 10 else f"{size} B"


def ticks(least, greatest):
    """1, 2 and 5 of each decade in the range."""
    found = []
    for exponent in range(math.floor(math.log10(least)), math.ceil(math.log10(greatest)) + 1):
        found += [digit * 10.0 ** exponent for digit in (1, 2, 5)]
    return [value for value in found if least <= value <= greatest * 1.001]


def number(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def scale(values, low, high):
    """Maps values to positions, logarithmically."""
    least, greatest = math.log(min(values)), math.log(max(values))
    span = greatest - least or 1.0
    return lambda value: low + (math.log(value) - least) / span * (high - low)


def apart(places, gap):
    """Moves labels down until they do not overlap: {name: y}."""
    moved, last = {}, -math.inf
    for name, place in sorted(places.items(), key=lambda one: one[1]):
        last = max(place, last + gap)
        moved[name] = last
    return moved


def style(index):
    return COLOURS[index % len(COLOURS)], "" if index < len(COLOURS) else "6 3"


def line_chart(title, subtitle, unit, series, limits=()):
    """Figures by message size, with two logarithmic axes. `limits`, (name, value), are dotted horizontal lines."""
    drawing = Drawing(title, subtitle)
    series = [one for one in series if one.points]
    if not series:
        drawing.text(LEFT, HEIGHT / 2, "nothing was measured")
        return drawing.finish()
    sizes = sorted({point[0] for one in series for point in one.points})
    values = [point[1] for one in series for point in one.points] + [value for _, value in limits]
    bottom, top = min(values) * 0.8, max(values) * 1.25
    place_x = scale(sizes, LEFT + 20, WIDTH - RIGHT - 20)
    place_y = scale([bottom, top], HEIGHT - BOTTOM, TOP)
    for value in ticks(bottom, top):
        drawing.line(LEFT, place_y(value), WIDTH - RIGHT, place_y(value))
        drawing.text(LEFT - 8, place_y(value) + 4, number(value), anchor="end")
    for size in sizes:
        drawing.line(place_x(size), TOP, place_x(size), HEIGHT - BOTTOM, "#eeeeee")
        drawing.text(place_x(size), HEIGHT - BOTTOM + 20, size_label(size), anchor="middle")
    drawing.text(24, (TOP + HEIGHT - BOTTOM) / 2, unit, anchor="middle", turned=True)
    drawing.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "size of the message", anchor="middle")
    for name, value in limits:
        drawing.line(LEFT, place_y(value), WIDTH - RIGHT, place_y(value), "#444444", 1.2, "2 3")
        drawing.text(LEFT + 4, place_y(value) - 4, name, 10, colour="#444444")
    ends = apart({one.name: place_y(max(one.points)[1]) for one in series}, 15)
    for index, one in enumerate(series):
        draw_series(drawing, one, *style(index), place_x, place_y, ends[one.name])
    return drawing.finish()


def draw_series(drawing, one, colour, dash, place_x, place_y, label_y):
    points = sorted(one.points)
    path = " ".join(f"{place_x(point[0]):.1f},{place_y(point[1]):.1f}" for point in points)
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    drawing.parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{3.5 if one.ours else 1.5}'{dashed}/>")
    for point in points:
        drawing.parts.append(f"<circle cx='{place_x(point[0]):.1f}' cy='{place_y(point[1]):.1f}' r='{4 if one.ours else 3}' fill='{colour}'>"
                             f"<title>{escape(one.name)}, {size_label(point[0])}: {number(point[1])}</title></circle>")
    end_x, end_y = place_x(points[-1][0]), place_y(points[-1][1])
    drawing.line(end_x + 6, end_y, WIDTH - RIGHT + 8, label_y, colour, 0.7)
    drawing.text(WIDTH - RIGHT + 12, label_y + 4, one.name, 12, colour=colour, bold=one.ours)


def bar_chart(title, subtitle, unit, series):
    """One bar for each series, the longest first. A thin line shows the spread."""
    drawing = Drawing(title, subtitle)
    series = sorted((one for one in series if one.points), key=lambda one: -one.points[0][1])
    if not series:
        drawing.text(LEFT, HEIGHT / 2, "nothing was measured")
        return drawing.finish()
    left, right = 230, WIDTH - 110
    greatest = max(max(one.points[0][1:]) for one in series)
    step = (HEIGHT - TOP - BOTTOM) / len(series)
    for index, one in enumerate(series):
        value, *spread = one.points[0][1:]
        y, colour = TOP + index * step, COLOURS[0] if one.ours else COLOURS[7]
        length = (right - left) * value / greatest
        drawing.text(left - 8, y + step / 2 + 4, one.name, anchor="end", bold=one.ours)
        drawing.parts.append(f"<rect x='{left}' y='{y + step * 0.2:.1f}' width='{max(length, 1):.1f}' height='{step * 0.6:.1f}' fill='{colour}'/>")
        if len(spread) == 2:
            low, high = ((right - left) * end / greatest + left for end in spread)
            drawing.line(low, y + step / 2, high, y + step / 2, "#222222", 1.5)
        drawing.text(right + 10, y + step / 2 + 4, number(value))
    drawing.text((left + right) / 2, HEIGHT - 20, unit, anchor="middle")
    return drawing.finish()


def history_chart(title, subtitle, names, series):
    """Figures by commit, relative to the first one, on a logarithmic axis. Labels the series that changed most."""
    drawing = Drawing(title, subtitle)
    if not series or not names:
        drawing.text(LEFT, HEIGHT / 2, "nothing was measured")
        return drawing.finish()
    values = [value for one in series for _, value in one.points]
    bottom, top = min(0.8, min(values) * 0.95), max(1.25, max(values) * 1.05)
    place_y = scale([bottom, top], HEIGHT - BOTTOM, TOP)
    changed = sorted(series, key=lambda one: -abs(math.log(one.points[-1][1])))[:len(COLOURS)]
    labels = {one.name: one.name.split(" / ")[0] for one in changed}
    end = WIDTH - max(RIGHT, 16 + 6.2 * max(map(len, labels.values())))
    step = (end - LEFT - 40) / max(len(names) - 1, 1)
    place_x = lambda place: LEFT + 20 + (place - 1) * step
    for value in ticks(bottom, top):
        drawing.line(LEFT, place_y(value), end, place_y(value), "#999999" if value == 1 else "#dddddd")
        drawing.text(LEFT - 8, place_y(value) + 4, number(value), anchor="end")
    for place, name in enumerate(names, 1):
        drawing.line(place_x(place), TOP, place_x(place), HEIGHT - BOTTOM, "#eeeeee")
        if len(names) <= 12 or place in (1, len(names)):
            drawing.text(place_x(place), HEIGHT - BOTTOM + 20, name[:7], 10, anchor="middle")
    drawing.text(24, (TOP + HEIGHT - BOTTOM) / 2, "of the first figure; more is better", anchor="middle", turned=True)
    ends = apart({one.name: place_y(one.points[-1][1]) for one in changed}, 15)
    for one in series:
        named = one in changed
        colour = COLOURS[changed.index(one)] if named else "#cccccc"
        path = " ".join(f"{place_x(place):.1f},{place_y(value):.1f}" for place, value in one.points)
        drawing.parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{2 if named else 1}'/>")
        for place, value in one.points:
            drawing.parts.append(f"<circle cx='{place_x(place):.1f}' cy='{place_y(value):.1f}' r='3' fill='{colour}'>"
                                 f"<title>{escape(one.name)}, {escape(names[place - 1])}: {value:.2f}</title></circle>")
        if named:
            drawing.text(end + 8, ends[one.name] + 4, labels[one.name], 11, colour=colour)
    return drawing.finish()
