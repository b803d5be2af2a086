// All heads at once: a small picture of each, one row per layer.

const overview = {cells: Math.min(S, 48), pictures: new Map(), waiting: 0};

function overviewGeometry(space) {
  const left = 26, above = 20, gap = 4;
  const fitting = Math.min((space.width - left) / data.heads, (space.height - above) / data.layers);
  const cell = Math.max(24, Math.min(140, Math.floor(fitting)));
  return {left, above, gap, cell, width: left + cell * data.heads, height: above + cell * data.layers};
}

function drawOverviewHead(context, geometry, layer, head) {
  const {left, above, gap, cell} = geometry, x = left + head * cell, y = above + layer * cell;
  const picture = overview.pictures.get(indexOfHead(layer, head));
  context.imageSmoothingEnabled = cell - gap < overview.cells;
  if (picture) context.drawImage(picture, x, y, cell - gap, cell - gap);
  const isChosen = layer === state.layer && head === state.head;
  context.strokeStyle = styled(isChosen ? "chosen" : "line");
  context.lineWidth = isChosen ? 3 : 1;
  context.strokeRect(x - 0.5, y - 0.5, cell - gap + 1, cell - gap + 1);
}

/** Makes the pictures that are missing, a few at a time, so that the page stays quick. */
function continueOverview(panel, wanted) {
  if (wanted !== overview.waiting || state.view !== "heads") return;
  const end = performance.now() + 24, context = panel.canvas.getContext("2d");
  for (let index = 0; index < data.layers * data.heads; ++index) {
    if (overview.pictures.has(index)) continue;
    const layer = Math.floor(index / data.heads), head = index % data.heads;
    const values = smallAttention(layer, head, mainKind(), overview.cells);
    overview.pictures.set(index, pictureOf(values, overview.cells, overview.cells, largest(values) || 1));
    drawOverviewHead(context, panel.geometry, layer, head);
    if (performance.now() > end) {
      setTimeout(() => continueOverview(panel, wanted));
      return;
    }
  }
  document.body.dataset.overview = "complete";
}

function drawOverview(panel) {
  const look = `${mainKind()} ${state.scale} ${state.theme}`;
  if (overview.look !== look) overview.pictures.clear();
  overview.look = look;
  panel.look = null;
  panel.geometry = overviewGeometry(panel.space);
  panel.width = panel.geometry.width;
  panel.height = panel.geometry.height;
  const context = sized(panel.canvas, panel.width, panel.height), {left, above, cell, gap} = panel.geometry;
  sized(panel.marks, 0, 0);
  context.font = `11px ${styled("font")}`;
  context.fillStyle = styled("faint");
  context.textBaseline = "middle";
  context.textAlign = "center";
  const middle = (cell - gap) / 2;
  for (let head = 0; head < data.heads; ++head) context.fillText(head + 1, left + head * cell + middle, 9);
  for (let layer = 0; layer < data.layers; ++layer) context.fillText(layer + 1, 11, above + layer * cell + middle);
  for (let layer = 0; layer < data.layers; ++layer) {
    for (let head = 0; head < data.heads; ++head) drawOverviewHead(context, panel.geometry, layer, head);
  }
  delete document.body.dataset.overview;
  continueOverview(panel, ++overview.waiting);
}

/** The head at a place of the panel, or null. */
function overviewHead({geometry: {left, above, cell}}, x, y) {
  const head = Math.floor((x - left) / cell), layer = Math.floor((y - above) / cell);
  return x >= left && y >= above && head < data.heads && layer < data.layers ? {layer, head} : null;
}
