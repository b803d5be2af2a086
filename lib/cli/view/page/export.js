// The shown matrices as CSV: one kind as a matrix with the tokens around it, several as one line per pair.

const csvField = text => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

function shownCsv() {
  const attention = attentionOf(state.layer, state.head), shown = shownKinds(), names = labels.map(csvField);
  const lines = [];
  if (shown.length === 1) {
    const values = attention[shown[0]];
    lines.push(["from", ...names].join());
    for (let i = 0; i < S; ++i) lines.push([names[i], ...values.subarray(i * S, (i + 1) * S)].join());
  } else {
    lines.push(["from", "to", "from_token", "to_token", ...shown].join());
    for (let i = 0; i < S; ++i) {
      for (let j = 0; j < S; ++j) {
        lines.push([i + 1, j + 1, names[i], names[j], ...shown.map(kind => attention[kind][i * S + j])].join());
      }
    }
  }
  return lines.join("\n") + "\n";
}

function saveCsv() {
  const link = make("a", {
    href: URL.createObjectURL(new Blob([shownCsv()], {type: "text/csv"})),
    download: `layer${state.layer + 1}_head${state.head + 1}_${state.kind === "all" ? "attention" : state.kind}.csv`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  say(`Saved ${link.download}`);
}

async function copyCsv() {
  try {
    await navigator.clipboard.writeText(shownCsv());
    say("Copied as CSV");
  } catch {
    say("The browser does not let this page copy; press s to save instead");
  }
}
