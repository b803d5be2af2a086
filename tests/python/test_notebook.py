"""The notebook of the samples runs from its first cell to its last one: by nbclient if it is installed, or here."""

import ast
import json
from pathlib import Path

import pytest
from conftest import HAS_MINILM

NOTEBOOK = Path(__file__).parents[2] / "samples" / "nullscope.ipynb"


def run_here(cells):
    names = {}
    for number, cell in enumerate(cells):
        program = ast.parse("".join(cell["source"]))
        last = program.body.pop() if isinstance(program.body[-1], ast.Expr) else None
        exec(compile(program, f"cell {number}", "exec"), names)
        if last is None:
            continue
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        if hasattr(value, "_repr_html_"):  # what a notebook would show
            assert value._repr_html_()
    return names


@pytest.mark.skipif(not HAS_MINILM, reason="the model minilm has not been fetched")
def test_notebook():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    try:
        import ipykernel  # noqa: F401
        import nbclient
        import nbformat
    except ImportError:
        names = run_here(cells)
        assert names["output_change"] < 1e-4 < names["change"]
    else:
        nbclient.NotebookClient(nbformat.read(NOTEBOOK, as_version=4), timeout=900).execute()
