// Numbers as the page stores them: half precision, base64, little-endian. Matrices are Float32Arrays, row by row.

/** What each of the 65536 patterns of half precision stands for. */
const halfValues = (() => {
  const values = new Float32Array(65536);
  for (let bits = 0; bits < 65536; ++bits) {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24
               : exponent < 31  ? (1024 + fraction) * 2 ** (exponent - 25)
               : fraction === 0 ? Infinity : NaN;
    values[bits] = bits & 0x8000 ? -size : size;
  }
  return values;
})();

/** The numbers in the element with this id; null if the page has none. */
function storedNumbers(id) {
  const element = document.getElementById(id);
  if (!element) return null;
  const bytes = atob(element.textContent.trim());
  const numbers = new Float32Array(bytes.length / 2);
  for (let i = 0; i < numbers.length; ++i) {
    numbers[i] = halfValues[bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8)];
  }
  return numbers;
}

/** The rows 0 to i of a lower triangle as an n x n matrix. */
function squareOfTriangle(triangle, n) {
  const square = new Float32Array(n * n);
  for (let i = 0; i < n; ++i) square.set(triangle.subarray(i * (i + 1) / 2, (i + 1) * (i + 2) / 2), i * n);
  return square;
}

/** a (rows, n) times basis (n, r) times other (m, r) transposed: (rows, m). */
function projected(a, basis, other, n, r) {
  const rows = a.length / n, m = other.length / r;
  const out = new Float32Array(rows * m), p = new Float64Array(r);
  for (let i = 0; i < rows; ++i) {
    p.fill(0);
    for (let j = 0; j < n; ++j) {
      const weight = a[i * n + j];
      if (weight === 0) continue;
      for (let c = 0, at = j * r; c < r; ++c, ++at) p[c] += weight * basis[at];
    }
    for (let j = 0; j < m; ++j) {
      let sum = 0;
      for (let c = 0, at = j * r; c < r; ++c, ++at) sum += p[c] * other[at];
      out[i * m + j] = sum;
    }
  }
  return out;
}

/** Means of blocks of rows: x (n, columns) -> (cells, columns). */
function pooledRows(x, n, columns, cells) {
  const out = new Float32Array(cells * columns);
  for (let cell = 0; cell < cells; ++cell) {
    const begin = Math.floor(cell * n / cells), end = Math.floor((cell + 1) * n / cells);
    for (let i = begin; i < end; ++i) {
      for (let j = 0; j < columns; ++j) out[cell * columns + j] += x[i * columns + j] / (end - begin);
    }
  }
  return out;
}

/** Means of blocks of columns: x (rows, n) -> (rows, cells). */
function pooledColumns(x, rows, n, cells) {
  const out = new Float32Array(rows * cells);
  for (let cell = 0; cell < cells; ++cell) {
    const begin = Math.floor(cell * n / cells), end = Math.floor((cell + 1) * n / cells);
    for (let i = 0; i < rows; ++i) {
      let sum = 0;
      for (let j = begin; j < end; ++j) sum += x[i * n + j];
      out[i * cells + cell] = sum / (end - begin);
    }
  }
  return out;
}

function largest(x) {
  let most = 0;
  for (let i = 0; i < x.length; ++i) most = Math.max(most, Math.abs(x[i]));
  return most;
}

function minus(x, y) {
  return x.map((value, i) => value - y[i]);
}
