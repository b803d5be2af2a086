// Colours of weights: blue above zero, orange below, the background at zero. Both can be told apart with every kind of
// colour blindness.

const stops = {
  light: {positive: ["#ffffff", "#c9dff2", "#5fa3d6", "#1f63ad", "#08264f"],
          negative: ["#ffffff", "#fddcb8", "#f39a4a", "#c25509", "#5f2503"]},
  dark: {positive: ["#12161d", "#173a63", "#2a78c8", "#6fb7ff", "#e2f1ff"],
         negative: ["#12161d", "#5a2b0a", "#b85c12", "#ff9d4d", "#ffe9d2"]},
};

const rgbOf = hex => [1, 3, 5].map(i => Number.parseInt(hex.slice(i, i + 2), 16));

/** 256 colours from zero to the largest weight, as [r, g, b, r, g, b, ...]. */
function ramp(hexes) {
  const colours = hexes.map(rgbOf), table = new Uint8ClampedArray(3 * 256);
  for (let i = 0; i < 256; ++i) {
    const place = i / 255 * (colours.length - 1), at = Math.min(Math.floor(place), colours.length - 2);
    const [from, to] = [colours[at], colours[at + 1]];
    for (let c = 0; c < 3; ++c) table[3 * i + c] = from[c] + (place - at) * (to[c] - from[c]);
  }
  return table;
}

const ramps = Object.fromEntries(Object.entries(stops).map(
    ([theme, of]) => [theme, {positive: ramp(of.positive), negative: ramp(of.negative)}]));

/** Where a weight lies between zero and the largest, 0 to 1, by the chosen scale. */
function strength(value, top, scale = state.scale) {
  const share = Math.min(1, Math.abs(value) / top);
  return scale === "root" ? Math.sqrt(share) : share;
}

function colourOf(value, top, scale = state.scale) {
  const table = ramps[state.theme][value < 0 ? "negative" : "positive"];
  const at = 3 * Math.round(255 * strength(value, top, scale));
  return `rgb(${table[at]}, ${table[at + 1]}, ${table[at + 2]})`;
}

/** Text that can be read on the colour of a value. */
function inkOn(value, top, scale = state.scale) {
  const isStrong = strength(value, top, scale) > 0.55;
  return (state.theme === "dark") === isStrong ? "#0b0f14" : "#f4f7fb";
}

/** A matrix (rows, columns) as a picture with one pixel per number. */
function pictureOf(values, rows, columns, top) {
  const picture = document.createElement("canvas");
  picture.width = columns;
  picture.height = rows;
  const context = picture.getContext("2d"), image = context.createImageData(columns, rows);
  const {positive, negative} = ramps[state.theme], pixels = image.data, isRoot = state.scale === "root";
  for (let i = 0, to = 0; i < values.length; ++i, to += 4) {
    const share = Math.min(1, Math.abs(values[i]) / top), table = values[i] < 0 ? negative : positive;
    const at = 3 * Math.round(255 * (isRoot ? Math.sqrt(share) : share));
    pixels[to] = table[at];
    pixels[to + 1] = table[at + 1];
    pixels[to + 2] = table[at + 2];
    pixels[to + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return picture;
}

/** A colour of the style sheet. */
const styled = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
