/// Tensor cores: which element of a tile each lane holds, as NVIDIA documents it for mma.sync and ldmatrix. How wmma
/// spreads a tile is not documented: here as two products of mma.sync side by side.
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

struct place {
  int row, column;
};

/// Places of element e of a lane. A lane belongs to one of 8 groups of 4.
struct fragment {
  int rows, columns, elements;
  place (*at)(int lane, int e);
};

constexpr int group_of(int lane) { return lane >> 2; }
constexpr int in_group(int lane) { return lane & 3; }

// 16-bit factors, and sums in float.
constexpr fragment a_16x16{16, 16, 8, [](int l, int e) {
                             return place{group_of(l) + 8 * (e >> 1 & 1), 2 * in_group(l) + (e & 1) + 8 * (e >> 2)};
                           }};
constexpr fragment a_16x8{16, 8, 4, [](int l, int e) {
                            return place{group_of(l) + 8 * (e >> 1), 2 * in_group(l) + (e & 1)};
                          }};
constexpr fragment b_16x8{16, 8, 4, [](int l, int e) {
                            return place{2 * in_group(l) + (e & 1) + 8 * (e >> 1), group_of(l)};
                          }};
constexpr fragment b_8x8{8, 8, 2, [](int l, int e) { return place{2 * in_group(l) + e, group_of(l)}; }};
constexpr fragment c_16x8{16, 8, 4, [](int l, int e) {
                            return place{group_of(l) + 8 * (e >> 1), 2 * in_group(l) + (e & 1)};
                          }};
// tf32: a word for each element.
constexpr fragment a_word_16x8{16, 8, 4, [](int l, int e) {
                                 return place{group_of(l) + 8 * (e & 1), in_group(l) + 4 * (e >> 1)};
                               }};
constexpr fragment a_word_16x4{16, 4, 2, [](int l, int e) { return place{group_of(l) + 8 * e, in_group(l)}; }};
constexpr fragment b_word_8x8{8, 8, 2, [](int l, int e) { return place{in_group(l) + 4 * e, group_of(l)}; }};
constexpr fragment b_word_4x8{4, 8, 1, [](int l, int) { return place{in_group(l), group_of(l)}; }};
// f64
constexpr fragment a_8x4{8, 4, 1, [](int l, int) { return place{group_of(l), in_group(l)}; }};
constexpr fragment b_4x8{4, 8, 1, [](int l, int) { return place{in_group(l), group_of(l)}; }};
constexpr fragment c_8x8{8, 8, 2, [](int l, int e) { return place{group_of(l), 2 * in_group(l) + e}; }};
// wmma: columns 0 to 7, then 8 to 15.
constexpr fragment b_16x16{16, 16, 8, [](int l, int e) {
                             const place half = b_16x8.at(l, e & 3);
                             return place{half.row, half.column + 8 * (e >> 2)};
                           }};
constexpr fragment c_16x16{16, 16, 8, [](int l, int e) {
                             const place half = c_16x8.at(l, e & 3);
                             return place{half.row, half.column + 8 * (e >> 2)};
                           }};

struct product_shape {
  std::string_view name;
  type factor;
  fragment a, b, c;
};
constexpr product_shape products[] = {
    {"m16n8k16", type::bf16, a_16x16, b_16x8, c_16x8},
    {"m16n8k16", type::f16, a_16x16, b_16x8, c_16x8},
    {"m16n8k8", type::bf16, a_16x8, b_8x8, c_16x8},
    {"m16n8k8", type::f16, a_16x8, b_8x8, c_16x8},
    {"m16n8k8", type::tf32, a_word_16x8, b_word_8x8, c_16x8},
    {"m16n8k4", type::tf32, a_word_16x4, b_word_4x8, c_16x8},
    {"m8n8k4", type::f64, a_8x4, b_4x8, c_8x8},
    {"m16n16k16", type::bf16, a_16x16, b_16x16, c_16x16},
    {"m16n16k16", type::f16, a_16x16, b_16x16, c_16x16},
};

const product_shape* find_product(const statement& s, type factor) {
  for (const product_shape& one : products) {
    if (s.has(one.name) && one.factor == factor) return &one;
  }
  return nullptr;
}

using tile = std::array<std::array<double, 16>, 16>;

/// An element of a fragment; `first` is the fragment's first register.
double element(const warp& w, const instruction& i, std::size_t first, type t, int lane, int e) {
  const auto register_of = [&](int n) { return i.from[first + static_cast<std::size_t>(n)]; };
  switch (t) {
    case type::f64: return w.in<double>(register_of(e))[lane];
    case type::f32: return w.in<float>(register_of(e))[lane];
    case type::tf32:
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(w.in<float>(register_of(e))[lane]) & ~0x1fffu);
    default: {
      const std::uint32_t both = w.in<std::uint32_t>(register_of(e / 2))[lane];
      const auto bits = static_cast<std::uint16_t>(both >> (16 * (e & 1)));
      return t == type::bf16 ? bfloat16_to_float(bits) : half_to_float(bits);
    }
  }
}

tile gather(const warp& w, const instruction& i, std::size_t first, type t, const fragment& f) {
  tile result{};
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < f.elements; ++e) {
      const place at = f.at(lane, e);
      result[static_cast<std::size_t>(at.row)][static_cast<std::size_t>(at.column)] = element(w, i, first, t, lane, e);
    }
  }
  return result;
}

/// How many registers of the instruction belong to each factor.
struct register_counts {
  std::size_t a, b;
};
constexpr std::int64_t pack_counts(std::size_t product, register_counts counts) {
  return static_cast<std::int64_t>(product << 16 | counts.a << 8 | counts.b);
}

/// d = a b + c. Sums are rounded once: how tensor cores round in between is not documented.
template <class Sum>
void multiply(warp& w, const instruction& i, mask) {
  const product_shape& shape = products[i.number >> 16];
  const auto a_count = static_cast<std::size_t>(i.number >> 8 & 255),
             b_count = static_cast<std::size_t>(i.number & 255);
  const type sum_type = sizeof(Sum) == 8 ? type::f64 : type::f32;
  const tile a = gather(w, i, 0, shape.factor, shape.a), b = gather(w, i, a_count, shape.factor, shape.b);
  const tile c = gather(w, i, a_count + b_count, sum_type, shape.c);
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < shape.c.elements; ++e) {
      const place at = shape.c.at(lane, e);
      const auto row = static_cast<std::size_t>(at.row), column = static_cast<std::size_t>(at.column);
      double sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(shape.a.columns); ++k) sum += a[row][k] * b[k][column];
      w.out<Sum>(i.to[static_cast<std::size_t>(e)])[lane] = static_cast<Sum>(sum + c[row][column]);
    }
  }
}

bool decode_multiply(const statement& s, operand_rows& rows, instruction& i) {
  const std::size_t parts = s.op.size();
  type d{}, a{}, b{}, c{};
  if (!parse_type(s.op[parts - 4], d) || !parse_type(s.op[parts - 3], a) || !parse_type(s.op[parts - 2], b) ||
      !parse_type(s.op[parts - 1], c)) {
    return false;
  }
  const product_shape* const shape = find_product(s, a);
  if (shape == nullptr || a != b || c != d || (d != type::f32 && d != type::f64)) return false;
  if (s.op[0] == "mma" && !(s.has("row") && s.has("col"))) return false;
  const type word = a == type::f64 ? type::b64 : type::b32;
  for (const operand& x : s.operands[0].parts) operand_rows::add_target(i, rows.write(x, d));
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}}) {
    for (const operand& x : s.operands[n].parts) operand_rows::add_source(i, rows.read(x, word));
  }
  for (const operand& x : s.operands[3].parts) operand_rows::add_source(i, rows.read(x, c));
  i.counted = kind::mma;
  i.number =
      pack_counts(static_cast<std::size_t>(shape - products), {s.operands[1].parts.size(), s.operands[2].parts.size()});
  i.run = d == type::f64 ? multiply<double> : multiply<float>;
  return true;
}

/// wmma.load and wmma.store; `number`: which fragment, and whether the matrix stands column by column.
constexpr const fragment* wmma_fragments[] = {&a_16x16, &b_16x16, &c_16x16};

std::uint64_t element_address(const warp& w, const instruction& i, const fragment& f, int lane, int e,
                              std::size_t bytes) {
  const auto* const base = w.in<std::uint64_t>(i.from[0]);
  const auto* const stride = w.in<std::uint32_t>(i.from[1]);
  const place at = f.at(lane, e);
  const bool by_columns = (i.number & 1) != 0;
  const auto outer = static_cast<std::uint64_t>(by_columns ? at.column : at.row);
  const auto inner = static_cast<std::uint64_t>(by_columns ? at.row : at.column);
  return base[lane] + static_cast<std::uint64_t>(i.offset) + (outer * stride[lane] + inner) * bytes;
}

/// An element of 2 or 4 bytes for each lane and e.
template <class T, bool IsStore>
void move_tile(warp& w, const instruction& i, mask active) {
  const fragment& f = *wmma_fragments[i.number >> 1];
  constexpr int per_register = 4 / static_cast<int>(sizeof(T));
  std::array<std::uint64_t, lanes> addresses{};
  for (int e = 0; e < f.elements; ++e) {
    for (int lane = 0; lane < lanes; ++lane)
      addresses[static_cast<std::size_t>(lane)] = element_address(w, i, f, lane, e, sizeof(T));
    if (e % per_register == 0) count_access(w, i.where, addresses, active, 4, IsStore);
    for (int lane = 0; lane < lanes; ++lane) {
      std::byte* const at = memory_at(w, i.where, lane, addresses[static_cast<std::size_t>(lane)], sizeof(T));
      const std::size_t byte = sizeof(T) * static_cast<std::size_t>(e % per_register);
      if constexpr (IsStore) {
        std::memcpy(at, w.in<T>(i.from[2 + static_cast<std::size_t>(e)]) + lane, sizeof(T));
      } else {
        for (int copy = e / per_register; copy < i.to_count; copy += f.elements / per_register) {
          auto* const to =
              reinterpret_cast<std::byte*>(w.out<std::uint32_t>(i.to[static_cast<std::size_t>(copy)]) + lane);
          std::memcpy(to + byte, at, sizeof(T));
        }
      }
    }
  }
}

bool decode_tile_move(const statement& s, operand_rows& rows, instruction& i) {
  const bool is_store = s.has("store");
  const type t = type_of(s);
  if (!s.has("m16n16k16") || s.operands.size() < 2) return false;
  const operand& registers = s.operands[is_store ? 1 : 0];
  i.where = s.has("shared") ? space::shared : s.has("global") ? space::global : space::generic;
  i.counted = i.where == space::shared ? (is_store ? kind::store_shared : kind::load_shared)
                                       : (is_store ? kind::store_global : kind::load_global);
  operand_rows::add_source(i, rows.address(s.operands[is_store ? 0 : 1], i));
  operand sixteen;  // the stride of a dense tile
  sixteen.is = operand::form::number;
  sixteen.bits = 16;
  operand_rows::add_source(i, rows.read(s.operands.size() > 2 ? s.operands[2] : sixteen, type::b32));
  for (const operand& x : registers.parts) {
    const row r = is_store ? rows.read(x, type::b32) : rows.write(x, type::b32);
    if (is_store) {
      operand_rows::add_source(i, r);
    } else {
      operand_rows::add_target(i, r);
    }
  }
  const int which = s.has("a") ? 0 : s.has("b") ? 1 : 2;
  if (i.from[0].bytes != 8 || (which == 2) != (t == type::f32)) return false;
  i.number = which << 1 | (s.has("col") ? 1 : 0);
  i.run = is_store         ? move_tile<float, true>
          : t == type::f32 ? move_tile<float, false>
                           : move_tile<std::uint16_t, false>;
  return true;
}

/// 1, 2 or 4 matrices of 8 x 8 numbers of 16 bits: lane 8 n + r has the address of row r of matrix n.
void load_matrices(warp& w, const instruction& i, mask) {
  const bool is_transposed = i.number == 1;
  for (int n = 0; n < i.to_count; ++n) {
    std::array<std::uint64_t, lanes> addresses{};
    std::array<std::array<std::uint16_t, 8>, 8> matrix;
    for (int r = 0; r < 8; ++r) {
      const int lane = 8 * n + r;
      const auto base =
          i.from[0].bytes == 4 ? w.in<std::uint32_t>(i.from[0])[lane] : w.in<std::uint64_t>(i.from[0])[lane];
      addresses[static_cast<std::size_t>(r)] = base + static_cast<std::uint64_t>(i.offset);
      std::memcpy(matrix[static_cast<std::size_t>(r)].data(),
                  memory_at(w, space::shared, lane, addresses[static_cast<std::size_t>(r)], 16), 16);
    }
    count_access(w, space::shared, addresses, 255, 16, false);
    auto* const to = w.out<std::uint32_t>(i.to[static_cast<std::size_t>(n)]);
    for (int lane = 0; lane < lanes; ++lane) {
      const auto outer = static_cast<std::size_t>(group_of(lane)), inner = static_cast<std::size_t>(2 * in_group(lane));
      const std::uint32_t low = is_transposed ? matrix[inner][outer] : matrix[outer][inner];
      const std::uint32_t high = is_transposed ? matrix[inner + 1][outer] : matrix[outer][inner + 1];
      to[lane] = high << 16 | low;
    }
  }
}

bool decode_load_matrices(const statement& s, operand_rows& rows, instruction& i) {
  if (!s.has("m8n8") || !s.has("b16")) return false;
  i.counted = kind::load_shared;
  i.number = s.has("trans") ? 1 : 0;
  for (const operand& x : s.operands[0].parts) operand_rows::add_target(i, rows.write(x, type::b32));
  operand_rows::add_source(i, rows.address(s.operands[1], i));
  i.run = load_matrices;
  return true;
}

}  // namespace

bool decode_matrix(const statement& s, operand_rows& rows, instruction& i) {
  i.flow = control::together;
  if (s.op[0] == "ldmatrix") return decode_load_matrices(s, rows, i);
  if (s.op[0] == "mma" || (s.op[0] == "wmma" && s.has("mma"))) return decode_multiply(s, rows, i);
  if (s.op[0] == "wmma") return decode_tile_move(s, rows, i);
  i.flow = control::none;
  return false;
}

}  // namespace nullscope::ptx
