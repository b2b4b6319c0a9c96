"""What notebooks show: plans and memory as pictures, losses as curves."""
import html
import math


def plan(plan):
    """The memory over the time of a step, and below it the plan as text."""
    return f'<div style="overflow-x: auto">{plan.svg}</div><details><summary>as text</summary>' \
           f"<pre>{html.escape(plan.text)}</pre></details>"


def fit(result):
    """The losses of the steps and of evaluations, as curves."""
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{value:.6g}</td></tr>"
                   for name, value in result.last_evaluation.items())
    return curves({"loss": result.losses, "held-out loss": result.evaluation_losses}) + \
        (f"<table><caption>last evaluation</caption>{rows}</table>" if rows else "")


def curves(lines, width=640, height=240):
    """Lines of (step, number) by name, as SVG. Numbers that are not finite are left out."""
    lines = {name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in lines.items()}
    points = [point for line in lines.values() for point in line]
    if not points:
        return "<p>no numbers yet</p>"
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points), max(y for _, y in points)
    left, bottom = 60, 24

    def place(x, y):
        across = (x - low_x) / (high_x - low_x or 1)
        up = (y - low_y) / (high_y - low_y or 1)
        return f"{left + across * (width - left - 10):.1f},{height - bottom - up * (height - bottom - 20):.1f}"

    colours = ["#2468b2", "#c2571a", "#2e8540", "#8a3ca8"]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             f'font-size="11"><rect width="{width}" height="{height}" fill="white"/>']
    for text, x, y in [(f"{high_y:.4g}", 4, 24), (f"{low_y:.4g}", 4, height - bottom), (f"step {low_x}", left, height - 6),
                       (f"step {high_x}", width - 70, height - 6)]:
        parts.append(f'<text x="{x}" y="{y}" fill="#555">{text}</text>')
    for index, (name, line) in enumerate((name, line) for name, line in lines.items() if line):
        colour = colours[index % len(colours)]
        spots = " ".join(place(x, y) for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{spots}"/>')
        parts.append(f'<text x="{left + 120 * index}" y="12" fill="{colour}">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>"
