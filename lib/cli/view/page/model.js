// What the page knows: the text, and the attention of every head, decoded when it is first looked at.

const data = JSON.parse(document.getElementById("data").textContent);
const S = data.tokens.length;

/** The matrices of a head. "null" is raw - effective; "difference" compares shares of a row, see `difference`. */
const kinds = {
  raw: {title: "Raw", about: "what softmax gives"},
  effective: {title: "Effective", about: "what the head's output depends on"},
  null: {title: "Null", about: "raw \u2212 effective: changes nothing"},
  difference: {title: "Difference", about: "who gains or loses: share of |effective| \u2212 raw"},
};

const indexOfHead = (layer, head) => layer * data.heads + head;
const rankOf = (layer, head) => data.rank[indexOfHead(layer, head)];

/** The parts of a head as they are stored: raw (S, S), and basis (S, rank) or effective (S, S). */
function storedHead(layer, head) {
  const numbers = storedNumbers(`head-${layer}-${head}`), rank = rankOf(layer, head);
  if (data.effective === "basis") {
    return {raw: numbers.subarray(0, S * S), basis: rank < S ? numbers.subarray(S * S) : null, rank};
  }
  const size = data.effective === "triangle" ? S * (S + 1) / 2 : S * S;
  const square = part => data.effective === "triangle" ? squareOfTriangle(part, S) : part;
  return {raw: square(numbers.subarray(0, size)), effective: square(numbers.subarray(size)), rank};
}

/** Each row of |effective|, scaled to the sum of the raw row, minus raw. */
function difference(raw, effective) {
  const out = new Float32Array(S * S);
  for (let i = 0; i < S; ++i) {
    let size = 0, sum = 0;
    for (let j = i * S; j < (i + 1) * S; ++j) {
      size += Math.abs(effective[j]);
      sum += raw[j];
    }
    for (let j = i * S; j < (i + 1) * S; ++j) {
      out[j] = (size > 0 ? Math.abs(effective[j]) * sum / size : 0) - raw[j];
    }
  }
  return out;
}

const decodedHeads = new Map();  // the last few, the oldest first

/** {raw, effective, null, difference, tops: the largest weight of each}. */
function attentionOf(layer, head) {
  const key = indexOfHead(layer, head);
  let found = decodedHeads.get(key);
  if (!found) {
    const stored = storedHead(layer, head), raw = stored.raw;
    const effective = stored.effective ?? (stored.basis ? projected(raw, stored.basis, stored.basis, S, stored.rank)
                                                        : raw);
    found = {raw, effective, null: minus(raw, effective), difference: difference(raw, effective)};
    found.tops = Object.fromEntries(Object.entries(found).map(([kind, values]) => [kind, largest(values)]));
    if (decodedHeads.size >= 16) decodedHeads.delete(decodedHeads.keys().next().value);
  }
  decodedHeads.delete(key);
  decodedHeads.set(key, found);
  return found;
}

/** A small picture of a head, (cells, cells) means of blocks, without the S x S effective attention. */
function smallAttention(layer, head, kind, cells) {
  const stored = storedHead(layer, head);
  const rows = pooledRows(stored.raw, S, S, cells);
  const raw = pooledColumns(rows, cells, S, cells);
  if (kind === "raw") return raw;
  if (kind === "difference") {
    const {difference: whole} = attentionOf(layer, head);
    return pooledColumns(pooledRows(whole, S, S, cells), cells, S, cells);
  }
  let effective = raw;
  if (stored.effective) {
    effective = pooledColumns(pooledRows(stored.effective, S, S, cells), cells, S, cells);
  } else if (stored.basis) {
    const columns = pooledRows(stored.basis, S, stored.rank, cells);
    effective = projected(rows, stored.basis, columns, S, stored.rank);
  }
  return kind === "effective" ? effective : minus(raw, effective);
}

/** Row `token` of an (S, S) matrix; without a token the mean of all rows. */
function rowOf(matrix, token) {
  return token >= 0 ? matrix.subarray(token * S, (token + 1) * S) : pooledRows(matrix, S, S, 1);
}

const contributions = storedNumbers("contributions"), contributionErrors = storedNumbers("contribution-errors");

/** How much of each input token is in hidden token `token` after a layer. */
function contributionsOf(layer, token) {
  return rowOf(contributions.subarray(layer * S * S, (layer + 1) * S * S), token);
}

/** Standard error of a contribution as a share of it; 0 if it is exact or not known. */
function contributionError(layer, token) {
  return contributionErrors && token >= 0 ? contributionErrors[layer * S + token] : 0;
}

/** The token as a label. */
const labels = data.tokens.map(token => (token.continues ? "##" : "") + (token.text.trim() || token.vocabulary));
