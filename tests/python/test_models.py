"""Transformers: encoding, training, attribution, explanations, structure."""

import numpy
import pytest

import nullscope
from conftest import HAS_MINILM

TEXTS = ["the sun shines today", "it rains in the morning", "we eat soup at noon", "she bakes good bread"]
TOLERANCE = 2e-5  # of numbers of order one in float32, after some layers
LABELS = ["weather", "weather", "food", "food"]


def small(**more):
    sizes = {"width": 16, "heads": 2, "key_size": 4, "value_size": 8, "feed_forward": 32, "positions": 16, "layers": 2}
    return nullscope.Transformer.create(TEXTS, labels=["weather", "food"], **{**sizes, **more})


def test_encoding():
    model = small()
    text = "The sun, it rains"
    found = model.encode(text, attention=True, heads_of_layer=2)
    s = len(found.tokens)
    assert [text[b:e] for b, e in found.tokens.offsets][1:] == ["The", "sun", ",", "it", "rains"]
    assert found.hidden.shape == (3, s, 16) and found.hidden.dtype == numpy.float32
    numpy.testing.assert_allclose(found.attention.sum(axis=-1), 1, atol=TOLERANCE)
    numpy.testing.assert_allclose(found.embedding, found.hidden[-1].mean(axis=0), atol=TOLERANCE)
    q, k = found.heads.q, found.heads.k
    scores = numpy.exp(q @ k.mT / 2)
    numpy.testing.assert_allclose(scores / scores.sum(axis=-1, keepdims=True), found.attention[1], atol=TOLERANCE)
    together = model.encode([text, "soup"])  # of different lengths
    numpy.testing.assert_allclose(together[0].hidden, found.hidden, atol=TOLERANCE)
    by_ids = model.encode(found.tokens.ids)
    numpy.testing.assert_allclose(by_ids.hidden, found.hidden, atol=TOLERANCE)


def test_a_model_in_double():
    single, double = (small(dtype=dtype).encode("soup").hidden for dtype in ("float32", "float64"))
    assert double.dtype == numpy.float64 and single.shape == double.shape


def test_offsets_are_characters():
    found = small().tokenize("thé sün ☀ rains")
    text = "thé sün ☀ rains"
    assert [text[b:e] for b, e in found.offsets][1:] == ["thé", "sün", "☀", "rains"]


def test_effective_attention_of_a_layer():
    model = small()
    text = "we eat good bread at noon in the morning"
    found, encoding = model.effective_attention(text, layer=1), model.encode(text, attention=True, heads_of_layer=1)
    assert (found.rank == 8).all() and (found.null_dimension == len(encoding.tokens) - 8).all()
    numpy.testing.assert_allclose(found.dense("raw"), encoding.attention[0], atol=TOLERANCE)
    output = encoding.heads.v @ encoding.heads.h
    numpy.testing.assert_allclose(found.dense() @ output, found.dense("raw") @ output, atol=TOLERANCE)


def test_training_saving_and_loading(tmp_path):
    model = small()
    steps = [model.train_step(TEXTS, LABELS, learning_rate=0.01) for _ in range(30)]
    assert steps[-1].loss < 0.1 * steps[0].loss and steps[-1].accuracy == 1
    probabilities = model.predict(TEXTS)
    assert probabilities.argmax(axis=1).tolist() == [0, 0, 1, 1]
    model.save(tmp_path / "model")
    again = nullscope.Transformer.load(tmp_path / "model")
    assert again.labels == ["weather", "food"]
    numpy.testing.assert_array_equal(again.predict(TEXTS), probabilities)
    numpy.testing.assert_array_equal(again.parameters()["classifier.weight"], model.parameters()["classifier.weight"])
    step = model.train_step(TEXTS, [0, 0, 1, 1], learning_rate=0.001)  # other options, the same parameters
    assert step.loss <= steps[-1].loss * 1.1


def test_training_gives_the_same_bits():
    losses = [[small().train_step(TEXTS, LABELS).loss for _ in range(2)] for _ in range(2)]
    assert losses[0] == losses[1]


def test_what_models_refuse():
    model = small()
    with pytest.raises(ValueError, match='no class "sport"; the classes are: weather, food'):
        model.train_step(TEXTS[:1], ["sport"])
    with pytest.raises(ValueError, match="3 labels for 4 texts"):
        model.train_step(TEXTS, [0, 1, 0])
    with pytest.raises(ValueError, match="label"):
        model.train_step(TEXTS[:1], [2])
    with pytest.raises(TypeError, match="expected a list of texts"):
        model.predict("one text")
    with pytest.raises(TypeError, match="there is no setting depth"):
        small(depth=3)
    with pytest.raises(ValueError, match="heads"):
        small(heads=0)
    with pytest.raises(TypeError, match="float16"):
        small(dtype="float16")
    with pytest.raises(nullscope.FileError, match="nowhere"):
        nullscope.Transformer.load("/nowhere")
    with pytest.raises(ValueError, match="no vocabulary"):
        nullscope.Transformer.create(vocabulary=9, width=8, heads=1, key_size=8, value_size=8).encode("text")


def test_attribution():
    model = small()
    found = model.attribution(TEXTS[0], samples=None)
    assert found.layers == [1, 2] and found.standard_error is None
    numpy.testing.assert_allclose(found.contribution.sum(axis=-1), 1, atol=TOLERANCE)
    numpy.testing.assert_allclose(found.contribution, found.norm / found.norm.sum(axis=-1, keepdims=True), atol=1e-12)
    estimate = model.attribution(TEXTS[0], samples=12, seed=3)
    off = (estimate.contribution - found.contribution) / estimate.standard_error
    assert 0.5 < numpy.sqrt((off**2).mean()) < 2  # single ratios vary more: the errors are estimates, too
    with pytest.raises(ValueError, match="samples is 0"):
        model.attribution(TEXTS[0], samples=0)
    with pytest.raises(ValueError, match='norm is "l1"'):
        model.attribution(TEXTS[0], norm="l1")


@pytest.mark.parametrize("method", ["slalom", "shap", "lime", "linear", "gradient", "integrated_gradients"])
def test_explaining_a_model(method):
    model = small()
    for _ in range(30):
        model.train_step(TEXTS, LABELS, learning_rate=0.01)
    found = nullscope.explain(model, "we eat soup today", method=method, of_class="food", samples=500)
    assert found.tokens == ["[CLS]", "we", "eat", "soup", "today"] and found.of_class == 1
    assert found.attribution[0] == 0 and numpy.isfinite(found.attribution).all()
    logits = model.logits(["we eat soup today"])[0]
    assert abs(found.score - (logits[1] - logits[0])) < 1e-4
    if method == "shap":  # Shapley values sum to the score minus that of no tokens
        assert abs(found.attribution.sum() - (found.score - found.base)) < 1e-3
    if method == "slalom":
        assert found.value is not None and numpy.isnan(found.value[0])


def test_explaining_a_callable():
    """A planted SLALOM is found again."""
    value = {"the": 0.1, "film": 0.2, "was": 0.0, "not": -2.0, "good": 1.0, "fun": 2.0}
    importance = {"the": -1.0, "film": -0.5, "was": -1.2, "not": 1.5, "good": 0.5, "fun": 0.7}

    def log_odds(texts):
        result = []
        for words in texts:
            assert isinstance(words, list)
            weights = numpy.exp([importance[word] for word in words])
            result.append(float(weights @ [value[word] for word in words] / weights.sum()))
        return result

    found = nullscope.explain(log_odds, list(value))
    numpy.testing.assert_allclose(found.value, list(value.values()), atol=1e-6)
    shifted = numpy.array(list(importance.values())) - numpy.mean(list(importance.values()))
    numpy.testing.assert_allclose(found.importance, shifted, atol=1e-6)
    assert found.ranked()[0][0] == "not" and found.fit_error < 1e-12
    with pytest.raises(ValueError, match="gradient"):
        nullscope.explain(log_odds, list(value), method="gradient")
    with pytest.raises(ValueError, match="magic"):
        nullscope.explain(log_odds, list(value), method="magic")


def test_structure():
    model = small()
    texts = [" ".join(text.split()[:3]) for text in TEXTS]
    found = nullscope.structure(model, texts, length=4, threshold=0.0)
    mean = numpy.mean([e.attention for e in model.encode(texts, attention=True)], axis=0)
    assert found.texts == 4
    numpy.testing.assert_allclose(found.mean, mean, atol=TOLERANCE)
    numpy.testing.assert_allclose(found.w, mean, atol=TOLERANCE)  # nothing is cut, and rows sum to one
    assert (found.dimension == 4).all() and (
        nullscope.structure(model, texts, 4, threshold=1.0).emptied_rows == 4
    ).all()
    with pytest.raises(ValueError, match="no text has 40 tokens; the longest has 4"):
        nullscope.structure(model, texts, 40)
    assert nullscope.structure(model, texts, 6, other_lengths="pad").texts == 4


def test_sweep(tmp_path):
    found = nullscope.sweep([8, 20, 40], samples=2, width=32, heads=2, progress=False)
    assert len(found) == 3 * 2 * 2 * 2
    by_kind = {(line["heads_are"], line["length"]): line for line in found.summary()}
    assert by_kind["concatenated", 40]["rank"] == 16 and by_kind["added", 40]["rank"] == 32
    assert by_kind["concatenated", 40]["null_dim_ones"] == 23
    assert 0 < by_kind["concatenated", 40]["pearson"] < 1 and abs(by_kind["added", 8]["pearson"] - 1) < 1e-9
    found.to_csv(tmp_path / "sweep.csv")
    assert len((tmp_path / "sweep.csv").read_text().splitlines()) == len(found) + 1
    names = "length,heads_are,sample,head,rank,null_dim,null_dim_ones,pearson,raw_norm,effective_norm,null_norm"
    assert ",".join(found.columns) == names == (tmp_path / "sweep.csv").read_text().splitlines()[0]
    again = nullscope.sweep([40, 8], samples=2, width=32, heads=2, heads_are="added", progress=False)
    added = (found.columns["heads_are"] == "added") & (found.columns["length"] == 40)
    assert again.columns["pearson"][4:].tolist() == found.columns["pearson"][added].tolist()
    estimated = nullscope.sweep([8, 40], width=32, heads=2, query_sample=8, progress=False)
    assert ((estimated.columns["pearson_error"] == 0) == (estimated.columns["length"] == 8)).all()
    of_model = nullscope.sweep([4, 9], model=small(), texts=["it rains today at noon in the morning we eat soup"])
    assert of_model.columns["layer"].tolist() == [1, 1, 2, 2] * 2
    with pytest.raises(ValueError, match="cannot be divided among 3 heads"):
        nullscope.sweep(width=32, heads=3)
    with pytest.raises(ValueError, match="there are no lengths"):
        nullscope.sweep([])
    with pytest.raises(ValueError, match="no text has 99 tokens"):
        nullscope.sweep([99], model=small(), texts=["soup"])


@pytest.mark.skipif(not HAS_MINILM, reason="the model minilm has not been fetched")
def test_a_real_model():
    model = nullscope.Transformer.load("minilm")
    cat, kitten, bread = model.encode(
        ["A cat sat on the mat.", "A kitten was sitting on a rug.", "She bakes bread."], normalise=True
    )
    assert cat.embedding @ kitten.embedding > 0.5 > cat.embedding @ bread.embedding
    assert model.tokenize("Attention is not explanation.").ids == [101, 3086, 2003, 2025, 7526, 1012, 102]
    found = model.effective_attention("A cat sat on the mat.", layer=6)
    assert (found.null_dimension == 0).all()  # fewer tokens than d_v
