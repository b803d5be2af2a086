// The middle of the page: one panel per kind of attention, or the overview of all heads.

let panels = [];

function makePanel(kind) {
  const panel = {kind, canvas: make("canvas", {role: "img"}), marks: make("canvas", {className: "marks"})};
  const holder = make("div", {className: "holder"}, panel.canvas, panel.marks);
  panel.title = make("strong");
  panel.about = make("span");
  panel.figure = make("figure", {}, make("figcaption", {}, panel.title, panel.about), holder);
  const place = event => {
    const box = panel.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  holder.addEventListener("pointermove", event => pointAt(panel, event, ...place(event)));
  holder.addEventListener("pointerleave", () => {
    hoverOver(-1, -1);
    hideTip();
  });
  holder.addEventListener("click", event => clickAt(panel, ...place(event)));
  return panel;
}

const pairAt = (panel, x, y) => state.view === "lines" ? linesPair(panel, x, y) : matrixPair(panel, x, y);

function pointAt(panel, event, x, y) {
  if (state.view === "heads") {
    const at = overviewHead(panel, x, y);
    if (at) showHeadTip(event, at.layer, at.head);
    else hideTip();
    return;
  }
  const {query, key} = pairAt(panel, x, y), from = query >= 0 ? query : state.view === "lines" ? state.token : -1;
  hoverOver(query, key);
  if (from >= 0 && key >= 0) showPairTip(event, from, key);
  else hideTip();
}

function clickAt(panel, x, y) {
  if (state.view === "heads") {
    const at = overviewHead(panel, x, y);
    if (at) change({...at, view: "matrix"});
    return;
  }
  const {query, key} = pairAt(panel, x, y), token = state.view === "lines" && key >= 0 ? key : query;
  if (token >= 0) change({token: token === state.token ? -1 : token});
}

/** How much room a panel has. */
function spaceFor(count) {
  const stage = byId("panels"), gap = 16, caption = 24, isNarrow = innerWidth < 900;
  const spaces = [];
  for (let across = 1; across <= count; ++across) {
    const down = Math.ceil(count / across);
    const width = Math.floor((stage.clientWidth - (across - 1) * gap) / across);
    const height = isNarrow ? width : Math.floor((stage.clientHeight - (down - 1) * gap) / down) - caption;
    spaces.push({width, height: Math.max(160, height)});
  }
  if (state.view === "heads" || isNarrow) return spaces[0];
  if (state.view === "lines") return {...spaces[count - 1], width: Math.min(560, spaces[count - 1].width)};
  const side = space => Math.min(space.width, space.height);
  return spaces.reduce((best, space) => side(space) > side(best) ? space : best);
}

function drawPanels() {
  const wanted = state.view === "heads" ? [mainKind()] : shownKinds();
  if (panels.map(panel => panel.kind).join() !== wanted.join()) {
    panels = wanted.map(makePanel);
    byId("panels").replaceChildren(...panels.map(panel => panel.figure));
  }
  byId("panels").className = state.view;
  const space = spaceFor(wanted.length), draws = {matrix: drawMatrix, lines: drawLines, heads: drawOverview};
  const attention = state.view === "heads" ? null : attentionOf(state.layer, state.head);
  for (const panel of panels) {
    const of = kinds[panel.kind];
    panel.space = space;
    panel.figure.style.width = `${space.width}px`;
    panel.title.textContent = of.title;
    panel.about.textContent = state.view === "heads" ? "small pictures of all heads, each by its own scale" : of.about;
    panel.about.title = panel.about.textContent;
    const whose = `layer ${state.layer + 1}, head ${state.head + 1}`;
    panel.canvas.setAttribute("aria-label", `${of.title} attention of ${whose}`);
    draws[state.view](panel, attention?.[panel.kind], attention && shownTop(attention));
  }
}

/** Draws what depends on the pointer. */
function markHover() {
  for (const panel of panels) {
    if (state.view === "matrix") markMatrix(panel);
    if (state.view === "lines") markLines(panel);
  }
  markRibbon();
}
