// Hidden Token Attribution: how much of each input token is in the chosen hidden token, layer by layer.

const attributionPanel = {canvas: make("canvas", {role: "img"}), left: 18, right: 46, row: 16};

function makeAttribution() {
  if (!contributions) {
    byId("attribution").replaceChildren(make("p", {
      className: "key", textContent: "Not computed. Run nullscope view without --no-attribution to see it here."}));
    return;
  }
  attributionPanel.list = make("div");
  attributionPanel.key = make("p", {className: "key"});
  byId("attribution").replaceChildren(attributionPanel.canvas, attributionPanel.key, attributionPanel.list);
  const placeOf = event => {
    const box = attributionPanel.canvas.getBoundingClientRect(), {left, right, row} = attributionPanel;
    const token = Math.floor((event.clientX - box.left - left) / (box.width - left - right) * S);
    const layer = Math.floor((event.clientY - box.top) / row);
    return token >= 0 && token < S && layer >= 0 && layer < data.layers ? {layer, token} : null;
  };
  attributionPanel.canvas.addEventListener("pointermove", event => {
    const at = placeOf(event);
    if (at) showTip(event, `input ${labels[at.token]} (${at.token + 1}), after layer ${at.layer + 1}`,
                    [["share", contributionText(at.layer, contributionsOf(at.layer, state.token)[at.token])]]);
    else hideTip();
  });
  attributionPanel.canvas.addEventListener("pointerleave", hideTip);
  attributionPanel.canvas.addEventListener("click", event => {
    const at = placeOf(event);
    if (at) change({layer: at.layer});
  });
}

function contributionText(layer, share) {
  const error = contributionError(layer, state.token) * share;
  return error > 0 ? `${(100 * share).toFixed(1)} \u00b1 ${(100 * error).toFixed(1)} %` : percent(share);
}

/** The share of the token itself after a layer; without a token the mean over all. */
function ownShare(layer) {
  if (state.token >= 0) return contributionsOf(layer, state.token)[state.token];
  let sum = 0;
  for (let i = 0; i < S; ++i) sum += contributionsOf(layer, i)[i];
  return sum / S;
}

function drawAttribution() {
  if (!contributions) return;
  const {canvas, left, right, row} = attributionPanel;
  const width = byId("attribution").clientWidth, height = row * data.layers + 14;
  const context = sized(canvas, width, height), inner = width - left - right;
  const rows = Array.from({length: data.layers}, (_, layer) => contributionsOf(layer, state.token));
  const top = Math.max(...rows.map(largest)) || 1;
  context.font = `11px ${styled("font")}`;
  context.textBaseline = "middle";
  rows.forEach((values, layer) => {
    const y = layer * row;
    context.imageSmoothingEnabled = inner < S;
    context.drawImage(pictureOf(values, 1, S, top), left, y, inner, row - 2);
    context.fillStyle = styled(layer === state.layer ? "ink" : "faint");
    context.textAlign = "right";
    context.fillText(layer + 1, left - 5, y + row / 2 - 1);
    context.fillText(percent(ownShare(layer), 0), width, y + row / 2 - 1);
    context.strokeStyle = styled(layer === state.layer ? "chosen" : "line");
    context.lineWidth = layer === state.layer ? 2 : 1;
    context.strokeRect(left - 0.5, y - 0.5 + (layer === 0), inner + 1, row - 1 - (layer === 0));
  });
  if (state.token >= 0) {  // a mark under the column of the token itself
    const x = left + (state.token + 0.5) * inner / S, y = row * data.layers;
    context.fillStyle = styled("chosen");
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y + 8);
    context.lineTo(x + 5, y + 8);
    context.fill();
  }
  const whose = state.token >= 0 ? `hidden token \u201c${labels[state.token]}\u201d` : "all hidden tokens (mean)";
  canvas.setAttribute("aria-label", `Contribution of each input token to ${whose}, layer by layer`);
  const how = data.attribution.samples > 0 ? `Estimated from ${data.attribution.samples} random direction`
                                             + `${data.attribution.samples > 1 ? "s" : ""} per token.` : "Exact.";
  attributionPanel.key.textContent =
      `Rows: layers, columns: input tokens; right: the token's own share. Of ${whose}. ${how}`;
  attributionPanel.list.replaceChildren(
      barList(`After layer ${state.layer + 1}`, rows[state.layer], largest(rows[state.layer]) || 1,
              share => contributionText(state.layer, share)));
}
