"""Explanations by other people's packages, at the work of `nullscope explain`: the SLALOM authors' package with PyTorch,
`shap` and `lime`. Each is timed in turn with Nullscope on the same weights, text and number of samples.

    python3 -m venv peers && peers/bin/pip install torch transformers shap lime
    git clone https://github.com/tleemann/slalom_explanations authors
    peers/bin/python bench/peers/surrogate_peer.py --program .build/release/lib/cli/nullscope --authors authors
    PYTHONPATH=.build/release/python peers/bin/python bench/peers/surrogate_peer.py ...      also times outside the model
    peers/bin/python bench/peers/surrogate_peer.py --bench .build/release/bench/slalom_bench --authors authors --methods fit
"""

import argparse
import contextlib
import io
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the nullscope program")
    parser.add_argument("--bench", help="the program slalom_bench, for the method fit: fits alone, of 200 tokens")
    parser.add_argument("--authors", help="folder that holds the authors' package slalom_explanations")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--words", type=int, default=30, help="different words of the text")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--methods", default="slalom,lime,shap", help="also: fit")
    return parser.parse_args()


def make_model(folder, layers, width):
    """A BERT classifier with random weights, and a vocabulary of words."""
    from transformers import BertConfig, BertForSequenceClassification

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(600)]
    torch.manual_seed(1)
    config = BertConfig(vocab_size=len(words), hidden_size=width, num_hidden_layers=layers,
                        num_attention_heads=width // 64, intermediate_size=4 * width, num_labels=2,
                        initializer_range=0.05, id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    return model, words


def nullscope_seconds(program, folder, text, method, samples):
    """Seconds per text of the second of two runs in one process, when kernels are there."""
    with tempfile.TemporaryDirectory() as out:
        data = pathlib.Path(out) / "data.csv"
        data.write_text(f"text,label\n{text},no\n")
        subprocess.run([program, "faithfulness", "--model", folder, "--data", data, "--texts", "1", "--points", "1",
                        "--methods", f"{method},{method}", "--samples", str(samples), "--output", out],
                       check=True, capture_output=True)
        rows = json.loads((pathlib.Path(out) / "faithfulness.json").read_text())
        subprocess.run([program, "explain", "--model", folder, "--text", text, "--method", method, "--samples",
                        str(samples), "--output", out], check=True, capture_output=True)
        found = json.loads((pathlib.Path(out) / "explain.json").read_text())[0]
        return rows[-1]["seconds_per_text"], found


class counted_time:
    """Seconds inside the model."""

    def __init__(self, call):
        self.call, self.seconds = call, 0.0

    def __call__(self, *arguments, **named):
        start = time.perf_counter()
        result = self.call(*arguments, **named)
        self.seconds += time.perf_counter() - start
        return result


def log_odds(model, rows):
    """Of label 1, for lists of ids, by length."""
    scores = numpy.empty(len(rows))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    with torch.no_grad():
        for first in range(0, len(order), 64):
            part = order[first:first + 64]
            longest = len(rows[part[-1]])
            ids = torch.zeros(len(part), longest, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for k, i in enumerate(part):
                ids[k, :len(rows[i])] = torch.tensor(rows[i])
                mask[k, :len(rows[i])] = 1
            logits = model(input_ids=ids, attention_mask=mask).logits
            scores[part] = (logits[:, 1] - logits[:, 0]).numpy()
    return scores


def run_authors(options, model, ids):
    sys.path.insert(0, options.authors)
    from slalom_explanations import slalom_helpers as helpers

    unique = torch.tensor(ids).unique()
    # Their helper writes BERT's own ids for [CLS] and [SEP].
    def wrapped(inputs, attention_mask=None):
        inputs = inputs.clone()
        inputs[inputs == 101] = 2
        inputs[inputs == 102] = 3
        return {"logits": model(input_ids=inputs, attention_mask=attention_mask).logits}

    timed = counted_time(wrapped)
    timed.to = lambda device: timed
    timed.eval = lambda: timed
    surrogate = helpers.MyLittleSLALOM(unique, "cpu")
    start = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        values, importances, _ = helpers.fit_sgd_rand(surrogate, timed, unique, torch.tensor(ids), num_eps=60, seq_len=2,
                                                      lr=5e-3, offline_ds_size=options.samples, batch_size=128)
    total = time.perf_counter() - start
    with torch.no_grad():
        inputs, _, _, outputs = helpers.sample_dataset(2000, timed, unique, torch.tensor(ids), seq_len=2, device="cpu")
        error = torch.mean((surrogate(inputs)[:, 1] - outputs) ** 2).item()
    return total, timed.seconds, error


def run_fits(options, tokens=200, samples=5000):
    """The fit alone. The authors' function also draws samples and asks the model, so the time of 60 epochs is that of 63
    without that of 3, with a model that costs nothing."""
    sys.path.insert(0, options.authors)
    from slalom_explanations import slalom_helpers as helpers

    vocabulary = torch.arange(200, 200 + tokens)
    numbers = torch.Generator().manual_seed(1)
    value, importance = torch.randn(2, 400, generator=numbers).double().unbind()

    def planted(inputs, attention_mask=None):
        weights = torch.softmax(importance[inputs[:, 1:-1]], dim=1)
        score = (weights * value[inputs[:, 1:-1]]).sum(1) + 0.1 * torch.randn(len(inputs), generator=numbers)
        return {"logits": torch.stack([-score / 2, score / 2], 1).float()}

    planted.to = lambda device: planted
    planted.eval = lambda: planted

    def seconds_of(epochs):
        surrogate = helpers.MyLittleSLALOM(vocabulary, "cpu")
        start = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            helpers.fit_sgd_rand(surrogate, planted, vocabulary, vocabulary, num_eps=epochs, seq_len=2, lr=5e-3,
                                 offline_ds_size=samples, batch_size=128)
        return time.perf_counter() - start

    name = f"slalom_fit/f64/.*/tokens:{tokens}/samples:{samples}"
    with tempfile.TemporaryDirectory() as out:
        file = pathlib.Path(out) / "fits.json"
        subprocess.run([options.bench, f"--benchmark_filter={name}", f"--benchmark_out={file}"], check=True, capture_output=True)
        found = json.loads(file.read_text())["benchmarks"]
    theirs = seconds_of(63) - seconds_of(3)
    print(f"fit of {tokens} tokens to {samples} samples: authors' SGD {theirs:.3f} s")
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    for row in found:
        if row.get("aggregate_name") == "median":
            ours = row["real_time"] * unit[row["time_unit"]]
            print(f"  {row['run_name']}: {ours:.4f} s, ratio {theirs / ours:.1f}", flush=True)


def nullscope_outside(options, model, ids, method):
    """Seconds outside the model of the Python package, which asks the same PyTorch model; the second call counts. None if
    the package cannot be imported."""
    try:
        import nullscope
    except ImportError:
        return None
    seconds = []
    for _ in range(2):
        timed = counted_time(lambda rows: log_odds(model, [[2, *row, 3] for row in rows]))
        start = time.perf_counter()
        nullscope.explain(timed, ids, method=method, samples=options.samples, of_class=0)
        seconds.append(time.perf_counter() - start - timed.seconds)
    return seconds[-1]


def run_shap(options, model, ids):
    import shap

    def score(masks):
        rows = [[2] + [t for t, m in zip(ids, mask) if m > 0] + [3] for mask in masks]
        return log_odds(model, rows)

    timed = counted_time(score)
    start = time.perf_counter()
    explainer = shap.KernelExplainer(timed, numpy.zeros((1, len(ids))))
    explainer.shap_values(numpy.ones((1, len(ids))), nsamples=options.samples, l1_reg=0, silent=True)
    return time.perf_counter() - start, timed.seconds, float("nan")


def run_lime(options, model, words, text, id_of):
    from lime.lime_text import LimeTextExplainer

    def score(texts):
        rows = [[2] + [id_of[w] for w in t.split()] + [3] for t in texts]
        p = 1 / (1 + numpy.exp(-log_odds(model, rows)))
        return numpy.stack([1 - p, p], axis=1)

    timed = counted_time(score)
    start = time.perf_counter()
    LimeTextExplainer(bow=False, mask_string=" ").explain_instance(text, timed, num_features=len(words), num_samples=options.samples)
    return time.perf_counter() - start, timed.seconds, float("nan")


def main():
    options = parse()
    if options.threads:
        torch.set_num_threads(options.threads)
    methods = options.methods.split(",")
    if "fit" in methods:
        run_fits(options)
        methods.remove("fit")
    if not methods:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, vocabulary = make_model(folder, options.layers, options.width)
        words = vocabulary[200:200 + options.words]  # ids above those that the authors give to [CLS] and [SEP]
        id_of = {word: i for i, word in enumerate(vocabulary)}
        text, ids = " ".join(words), [id_of[w] for w in words]
        print(f"{options.layers} layers of width {options.width}, {len(ids)} words, {options.samples} samples")
        for method in methods:
            ours, theirs, inside, errors, our_error = [], [], [], [], 0.0
            for _ in range(options.rounds):
                seconds, found = nullscope_seconds(options.program, folder, text, method, options.samples)
                ours.append(seconds)
                our_error = found["fit_error"]
                if method == "slalom":
                    result = run_authors(options, model, ids)
                elif method == "shap":
                    result = run_shap(options, model, ids)
                else:
                    result = run_lime(options, model, words, text, id_of)
                theirs.append(result[0])
                inside.append(result[0] - result[1])
                errors.append(result[2])
            a, b = statistics.median(ours), statistics.median(theirs)
            print(f"{method:8} nullscope {a:8.3f} s  peer {b:8.3f} s ({statistics.median(inside):.3f} s outside the model)"
                  f"  ratio {b / a:6.2f}  error {our_error:.3g} and {statistics.median(errors):.3g}", flush=True)
            outside = nullscope_outside(options, model, ids, method) if method != "slalom" else None
            if outside:
                theirs_outside = statistics.median(inside)
                print(f"         outside the model {outside:.4f} s and {theirs_outside:.4f} s, ratio {theirs_outside / outside:.1f}",
                      flush=True)


if __name__ == "__main__":
    main()
