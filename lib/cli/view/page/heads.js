// Facts about heads: the grid from which a head is chosen, and the numbers of the chosen one.

/** Numbers of one head that colour the grid: title, what they say, value, text, and the range of the colours. */
const metrics = {
  null: {
    title: "null share",
    about: "|null|\u00b2 / |raw|\u00b2: the share of the attention that changes nothing",
    value: at => data.rawNorm[at] > 0 ? (data.nullNorm[at] / data.rawNorm[at]) ** 2 : 0,
    text: x => percent(x),
  },
  correlation: {
    title: "correlation",
    about: "Pearson correlation of raw and effective attention",
    value: at => data.pearson[at] ?? NaN,
    text: x => Number.isNaN(x) ? "not defined" : x.toFixed(3),
  },
  rank: {
    title: "rank",
    about: "rank of T = V H; the null space has the other dimensions",
    value: at => data.rank[at],
    text: x => `${x} of ${S}`,
    top: () => Math.max(...data.rank),
  },
  entropy: {
    title: "entropy",
    about: "of the rows of raw attention, mean: 0 if each token looks at one token",
    value: at => data.entropy[at],
    text: x => `${x.toFixed(2)} of ${Math.log(S).toFixed(2)}`,
    top: () => Math.log(S) || 1,
  },
};

function showHeadTip(event, layer, head) {
  const at = indexOfHead(layer, head);
  const rows = Object.values(metrics).map(of => [of.title, of.text(of.value(at))]);
  showTip(event, `Layer ${layer + 1}, head ${head + 1}`, rows);
}

let headButtons = [];

function makeHeads() {
  const grid = byId("heads");
  grid.style.setProperty("--columns", data.heads);
  grid.append(make("span", {className: "corner"}));
  for (let head = 0; head < data.heads; ++head) grid.append(make("span", {textContent: head + 1}));
  for (let layer = 0; layer < data.layers; ++layer) {
    grid.append(make("span", {textContent: layer + 1}));
    for (let head = 0; head < data.heads; ++head) {
      const button = make("button", {tabIndex: -1, onclick: () => change({layer, head})});
      button.addEventListener("pointermove", event => showHeadTip(event, layer, head));
      button.addEventListener("pointerleave", hideTip);
      headButtons.push(button);
      grid.append(button);
    }
  }
  const select = byId("metric");
  for (const [name, of] of Object.entries(metrics)) select.append(make("option", {value: name, textContent: of.title}));
  select.addEventListener("change", () => change({metric: select.value}));
}

function drawHeads() {
  const of = metrics[state.metric], top = of.top ? of.top() : 1;
  headButtons.forEach((button, at) => {
    const value = of.value(at), isChosen = at === indexOfHead(state.layer, state.head);
    button.style.backgroundColor = Number.isNaN(value) ? "transparent" : colourOf(value, top, "linear");
    button.className = isChosen ? "chosen" : "";
    const place = `layer ${Math.floor(at / data.heads) + 1}, head ${at % data.heads + 1}`;
    button.setAttribute("aria-label", `${place}: ${of.title} ${of.text(value)}`);
    button.setAttribute("aria-pressed", isChosen);
  });
  byId("metric").value = state.metric;
  byId("heads-key").textContent = `Rows: layers, columns: heads. ${of.about}.`;
}

/** The singular values of T, on a scale of powers of ten, the largest first. */
function singularValuesPicture(values, rank) {
  const width = 250, height = 54, canvas = make("canvas", {role: "img"}), context = sized(canvas, width, height);
  canvas.setAttribute("aria-label", `Singular values of T from ${values[0]} down to ${values[values.length - 1]}`);
  const largestOne = values[0] || 1, decades = 7, step = width / values.length;
  values.forEach((value, i) => {
    const share = value > 0 ? Math.max(0, 1 + Math.log10(value / largestOne) / decades) : 0;
    context.fillStyle = styled(i < rank ? "positive" : "line");
    context.fillRect(i * step, height - share * height, Math.max(1, step - 1), Math.max(1, share * height));
  });
  return canvas;
}

const nullSpaceText = rank =>
    rank < S ? `The left null space of T has ${S - rank} of ${S} dimensions: attention can change along all of them `
               + "without a change of the head's output."
             : `T has full rank ${rank}: the null space is {0}, and effective attention is raw attention. `
               + "A longer text has a null space.";

function drawFacts() {
  const at = indexOfHead(state.layer, state.head), rank = data.rank[at];
  byId("head-title").textContent = `Layer ${state.layer + 1}, head ${state.head + 1}`;
  const first = data.singularValues[at][0];
  const metric = name => [metrics[name].title, metrics[name].text(metrics[name].value(at))];
  const norms = [data.rawNorm, data.effectiveNorm, data.nullNorm].map(of => of[at].toFixed(2)).join(", ");
  const rows = [["rank of T", `${rank} of ${S} tokens`], ["null space", `${S - rank} dimensions`], metric("null"),
                metric("correlation"), metric("entropy"), ["|raw|, |effective|, |null|", norms]];
  const bar = make("div", {className: "bar", title: `rank ${rank}, null space ${S - rank}`}, make("span"));
  bar.firstChild.style.width = percent(rank / S, 2).replace(" ", "");
  byId("facts").replaceChildren(
      tableOf(rows, "numbers"), bar, make("p", {className: "key", textContent: nullSpaceText(rank)}),
      singularValuesPicture(data.singularValues[at], rank),
      make("p", {className: "key", textContent: `Singular values of T, as powers of ten; the first is ${first}`}));
}
