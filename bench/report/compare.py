#!/usr/bin/env python3
"""Compares benchmark runs, of several devices or of several versions:  ./run bench compare a.json b.json ..."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import charts
import page
import results
from samples import median, quartiles, rank_test, smallest_p

EXIT_CODES = "exit codes: 0 nothing is slower than the threshold; 1 something is, or fails that did not; 2 wrong arguments"


def by_name(run):
    return {r["name"]: r for r in run["results"]}


class Change:
    """One benchmark in the first run and in another."""

    def __init__(self, before, after, threshold, significance):
        self.name = before["name"]
        self.before, self.after = before, after
        self.newly_failed = bool(after["failure"]) and not before["failure"]
        self.is_measured = bool(before["seconds"] and after["seconds"]) and not (before["failure"] or after["failure"])
        self.ratio = self.p = None
        self.verdict = "failed" if self.newly_failed else "not measured"
        if not self.is_measured:
            return
        self.ratio = median(after["seconds"]) / median(before["seconds"])  # above 1: slower
        self.p = rank_test(before["seconds"], after["seconds"])
        is_real = self.p <= significance
        is_large = self.ratio > 1 + threshold or self.ratio < 1 / (1 + threshold)
        self.verdict = "same" if not (is_real and is_large) else "slower" if self.ratio > 1 else "faster"

    @property
    def is_worse(self):
        return self.verdict in ("slower", "failed")


def changes_of(first, other, threshold, significance):
    known = by_name(other)
    return [Change(r, known[r["name"]], threshold, significance) for r in first["results"] if r["name"] in known]


def title_of(run, path):
    return f"{run['device'].get('name', 'unknown')} ({run.get('nullscope', '?')}, {os.path.basename(os.path.dirname(path)) or path})"


def time_cell(result):
    if result is None:
        return "-"
    if result["failure"] or not result["seconds"]:
        return "FAILED"
    low, high = quartiles(result["seconds"])
    return f"{charts.number(median(result['seconds']) * 1e3)} [{charts.number(low * 1e3)}, {charts.number(high * 1e3)}]"


def print_changes(changes, show_all):
    """A table on stdout; without show_all only what differs."""
    shown = [c for c in changes if show_all or c.verdict not in ("same", "not measured")]
    if not shown:
        return
    rows = [("benchmark", "before ms", "after ms", "time", "p", "")]
    for c in shown:
        rows.append((c.name, time_cell(c.before), time_cell(c.after), f"x {c.ratio:.3f}" if c.ratio else "",
                     f"{c.p:.2g}" if c.p is not None else "", c.verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        print("  ".join(cell.ljust(widths[i]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)).rstrip())


def html_rows(runs, all_changes):
    """One row per benchmark of the first run, with a cell for each run."""
    lookup = [by_name(run) for run in runs]
    found = [{c.name: c for c in changes} for changes in all_changes]
    for name, first in lookup[0].items():
        row = [page.escape(name), page.escape(time_cell(first))]
        for i, known in enumerate(lookup[1:]):
            change = found[i].get(name)
            row.append(page.escape(time_cell(known.get(name))))
            if change is None or change.ratio is None:
                row.append("")
                continue
            css = {"slower": "slower", "failed": "slower", "faster": "faster"}.get(change.verdict, "unclear")
            row.append(f'<span class="{css}" title="p = {change.p:.2g}">{change.ratio:.3f}</span>')
        yield row


def write_page(path, runs, titles, all_changes):
    bars = []
    for i, changes in enumerate(all_changes):
        for c in changes:
            if c.ratio:
                low, high = quartiles(c.after["seconds"])
                base = median(c.before["seconds"])
                bars.append((c.name, f"run {i + 2}" if len(all_changes) > 1 else "before", 1 / c.ratio, base / high, base / low))
    header = ["benchmark", "1: ms [quartiles]"]
    for i in range(1, len(runs)):
        header += [f"{i + 1}: ms [quartiles]", "time, 1 = same"]
    names = page.facts([(f"run {i + 1}", title) for i, title in enumerate(titles)])
    body = ("<h1>Benchmarks compared</h1>" + names
            + '<p class="note">Times in milliseconds: median and quartiles. A coloured figure is a difference that a rank test calls real '
              "and that exceeds the threshold; a grey one is within the noise or too small.</p>"
            + page.table(header, html_rows(runs, all_changes))
            + ("<h2>Speed relative to run 1</h2>" + charts.ratio_bars(bars) if bars else ""))
    with open(path, "w", encoding="utf-8") as file:
        file.write(page.document("Nullscope: benchmarks compared", body))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./run bench compare", description="Compares benchmark runs with the first of them.",
                                     epilog=EXIT_CODES)
    parser.add_argument("files", nargs="+", metavar="report.json", help="at least two, written by ./run bench --report")
    parser.add_argument("--threshold", type=float, default=0.05, help="a change by less does not count (default 0.05: 5 %%)")
    parser.add_argument("--significance", type=float, default=0.01,
                        help="largest probability that a difference is noise (default 0.01)")
    parser.add_argument("--page", metavar="FILE", help="also write a page with all runs side by side")
    parser.add_argument("--all", action="store_true", help="print every benchmark, not only what changed")
    args = parser.parse_args(arguments)
    if len(args.files) < 2:
        parser.error("at least two files are needed")
    try:
        runs = [results.read(path) for path in args.files]
    except results.BadFile as failure:
        parser.error(str(failure))
    titles = [title_of(run, path) for run, path in zip(runs, args.files)]
    all_changes = [changes_of(runs[0], run, args.threshold, args.significance) for run in runs[1:]]
    is_worse = False
    print(f"before: {titles[0]}")
    for title, changes in zip(titles[1:], all_changes):
        count = {verdict: sum(c.verdict == verdict for c in changes) for verdict in ("slower", "faster", "same", "failed")}
        print(f"\nafter:  {title}")
        print_changes(changes, args.all)
        print(f"{len(changes)} in both runs: {count['slower']} slower, {count['faster']} faster, {count['same']} the same, "
              f"{count['failed']} fail now. By chance alone about {args.significance * len(changes):.1f} would seem to differ.")
        weak = sum(c.is_measured and smallest_p(len(c.before["seconds"]), len(c.after["seconds"])) > args.significance
                   for c in changes)
        if weak:
            print(f"{weak} have too few repetitions to show anything at a significance of {args.significance:g}")
        is_worse |= any(c.is_worse for c in changes)
    if args.page:
        write_page(args.page, runs, titles, all_changes)
        print(f"\n{args.page}")
    return 1 if is_worse else 0


if __name__ == "__main__":
    sys.exit(main())
