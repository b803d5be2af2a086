// The text, coloured by what a token looks at or is made of; the strongest tokens as a list.

let ribbonTokens = [];

function makeRibbon() {
  const ribbon = byId("ribbon");
  data.tokens.forEach((token, i) => {
    const span = make("span", {className: token.special ? "token special" : "token"});
    // One of several tokens of the same character: the text has it once.
    span.textContent = token.repeats ? "\u25e6" : token.text || token.vocabulary;
    span.addEventListener("click", () => change({token: i === state.token ? -1 : i}));
    span.addEventListener("pointermove", event => {
      hoverOver(i, -1);
      showTip(event, `token ${i + 1}: ${token.vocabulary}`, ribbonRows(i));
    });
    span.addEventListener("pointerleave", () => {
      hoverOver(-1, -1);
      hideTip();
    });
    ribbonTokens.push(span);
    ribbon.append(token.gap, span);
  });
}

/** What colours the text: values per token, their largest, and what they are. */
function ribbonValues() {
  const who = state.token >= 0 ? `from \u201c${labels[state.token]}\u201d` : "received, mean of all tokens";
  if (state.colour === "explanation") {
    const {scores: values, method, label} = data.explanation;
    return {values, top: largest(values.map(x => x ?? 0)) || 1, about: `${method} for ${label}`};
  }
  if (state.colour === "attribution") {
    const values = contributionsOf(state.layer, state.token);
    const of = state.token >= 0 ? `in hidden token \u201c${labels[state.token]}\u201d` : "in all hidden tokens, mean";
    const about = `share of each input token ${of}, after layer ${state.layer + 1}`;
    return {values, top: largest(values) || 1, about};
  }
  const values = rowOf(attentionOf(state.layer, state.head)[mainKind()], state.token);
  return {values, top: largest(values) || 1, about: `${kinds[mainKind()].title.toLowerCase()} attention ${who}`};
}

function ribbonRows(token) {
  const {values, about} = ribbonValues(), value = values[token];
  const text = state.colour === "attribution" ? percent : weightText;
  return [[about, Number.isFinite(value) ? text(value) : "none"]];
}

function drawRibbon() {
  const {values, top, about} = ribbonValues();
  ribbonTokens.forEach((span, i) => {
    const value = Number.isFinite(values[i]) ? values[i] : 0;
    span.style.backgroundColor = colourOf(value, top, "linear");
    span.style.color = inkOn(value, top, "linear");
    span.setAttribute("aria-pressed", i === state.token);
  });
  const buttons = choices.colour.map(name => make("button", {
    textContent: name, onclick: () => change({colour: name}), className: name === state.colour ? "chosen" : ""}));
  byId("ribbon-key").replaceChildren("Colour: ", ...buttons, ` ${about}`);
  markRibbon();
}

function markRibbon() {
  ribbonTokens.forEach((span, i) => {
    span.classList.toggle("chosen", i === state.token);
    span.classList.toggle("hovered", i === hover.query || i === hover.key);
  });
}

let followedToken = -1;

/** Scrolls to a token that was newly chosen, in the text and in the lines. */
function followToken() {
  if (state.token === followedToken) return;
  followedToken = state.token;
  if (state.token < 0) return;
  ribbonTokens[state.token].scrollIntoView({block: "nearest"});
  const stage = byId("panels");
  if (state.view !== "lines" || stage.scrollHeight <= stage.clientHeight) return;
  const {row} = panels[0].geometry, at = state.token * row;
  if (at < stage.scrollTop || at + 3 * row > stage.scrollTop + stage.clientHeight) {
    stage.scrollTop = at - stage.clientHeight / 2;
  }
}

/** The places of the largest values by size, the largest first. */
function strongestOf(values, count) {
  const order = Array.from(values, (value, i) => i).filter(i => Number.isFinite(values[i]) && values[i] !== 0);
  return order.sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, count);
}

/** A list of tokens with bars. */
function barList(title, values, top, text) {
  const list = make("ol", {className: "bars"});
  for (const i of strongestOf(values, 6)) {
    const bar = make("span", {className: values[i] < 0 ? "fill negative" : "fill"});
    bar.style.width = `${Math.min(100, 100 * Math.abs(values[i]) / top)}%`;
    list.append(make("li", {onclick: () => change({token: i})}, bar, make("bdi", {textContent: labels[i]}),
                     make("span", {className: "value", textContent: text(values[i], i)})));
  }
  return make("section", {}, make("h3", {textContent: title}), list);
}

function drawStrongest() {
  const attention = attentionOf(state.layer, state.head), raw = rowOf(attention.raw, state.token);
  const second = mainKind() === "raw" ? "effective" : mainKind(), other = rowOf(attention[second], state.token);
  const looks = `\u201c${labels[state.token]}\u201d (${state.token + 1}) looks at`;
  byId("token-title").textContent = state.token >= 0 ? looks : "Attention received (mean)";
  const top = Math.max(largest(raw), largest(other)) || 1;
  const list = (title, values) => barList(title, values, top, weightText);
  byId("strongest").replaceChildren(list("Raw", raw), list(kinds[second].title, other));
}
