/// Shifts, and bits that are counted, extracted and inserted.
#include <algorithm>
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

template <class T>
using unsigned_of = std::make_unsigned_t<T>;

template <class T>
constexpr int bits_of = static_cast<int>(8 * sizeof(T));

struct count_bits {
  template <class T>
  std::uint32_t operator()(T a) const {
    return static_cast<std::uint32_t>(std::popcount(static_cast<unsigned_of<T>>(a)));
  }
};
struct leading_zeros {
  template <class T>
  std::uint32_t operator()(T a) const {
    return static_cast<std::uint32_t>(std::countl_zero(static_cast<unsigned_of<T>>(a)));
  }
};
struct reverse_bits {
  template <class T>
  T operator()(T a) const {
    unsigned_of<T> from = static_cast<unsigned_of<T>>(a), to = 0;
    for (int i = 0; i < bits_of<T>; ++i, from = static_cast<unsigned_of<T>>(from >> 1)) {
      to = static_cast<unsigned_of<T>>(to << 1 | (from & 1));
    }
    return static_cast<T>(to);
  }
};
/// The place of the highest bit that differs from the sign; all ones if there is none.
struct find_bit {
  template <class T>
  std::uint32_t operator()(T a) const {
    const auto bits = static_cast<unsigned_of<T>>(a < 0 ? ~a : a);
    return bits == 0 ? ~0u : static_cast<std::uint32_t>(bits_of<T> - 1 - std::countl_zero(bits));
  }
};

/// Shifts by the width or more give zeros, or the sign.
template <class T>
void shift_left(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto* const by = w.in<std::uint32_t>(i.from[1]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    to[l] = by[l] >= static_cast<std::uint32_t>(bits_of<T>) ? T{0}
                                                            : static_cast<T>(static_cast<std::uint64_t>(a[l]) << by[l]);
  });
}
template <class T>
void shift_right(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto* const by = w.in<std::uint32_t>(i.from[1]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const bool is_out = by[l] >= static_cast<std::uint32_t>(bits_of<T>);
    to[l] = is_out ? static_cast<T>(std::is_signed_v<T> && a[l] < 0 ? ~T{0} : T{0}) : static_cast<T>(a[l] >> by[l]);
  });
}

/// Two words, shifted as one; `number` 1: shifts beyond 32 count as 32, otherwise modulo 32.
template <bool Left>
void shift_funnel(warp& w, const instruction& i, mask active) {
  const auto *low = w.in<std::uint32_t>(i.from[0]), *high = w.in<std::uint32_t>(i.from[1]),
             *by = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    const std::uint64_t both = std::uint64_t{high[l]} << 32 | low[l];
    const std::uint32_t n = i.number == 1 ? std::min(by[l], 32u) : by[l] & 31;
    to[l] = static_cast<std::uint32_t>(Left ? both << n >> 32 : both >> n);
  });
}

template <class T>
void extract_bits(warp& w, const instruction& i, mask active) {
  const T* const a = w.in<T>(i.from[0]);
  const auto *begin = w.in<std::uint32_t>(i.from[1]), *count = w.in<std::uint32_t>(i.from[2]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const int first = static_cast<int>(begin[l] & 255), length = static_cast<int>(count[l] & 255);
    const auto bits = static_cast<std::uint64_t>(static_cast<unsigned_of<T>>(a[l]));
    const int sign_at = std::min(first + length - 1, bits_of<T> - 1);
    const bool sign = std::is_signed_v<T> && length > 0 && (bits >> sign_at & 1) != 0;
    std::uint64_t result = sign ? ~std::uint64_t{0} : 0;
    for (int b = 0; b < length && first + b < bits_of<T> && b < bits_of<T>; ++b) {
      result = (result & ~(std::uint64_t{1} << b)) | (bits >> (first + b) & 1) << b;
    }
    to[l] = static_cast<T>(result);
  });
}
template <class T>
void insert_bits(warp& w, const instruction& i, mask active) {
  const T *const a = w.in<T>(i.from[0]), *const b = w.in<T>(i.from[1]);
  const auto *begin = w.in<std::uint32_t>(i.from[2]), *count = w.in<std::uint32_t>(i.from[3]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) {
    const int first = static_cast<int>(begin[l] & 255), length = static_cast<int>(count[l] & 255);
    auto result = static_cast<std::uint64_t>(b[l]);
    for (int k = 0; k < length && first + k < bits_of<T>; ++k) {
      const std::uint64_t at = std::uint64_t{1} << (first + k);
      result = (static_cast<std::uint64_t>(a[l]) >> k & 1) != 0 ? result | at : result & ~at;
    }
    to[l] = static_cast<T>(result);
  });
}

/// Any four of eight bytes; a selector's bit 3 repeats the byte's sign instead.
void permute_bytes(warp& w, const instruction& i, mask active) {
  const auto *a = w.in<std::uint32_t>(i.from[0]), *b = w.in<std::uint32_t>(i.from[1]),
             *how = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    const std::uint64_t both = std::uint64_t{b[l]} << 32 | a[l];
    std::uint32_t result = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint32_t select = how[l] >> (4 * k) & 15;
      std::uint32_t byte = static_cast<std::uint32_t>(both >> (8 * (select & 7)) & 255);
      if ((select & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
      result |= byte << (8 * k);
    }
    to[l] = result;
  });
}

/// `number` is the table of the function of three bits.
void any_logic(warp& w, const instruction& i, mask active) {
  const auto *a = w.in<std::uint32_t>(i.from[0]), *b = w.in<std::uint32_t>(i.from[1]),
             *c = w.in<std::uint32_t>(i.from[2]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    std::uint32_t result = 0;
    for (int k = 0; k < 8; ++k) {
      if ((i.number >> k & 1) == 0) continue;
      result |= ((k & 4) != 0 ? a[l] : ~a[l]) & ((k & 2) != 0 ? b[l] : ~b[l]) & ((k & 1) != 0 ? c[l] : ~c[l]);
    }
    to[l] = result;
  });
}
template <class T>
handler shift_of(std::string_view op) {
  return op == "shl" ? shift_left<T> : shift_right<T>;
}

template <class T>
handler to_word(std::string_view op) {
  return op == "popc" ? unary<T, count_bits> : op == "clz" ? unary<T, leading_zeros> : unary<T, find_bit>;
}

}  // namespace

bool decode_bits(const statement& s, operand_rows& rows, instruction& i) {
  static constexpr std::string_view names[] = {"shl",  "shr",  "shf", "bfe",  "bfi",  "prmt",
                                               "lop3", "popc", "clz", "brev", "bfind"};
  const std::string_view op = s.op[0];
  if (std::find(std::begin(names), std::end(names), op) == std::end(names)) return false;
  const type t = type_of(s);
  const bool counts_bits = op == "popc" || op == "clz" || op == "bfind";
  operand_rows::add_target(i, rows.write(s.operands[0], counts_bits ? type::b32 : t));
  const std::size_t values = op == "bfi" ? 2 : op == "shf" || op == "prmt" || op == "lop3" ? 3 : 1;
  for (std::size_t n = 1; n < s.operands.size(); ++n) {
    operand_rows::add_source(i, rows.read(s.operands[n], n <= values ? t : type::b32));
  }
  if (op == "prmt") return i.run = permute_bytes, s.op.size() == 2;
  if (op == "lop3") return i.number = static_cast<std::int64_t>(s.operands[4].bits), i.run = any_logic, true;
  if (op == "shf") {
    i.number = s.has("clamp") ? 1 : 0;
    return i.run = s.has("l") ? shift_funnel<true> : shift_funnel<false>, true;
  }
  return with_integer(t, [&]<class T>(T) {
    i.run = op == "bfe"    ? extract_bits<T>
            : op == "bfi"  ? insert_bits<T>
            : op == "brev" ? unary<T, reverse_bits>
            : counts_bits  ? to_word<T>(op)
                           : shift_of<T>(op);
  });
}

}  // namespace nullscope::ptx
