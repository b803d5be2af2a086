// Added to a page of nullscope view by view_browser_test.cpp. The page was opened with #layer=2&head=3&token=4.
(async () => {
  "use strict";
  const {state, change, attentionOf, contributionsOf, shownCsv} = window.nullscope;
  const data = JSON.parse(document.getElementById("data").textContent), S = data.tokens.length;
  const wrong = [];
  let checks = 0;
  const expect = (isRight, what) => {
    ++checks;
    if (!isRight) wrong.push(what);
  };
  const frame = () => new Promise(resolve => setTimeout(resolve, 100));
  const press = async key => {
    dispatchEvent(new KeyboardEvent("keydown", {key}));
    await frame();
  };
  const isShown = canvas => canvas.width > 0 &&
      canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(x => x !== 0);
  // Without a window, the browser draws one frame and no more.
  window.requestAnimationFrame = callback => setTimeout(callback);
  addEventListener("error", event => wrong.push(event.message));
  await frame();

  // The address chose the place; the text is there as text.
  expect(state.layer === 1 && state.head === 2 && state.token === 3, `the address gave ${JSON.stringify(state)}`);
  const ribbon = document.getElementById("ribbon");
  for (const token of data.tokens) expect(token.repeats || ribbon.textContent.includes(token.text), `no ${token.text}`);
  expect(
      document.querySelectorAll("#ribbon script").length === 0 && document.title.startsWith("nullscope"),
      "text became a script");

  // Numbers: rows of raw attention sum to one; effective and null give raw; causal ones have nothing above the
  // diagonal.
  const {raw, effective, null: nullPart} = attentionOf(1, 2);
  for (let i = 0; i < S; ++i) {
    const sum = raw.subarray(i * S, (i + 1) * S).reduce((a, b) => a + b, 0);
    expect(Math.abs(sum - 1) < S * 2 ** -11, `row ${i} sums to ${sum}`);
    for (let j = 0; j < S; ++j) {
      const at = i * S + j;
      expect(Math.abs(effective[at] + nullPart[at] - raw[at]) < 2 ** -22, `${i}, ${j} do not add up`);
      if (data.effective === "triangle" && j > i) expect(effective[at] === 0, `${i}, ${j} is above the diagonal`);
    }
  }
  // Rounding moves A by 2^-11 |A|, and U by at most 2^-11 |U| = 2^-11 sqrt(rank), which enters twice.
  const norm = x => Math.hypot(...x), at = data.heads + 2;
  const rounding = 2 ** -11 * data.rawNorm[at] * (1 + 2 * Math.sqrt(data.rank[at]));
  expect(
      Math.abs(norm(effective) - data.effectiveNorm[at]) < rounding,
      `|effective| is ${norm(effective)}, not ${data.effectiveNorm[at]}`);
  expect(
      Math.abs(norm(nullPart) - data.nullNorm[at]) < 2 * rounding,
      `|null| is ${norm(nullPart)}, not ${data.nullNorm[at]}`);
  if (data.attribution) {
    const own = contributionsOf(1, 3).reduce((a, b) => a + b, 0);
    expect(Math.abs(own - 1) < S * 2 ** -11, `contributions sum to ${own}`);
  }

  // Keys.
  await press("ArrowRight");
  expect(state.head === Math.min(3, data.heads - 1), "right is the next head, up to the last");
  await press("ArrowUp");
  await press("ArrowUp");
  expect(state.layer === 0, "up stops at the first layer");
  await press(".");
  expect(state.token === 4, "the next token");
  expect(location.hash.includes("token=5"), `the address is ${location.hash}`);
  expect(
      document.querySelector("#ribbon .chosen").textContent ===
          (data.tokens[4].repeats ? "\u25e6" : data.tokens[4].text),
      "the chosen token is marked");
  await press("Escape");
  expect(state.token === -1, "no token");
  const theme = document.documentElement.dataset.theme;
  await press("t");
  expect(document.documentElement.dataset.theme !== theme, "the other theme");
  await press("?");
  expect(document.getElementById("help").open, "help is open");
  await press("?");
  expect(!document.getElementById("help").open, "help is closed");

  // Every view and kind draws something.
  for (const view of ["m", "l", "o"]) {
    await press(view);
    for (const kind of ["0", "1", "2", "3", "4"]) {
      await press(kind);
      const panels = [...document.querySelectorAll("#panels .holder > canvas:first-child")];
      const count = kind !== "0" || view === "o" ? 1 : view === "l" ? 3 : 4;
      expect(panels.length === count && panels.every(isShown), `${view} ${kind} shows ${panels.length} panels`);
    }
  }
  expect(document.body.dataset.overview === "complete", "all small pictures are drawn");

  // The pointer: numbers of the pair under it.
  await press("m");
  await press("1");
  const canvas = document.querySelector("#panels canvas"), box = canvas.getBoundingClientRect();
  const place = {clientX: box.left + box.height - 5, clientY: box.top + box.height - 5, bubbles: true};
  canvas.dispatchEvent(new PointerEvent("pointermove", place));
  const tip = document.getElementById("tip"), weight = attentionOf(state.layer, state.head).raw[S * S - 1];
  const shown = tip.querySelector("td")?.textContent;
  expect(
      !tip.hidden && tip.querySelector("strong").textContent.includes(`(${S}) \u2192`),
      `the tip says ${tip.textContent}`);
  expect(Math.abs(Number(shown) - weight) <= 0.00005, `the tip says ${shown}, not ${weight}`);
  canvas.dispatchEvent(new PointerEvent("click", place));
  await frame();
  expect(state.token === S - 1, "a click chooses the row");

  // CSV: a matrix of one kind, pairs of several.
  const rows = shownCsv().trim().split("\n");
  expect(rows.length === S + 1, `${rows.length} lines`);
  expect(Number(rows[S].split(",").pop()) === weight, `the last number is ${rows[S]}`);
  change({kind: "all"});
  expect(shownCsv().trim().split("\n").length === S * S + 1, "one line per pair");

  const report = document.createElement("pre");
  report.id = "self-test";
  report.textContent = `${checks} checks, ${wrong.length} wrong\n${wrong.slice(0, 20).join("\n")}`;
  document.body.append(report);
})();
