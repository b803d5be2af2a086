// Canvases at the screen's resolution, elements, the tip beside the pointer.

/** An element with these properties and children; children that are text stay text. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A table of [name, value]. */
function tableOf(rows, className = "") {
  return make("table", {className}, ...rows.map(
      ([name, value]) => make("tr", {}, make("th", {textContent: name}), make("td", {textContent: value}))));
}

const byId = id => document.getElementById(id);

/** Sets the size of a canvas in CSS pixels; returns its context, cleared, in these units. */
function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/** The text, cut with an ellipsis so that it fits the width. */
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(letters.join("") + "\u2026").width > width) letters.pop();
  return letters.join("") + "\u2026";
}

const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;

/** A weight with its sign, four digits after the point; smaller ones with their power of ten. */
function weightText(x) {
  if (x !== 0 && Math.abs(x) < 0.00005) return x.toExponential(1).replace("-", "\u2212").replace("e-", "e\u2212");
  return x.toFixed(4).replace("-", "\u2212");
}

/** Shows rows of [name, value] under a title beside the pointer. */
function showTip(event, title, rows) {
  const tip = byId("tip");
  tip.replaceChildren(make("strong", {textContent: title}), tableOf(rows));
  tip.hidden = false;
  const box = tip.getBoundingClientRect(), gap = 14;
  const left = event.clientX + gap + box.width < innerWidth ? event.clientX + gap : event.clientX - gap - box.width;
  const above = event.clientY + gap + box.height < innerHeight ? event.clientY + gap : event.clientY - gap - box.height;
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${Math.max(0, above)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

/** The tip of a pair of tokens: all weights between them. */
function showPairTip(event, query, key) {
  const attention = attentionOf(state.layer, state.head), at = query * S + key;
  const rows = Object.entries(kinds).map(([kind, of]) => [of.title, weightText(attention[kind][at])]);
  showTip(event, `${labels[query]} (${query + 1}) \u2192 ${labels[key]} (${key + 1})`, rows);
}

/** Changes which pair of tokens the pointer is at; all pictures mark it. */
function hoverOver(query, key) {
  if (hover.query === query && hover.key === key) return;
  hover.query = query;
  hover.key = key;
  markHover();
}
