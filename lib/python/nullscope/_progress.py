"""A progress bar for terminals and notebooks; nothing where nobody would see it."""

from __future__ import annotations

import sys
import time
from typing import Any


def _is_notebook() -> bool:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class ProgressBar:
    """with ProgressBar("sweep") as bar: bar(0.25)"""

    def __init__(self, title: str, enabled: bool = True) -> None:
        self.title = title
        self.display: Any = None
        self.last = 0.0
        self.shown = False
        self.enabled = enabled and (_is_notebook() or sys.stderr.isatty())

    def __enter__(self) -> "ProgressBar":
        return self

    def __call__(self, share: float) -> None:
        """Draws the share that is complete, at most ten times per second."""
        now = time.monotonic()
        if not self.enabled or (share < 1 and now - self.last < 0.1):
            return
        self.last = now
        self.shown = True
        if _is_notebook():
            self._draw_in_notebook(share)
        else:
            filled = int(30 * share)
            print(f"\r{self.title} [{'#' * filled}{'.' * (30 - filled)}] {share:4.0%}", end="", file=sys.stderr)
            sys.stderr.flush()

    def _draw_in_notebook(self, share: float) -> None:
        from IPython.display import HTML, display

        bar = HTML(f"{self.title} <progress value='{share:.4f}' max='1'></progress> {share:.0%}")
        if self.display is None:
            self.display = display(bar, display_id=True)
        else:
            self.display.update(bar)

    def __exit__(self, *failure: Any) -> None:
        if self.shown and self.display is None:
            print("\r" + " " * (len(self.title) + 40) + "\r", end="", file=sys.stderr)
            sys.stderr.flush()
