// Lines from the tokens that look (left) to the tokens that are looked at (right), as strong as the weight.

const levels = 24;  // of strength: lines of the same level are drawn at once

function linesGeometry(context, width, space) {
  const row = Math.max(15, Math.min(24, Math.floor(space / S)));
  context.font = `12px ${styled("font")}`;
  const longest = Math.max(...labels.map(label => context.measureText(label).width));
  return {row, left: Math.min(longest + 14, 0.32 * width), height: row * S + 8};
}

/** The lines of the tokens from `first` to `last`, by level of strength; too faint ones are left out. */
function linePaths(values, top, first, last, {row, left}, width) {
  const paths = {positive: new Map(), negative: new Map()}, right = width - left;
  const height = token => 4 + (token + 0.5) * row;
  for (let query = first; query <= last; ++query) {
    for (let key = 0; key < S; ++key) {
      const value = values[query * S + key], level = Math.round(levels * strength(value, top));
      if (level < 2) continue;
      const of = value < 0 ? paths.negative : paths.positive;
      if (!of.has(level)) of.set(level, new Path2D());
      const path = of.get(level);
      path.moveTo(left, height(query));
      path.lineTo(right, height(key));
    }
  }
  return paths;
}

function strokeLines(context, paths, isAlone) {
  for (const [sign, of] of Object.entries(paths)) {
    context.strokeStyle = styled(sign);
    for (const level of [...of.keys()].sort((a, b) => a - b)) {
      const share = level / levels;
      context.globalAlpha = isAlone ? Math.max(0.15, share) : share ** 2;
      context.lineWidth = 0.6 + 2.4 * share;
      context.stroke(of.get(level));
    }
  }
  context.globalAlpha = 1;
}

/** The tokens of both sides; those that the only shown token looks at have a bar behind them. */
function drawSides(context, panel, values, top, query) {
  const {row, left} = panel.geometry, right = panel.width - left;
  const ink = styled("ink");
  context.font = `${Math.min(12, row - 2)}px ${styled("font")}`;
  context.textBaseline = "middle";
  for (let token = 0; token < S; ++token) {
    const middle = 4 + (token + 0.5) * row, label = fitted(context, labels[token], left - 12);
    const isQuery = token === query;
    if (isQuery) {
      context.fillStyle = styled("chosen-fill");
      context.fillRect(0, middle - row / 2, left, row);
    }
    context.fillStyle = ink;
    context.textAlign = "right";
    context.fillText(label, left - 6, middle);
    if (query >= 0) {
      const value = values[query * S + token];
      context.fillStyle = colourOf(value, top);
      context.fillRect(right, middle - row / 2, left, row - 1);
      context.fillStyle = inkOn(value, top);
    }
    if (token === hover.key) {
      context.strokeStyle = styled("mark");
      context.strokeRect(right + 0.5, middle - row / 2 + 0.5, left - 1, row - 2);
    }
    context.textAlign = "left";
    context.fillText(label, right + 6, middle);
  }
}

function drawLines(panel, values, top) {
  panel.look = null;
  panel.values = values;
  panel.top = top;
  panel.width = panel.space.width;
  panel.geometry = linesGeometry(panel.canvas.getContext("2d"), panel.width, panel.space.height);
  panel.height = panel.geometry.height;
  sized(panel.marks, 0, 0);
  markLines(panel);
}

/** Draws the lines of the token at the pointer, else of the chosen one, else all. */
function markLines(panel) {
  const {values, top} = panel, query = hover.query >= 0 ? hover.query : state.token;
  const context = sized(panel.canvas, panel.width, panel.height);
  const [first, last] = query >= 0 ? [query, query] : [0, S - 1];
  strokeLines(context, linePaths(values, top, first, last, panel.geometry, panel.width), query >= 0);
  drawSides(context, panel, values, top, query);
}

/** The token of either side at a place of the panel. */
function linesPair(panel, x, y) {
  const {row, left} = panel.geometry, token = Math.floor((y - 4) / row), isToken = token >= 0 && token < S;
  return {query: isToken && x < left ? token : x < left ? -1 : hover.query,
          key: isToken && x > panel.width - left ? token : -1};
}
