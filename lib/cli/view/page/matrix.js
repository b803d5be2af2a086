// A matrix: one row per token that looks (query), one column per token that is looked at (key).

const smallestLabelled = 8;  // cells below this size get no labels

/** Where things are in a panel of this size. */
function matrixGeometry(context, width, height) {
  context.font = `12px ${styled("font")}`;
  let margin = Math.min(96, 12 + Math.max(...labels.map(label => context.measureText(label).width)));
  let cell = Math.min(width - margin, height - margin) / S;
  if (cell < smallestLabelled) {
    margin = 0;
    cell = Math.min(width, height) / S;
  }
  cell = Math.min(cell, 44) - 1 / S;  // room for the frame
  return {margin, cell, side: cell * S};
}

function drawLabels(context, {margin, cell}) {
  const size = Math.min(12, cell);
  context.font = `${size}px ${styled("font")}`;
  context.fillStyle = styled("ink");
  context.textBaseline = "middle";
  for (let i = 0; i < S; ++i) {
    const at = margin + (i + 0.5) * cell, label = fitted(context, labels[i], margin - 8);
    context.textAlign = "right";
    context.fillText(label, margin - 5, at);
    context.save();
    context.translate(at, margin - 5);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(label, 0, 0);
    context.restore();
  }
}

/** Marks the chosen row, and the row and column of the pointer. */
function markMatrix(panel) {
  const {margin, cell, side} = panel.geometry, context = sized(panel.marks, panel.width, panel.height);
  const frame = (query, key, colour) => {
    context.strokeStyle = styled(colour);
    context.lineWidth = 1.5;
    if (query >= 0) context.strokeRect(margin - 0.5, margin + query * cell - 0.5, side + 1, cell + 1);
    if (key >= 0) context.strokeRect(margin + key * cell - 0.5, margin - 0.5, cell + 1, side + 1);
  };
  frame(state.token, -1, "chosen");
  frame(hover.query, hover.key, "mark");
}

function drawMatrix(panel, values, top) {
  const look = [state.layer, state.head, state.theme, state.scale, panel.space.width, panel.space.height].join();
  if (panel.look === look) {  // only another token was chosen
    markMatrix(panel);
    return;
  }
  panel.look = look;
  panel.width = panel.space.width;
  panel.height = panel.space.height;
  const measure = panel.canvas.getContext("2d"), geometry = matrixGeometry(measure, panel.width, panel.height);
  panel.height = Math.min(panel.height, geometry.margin + geometry.side + 2);
  panel.geometry = geometry;
  const context = sized(panel.canvas, panel.width, panel.height), {margin, cell, side} = geometry;
  if (margin > 0) drawLabels(context, geometry);
  context.imageSmoothingEnabled = cell < 1;
  context.imageSmoothingQuality = "high";
  context.drawImage(pictureOf(values, S, S, top), margin, margin, side, side);
  context.strokeStyle = styled("line");
  context.strokeRect(margin - 0.5, margin - 0.5, side + 1, side + 1);
  markMatrix(panel);
}

/** The pair of tokens at a place of the panel; -1 outside. */
function matrixPair({geometry: {margin, cell}}, x, y) {
  const place = z => {
    const at = Math.floor((z - margin) / cell);
    return at >= 0 && at < S && z >= margin ? at : -1;
  };
  return {query: place(y), key: place(x)};
}
