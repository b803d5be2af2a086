// Puts the parts together: buttons, keys, help, and drawing once per frame.

const viewNames = {matrix: "Matrix", lines: "Lines", heads: "All heads"};
const kindTitles = Object.entries(kinds).map(([kind, of]) => [kind, of.title]);
const kindNames = {all: "Side by side", ...Object.fromEntries(kindTitles)};

/** Keys: what they do, and what the help says about them. */
const keys = [
  {keys: ["ArrowLeft", "ArrowRight"], show: "\u2190 \u2192", does: "previous, next head",
   act: step => change({head: state.head + step})},
  {keys: ["ArrowUp", "ArrowDown"], show: "\u2191 \u2193", does: "previous, next layer",
   act: step => change({layer: state.layer + step})},
  {keys: [",", "."], show: ", .", does: "previous, next token", act: step => change({token: state.token + step})},
  {keys: ["Escape"], show: "Esc", does: "no token: all tokens", act: () => change({token: -1})},
  {keys: ["m"], show: "m", does: "matrix", act: () => change({view: "matrix"})},
  {keys: ["l"], show: "l", does: "lines", act: () => change({view: "lines"})},
  {keys: ["o"], show: "o", does: "overview of all heads", act: () => change({view: "heads"})},
  {keys: ["0"], show: "0", does: "all of them side by side", act: () => change({kind: "all"})},
  ...Object.entries(kinds).map(([kind, of], i) => (
      {keys: [`${i + 1}`], show: i + 1, does: `${of.title.toLowerCase()}: ${of.about}`, act: () => change({kind})})),
  {keys: ["h"], show: "h", does: "next number that colours the heads", act: () => next("metric")},
  {keys: ["a"], show: "a", does: "next colour of the text", act: () => next("colour")},
  {keys: ["g"], show: "g", does: "colours by square root (faint weights show) or linear", act: () => next("scale")},
  {keys: ["t"], show: "t", does: "light or dark", act: () => next("theme")},
  {keys: ["c"], show: "c", does: "copy the shown numbers as CSV", act: () => copyCsv()},
  {keys: ["s"], show: "s", does: "save them as a CSV file", act: () => saveCsv()},
  {keys: ["?"], show: "?", does: "this help", act: () => toggleHelp()},
];

function say(text) {
  byId("status").textContent = text;
}

function toggleHelp() {
  const help = byId("help");
  if (help.open) help.close();
  else help.showModal();
}

const effectiveTexts = {
  basis: "Effective attention is A U U\u1d40, with U an orthonormal basis of the range of T = V H: the smallest "
         + "weights that give the head's output. Null attention is the rest, A \u2212 A U U\u1d40; T maps it to zero.",
  triangle: "This is a causal model: row i of effective attention is projected by the first i tokens alone, the ones "
            + "that token i sees, so that no weight appears above the diagonal. Null attention is the rest.",
};

function makeHelp() {
  const table = make("table", {className: "keys"});
  for (const {show, does} of keys) {
    table.append(make("tr", {}, make("th", {}, make("kbd", {textContent: show})), make("td", {textContent: does})));
  }
  const paragraphs = [
    "Each row of a matrix is a token that looks (query), each column a token that is looked at (key). Click a row, a "
        + "token of the text or a token of the lines to choose it.",
    effectiveTexts[data.effective],
    "Difference: each row of |effective|, scaled to the sum of the raw row, minus raw. Blue tokens matter more than "
        + "raw attention says, orange ones less.",
    "Hidden Token Attribution is the norm of the derivative of a hidden token by an input token, as a share of all.",
    "Weights are stored in half precision: three digits, and nothing below 0.00000006.",
  ];
  const close = make("button", {textContent: "Close", onclick: toggleHelp});
  byId("help").append(make("h2", {textContent: "Keys"}), table, make("h2", {textContent: "What is shown"}),
                      ...paragraphs.map(textContent => make("p", {textContent})), close);
}

/** A row of buttons, one of which is chosen. */
function makeChoice(id, name, names) {
  for (const [value, textContent] of Object.entries(names)) {
    byId(id).append(make("button", {textContent, value, onclick: () => change({[name]: value})}));
  }
}

function drawChoice(id, value) {
  for (const button of byId(id).children) {
    button.classList.toggle("chosen", button.value === value);
    button.setAttribute("aria-pressed", button.value === value);
  }
}

function makeTools() {
  const tool = (textContent, title, onclick) => byId("tools").append(make("button", {textContent, title, onclick}));
  tool("Copy", "Copy the shown numbers as CSV (c)", copyCsv);
  tool("Save CSV", "Save the shown numbers (s)", saveCsv);
  tool("\u25d0", "Light or dark (t)", () => next("theme"));
  tool("?", "Keys and explanations (?)", toggleHelp);
}

/** The colours of weights, with the numbers that they stand for. */
function drawLegend() {
  if (state.view === "heads") {
    byId("legend").replaceChildren("Blue: above zero, orange: below. Click a head to look at it.");
    return;
  }
  const top = shownTop(attentionOf(state.layer, state.head));
  const isSigned = state.kind !== "raw", shares = isSigned ? [-1, -0.25, 0, 0.25, 1] : [0, 0.25, 1];
  const place = share => (Math.sign(share) * strength(share, 1) + isSigned) / (1 + isSigned);
  const stopsOfBar = Array.from({length: 33}, (_, i) => {
    const at = i / 32 * (1 + isSigned) - isSigned, share = state.scale === "root" ? at * Math.abs(at) : at;
    return colourOf(share, 1);
  });
  const bar = make("div", {className: "gradient"});
  bar.style.background = `linear-gradient(to right, ${stopsOfBar.join()})`;
  const ticks = make("div", {className: "ticks"});
  for (const share of shares) {
    const tick = make("span", {textContent: (share * top).toFixed(top < 0.1 ? 3 : 2).replace("-", "\u2212")});
    tick.style.left = `${100 * place(share)}%`;
    ticks.append(tick);
  }
  byId("legend").replaceChildren(make("div", {className: "scale"}, bar, ticks));
}

function drawNotice() {
  const rank = rankOf(state.layer, state.head), isFull = rank >= S && data.effective === "basis";
  byId("notice").hidden = !isFull;
  byId("notice").textContent = isFull ? nullSpaceText(rank) : "";
}

function draw() {
  document.documentElement.dataset.theme = state.theme;
  drawChoice("views", state.view);
  drawChoice("kinds", state.kind);
  drawNotice();
  drawHeads();
  drawFacts();
  drawLegend();
  drawPanels();
  drawRibbon();
  drawStrongest();
  drawAttribution();
  followToken();
  const token = state.token >= 0 ? `, token ${state.token + 1} \u201c${labels[state.token]}\u201d` : "";
  say(`Layer ${state.layer + 1}, head ${state.head + 1}${token}`);
}

let isScheduled = false;

/** Draws with the next frame, once however often it is asked for. */
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    draw();
  });
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  if (byId("help").open && event.key !== "?") return;
  for (const key of keys) {
    const at = key.keys.indexOf(event.key);
    if (at < 0) continue;
    event.preventDefault();
    key.act(at === 0 ? -1 : 1);
    return;
  }
}

function start() {
  document.title = `nullscope: ${data.model}`;
  const size = `${data.layers} layers \u00d7 ${data.heads} heads`;
  byId("about").textContent = `${data.model} \u00b7 ${size} \u00b7 ${S} tokens`;
  makeChoice("views", "view", viewNames);
  makeChoice("kinds", "kind", kindNames);
  makeTools();
  makeHeads();
  makeRibbon();
  makeAttribution();
  makeHelp();
  addEventListener("keydown", pressed);
  addEventListener("hashchange", () => {
    readAddress();
    schedule();
  });
  new ResizeObserver(schedule).observe(byId("panels"));
  readAddress();
  schedule();
  window.nullscope = {state, change, attentionOf, contributionsOf, shownCsv};  // for the console of the browser
}

start();
