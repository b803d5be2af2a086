"""What the tests share: examples in docstrings that need the model `minilm` are skipped unless it has been fetched."""

import doctest

import nullscope

doctest.register_optionflag("MINILM")
HAS_MINILM = any(model["name"] == "minilm" and model["is_fetched"] for model in nullscope.models())


def pytest_collection_modifyitems(items):
    for item in items:
        for example in getattr(getattr(item, "dtest", None), "examples", []):
            if doctest.OPTIONFLAGS_BY_NAME["MINILM"] in example.options and not HAS_MINILM:
                example.options[doctest.SKIP] = True
