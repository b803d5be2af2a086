"""report.html: what a benchmark run found, for a reader with a minute."""

import html
import statistics

import charts
import results
from samples import median, quartiles

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 980px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: 0.1em; } h2 { font-size: 1.2em; margin-top: 2em; }
p.note { color: #555; margin: 0.2em 0 0.8em; max-width: 46em; }
table { border-collapse: collapse; font-size: 13px; } th, td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #eee; }
th:first-child, td:first-child { text-align: left; } th { color: #555; font-weight: 600; }
dl { display: grid; grid-template-columns: max-content auto; gap: 2px 16px; font-size: 14px; } dt { color: #555; } dd { margin: 0; }
.failure { background: #fdecea; border-left: 4px solid #b3261e; padding: 4px 10px; margin: 4px 0; font-size: 13px; white-space: pre-wrap; }
.slower { color: #b3261e; font-weight: 600; } .faster { color: #1a7a4a; font-weight: 600; } .unclear { color: #777; }
svg { max-width: 100%; height: auto; } details { margin-top: 1em; } summary { cursor: pointer; }
"""

PATHS = ("onemkl", "loop", "plain", "runtime")  # what "sycl" is compared with
SHAPES = {"f32": "circle", "f64": "square", "bf16": "triangle"}


def escape(value):
    return html.escape(str(value))


def document(title, body):
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n')


def facts(pairs):
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in pairs if value not in (None, "", {}))
    return f"<dl>{rows}</dl>"


def table(header, rows):
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def measured(run):
    return [r for r in run["results"] if r["seconds"] and not r["failure"]]


def failures(run):
    lines = [f"{r['name']}: {r['failure']}" for r in run["results"] if r["failure"]]
    return lines + [f"{p['name']}: {p['error']}" for p in run.get("programs", []) if p.get("error")]


def pairs_of(run):
    """(comparison, result of sycl, result of another path) for all paths that were measured."""
    by_name = {}
    for result in measured(run):
        by_name.setdefault(results.comparison_of(result), {})[result["path"]] = result
    for name, paths in by_name.items():
        for other in PATHS:
            if "sycl" in paths and other in paths:
                yield name, paths["sycl"], paths[other]


def ratio_of(sycl, other):
    """The speed-up: the ratio of medians, and its range over the quartiles of both."""
    (a1, a3), (b1, b3) = quartiles(sycl["seconds"]), quartiles(other["seconds"])
    return median(other["seconds"]) / median(sycl["seconds"]), b1 / a3, b3 / a1


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else None


def summary(run, pairs):
    found = failures(run)
    lines = [f"<b>{len(measured(run))}</b> benchmarks measured" +
             (f", <b class=slower>{len(found)} failed</b>" if found else ", none failed") + "."]
    for other, name in (("onemkl", "oneMKL"), ("loop", "a plain C++ loop on all threads of the host"),
                        ("plain", "the obvious algorithm")):
        ratios = [ratio_of(a, b)[0] for _, a, b in pairs if b["path"] == other]
        if ratios:
            lines.append(f"Against {name}: <b>{charts.number(geometric_mean(ratios))}</b> times as fast in the geometric mean "
                         f"of {len(ratios)} comparisons ({charts.number(min(ratios))} to {charts.number(max(ratios))}).")
    shares = [median(r["roofline"]) for r in measured(run) if r["path"] == "sycl" and r["roofline"]]
    if shares:
        lines.append(f"Share of what the device can reach (roofline): median <b>{median(shares):.2f}</b>, best {max(shares):.2f}.")
    return "<p>" + "<br>".join(lines) + "</p>"


def roofline_section(run):
    points = [(r["name"], r["operation"], SHAPES.get(r["type"], "circle"), r["intensity"], median(r["gflops"]))
              for r in measured(run) if r["path"] == "sycl" and r["intensity"] and r["gflops"]]
    if not points:
        return ""
    roofs = {kind: peak for kind, peak in run.get("peaks", {}).get("gflops", {}).items()}
    copies = run.get("peaks", {}).get("copy_gigabytes_per_second", {})
    bandwidth = copies[max(copies, key=int)] if copies else None
    return ('<h2>Roofline</h2><p class="note">Each mark is one benchmark of this library. The lines are measured: the highest rate '
            "of multiply-adds, and the bandwidth of a copy that exceeds the caches. A mark on a line uses all that the device has; "
            "marks above the slope work in the caches. Hover over a mark for its name.</p>"
            + charts.roofline(points, roofs, bandwidth))


def ratio_section(pairs):
    rows = [(name, other["path"], *ratio_of(sycl, other)) for name, sycl, other in pairs]
    if not rows:
        return ""
    rows.sort(key=lambda row: (row[1], row[0]))
    return ('<h2>Against the CPU paths</h2><p class="note">Speed-up over the named CPU library, on the same machine in the same run; '
            "right of 1 is faster. The thin line spans the quartiles.</p>" + charts.ratio_bars(rows))


def size_section(run):
    groups = {}
    for result in measured(run):
        rate, unit = (result["gflops"], "GFLOP/s") if result["gflops"] else (result["gigabytes_per_second"], "GB/s")
        if not rate or not result["sizes"]:
            continue
        for key, value in result["sizes"].items():
            rest = tuple((k, v) for k, v in result["sizes"].items() if k != key)
            place = groups.setdefault((result["operation"], result["type"], key, rest, unit), {})
            place.setdefault(result["path"], []).append((value, median(rate)))
    drawn = []
    for (operation, kind, key, rest, unit), series in sorted(groups.items()):
        series = {path: points for path, points in series.items() if len({size for size, _ in points}) >= 3}
        if series:
            fixed = "".join(f", {k} {v}" for k, v in rest)
            drawn.append(charts.over_size(f"{operation} {kind}{fixed}", key, unit, series))
    if not drawn:
        return ""
    return "<h2>Throughput over size</h2>\n" + "\n".join(drawn)


def result_table(run):
    rows = []
    for r in measured(run):
        low, high = quartiles(r["seconds"])
        cell = lambda values: charts.number(median(values)) if values else ""
        residuals = ", ".join(f"{escape(k)} {charts.number(v)}" for k, v in r["residuals"].items())
        rows.append([escape(r["name"]), charts.number(median(r["seconds"]) * 1e3),
                     f"{charts.number(low * 1e3)} - {charts.number(high * 1e3)}", len(r["seconds"]), cell(r["gflops"]),
                     cell(r["gigabytes_per_second"]), cell(r["roofline"]), residuals])
    return ("<details><summary>All results</summary>"
            + table(["benchmark", "median ms", "quartiles ms", "repetitions", "GFLOP/s", "GB/s", "roofline", "residuals"], rows)
            + "</details>")


def device_facts(run):
    device, peaks = run["device"], run.get("peaks", {})
    clocks = run.get("sensors", [])
    return [("device", device.get("name")), ("driver", f"{device.get('driver')} ({device.get('backend')})"),
            ("compute units", device.get("compute_units")), ("host", run.get("host", {}).get("cpu")),
            ("peak GFLOP/s", ", ".join(f"{k} {charts.number(v)}" for k, v in peaks.get("gflops", {}).items())),
            ("copy GB/s", ", ".join(f"{k} MiB {charts.number(v)}" for k, v in
                                    sorted(peaks.get("copy_gigabytes_per_second", {}).items(), key=lambda one: int(one[0])))),
            ("clock MHz", span_of([s["clock_mhz"] for s in clocks if s.get("clock_mhz")])),
            ("power W", span_of([s["power_watts"] for s in clocks if s.get("power_watts")])),
            ("nullscope", run.get("nullscope")), ("runtime", run.get("runtime")), ("compiler", run.get("compiler")),
            ("date", run.get("date")), ("mode", "quick" if run.get("quick") else "full")]


def span_of(values):
    if not values:
        return None
    return charts.number(values[0]) if min(values) == max(values) else f"{charts.number(min(values))} to {charts.number(max(values))}"


def report(run):
    """The whole page for one run."""
    pairs = list(pairs_of(run))
    found = failures(run)
    shown = "".join(f'<div class="failure">{escape(line)}</div>' for line in found)
    body = (f"<h1>Benchmarks on {escape(run['device'].get('name'))}</h1>" + summary(run, pairs) + facts(device_facts(run))
            + (f"<h2>Failures</h2>{shown}" if found else "") + roofline_section(run) + ratio_section(pairs)
            + size_section(run) + result_table(run))
    return document(f"Nullscope on {run['device'].get('name')}", body)
