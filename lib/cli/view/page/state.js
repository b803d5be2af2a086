// What is shown. It stands in the address, so that a link leads to the same picture:
//   page.html#layer=3&head=5&token=7&view=lines&kind=effective
// Layers, heads and tokens count from 1 there, and from 0 here.

const choices = {
  view: ["matrix", "lines", "heads"],
  kind: ["all", ...Object.keys(kinds)],
  metric: ["null", "correlation", "rank", "entropy"],
  colour: ["attention", ...(contributions ? ["attribution"] : []), ...(data.explanation ? ["explanation"] : [])],
  scale: ["root", "linear"],
  theme: ["light", "dark"],
};
const counts = {layer: data.layers, head: data.heads, token: S};
const startTheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const startState = {layer: 0, head: 0, token: -1, view: "matrix", kind: "all", metric: "null", colour: "attention",
                    scale: "root", theme: startTheme};
const state = {...startState};
const hover = {query: -1, key: -1};

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, startState);
  for (const [name, count] of Object.entries(counts)) {
    const number = Number.parseInt(given.get(name), 10);
    if (number >= 1 && number <= count) state[name] = number - 1;
  }
  for (const [name, allowed] of Object.entries(choices)) {
    if (allowed.includes(given.get(name))) state[name] = given.get(name);
  }
}

function writeAddress() {
  const parts = [];
  for (const name of Object.keys(state)) {
    if (state[name] !== startState[name]) parts.push(`${name}=${name in counts ? state[name] + 1 : state[name]}`);
  }
  history.replaceState(null, "", parts.length ? `#${parts.join("&")}` : "#");
}

/** Changes the state and draws again. Numbers beyond the ends stay at the ends. */
function change(to) {
  Object.assign(state, to);
  for (const [name, count] of Object.entries(counts)) {
    state[name] = Math.max(name === "token" ? -1 : 0, Math.min(count - 1, state[name]));
  }
  writeAddress();
  schedule();
}

/** The next choice after the present one, around the end. */
function next(name) {
  const all = choices[name];
  change({[name]: all[(all.indexOf(state[name]) + 1) % all.length]});
}

/** The kinds in the middle of the page. Lines need more room: three of them. */
const shownKinds = () => state.kind !== "all" ? [state.kind]
                       : Object.keys(kinds).slice(0, state.view === "lines" ? 3 : 4);

/** The weight that gets the strongest colour: one for all that is shown, so that colours compare. */
const shownTop = attention => Math.max(...shownKinds().map(kind => attention.tops[kind])) || 1;

/** The one kind that lists, the text and small pictures show. */
const mainKind = () => state.kind === "all" ? "effective" : state.kind;
