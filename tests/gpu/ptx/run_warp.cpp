/// What the lanes of a warp do together: shuffles, votes, reductions.
#include <algorithm>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

enum class shuffle { up, down, butterfly, index };

/// The lane that a lane reads from; `bounds` holds the last lane of a segment and, in bits 8 to 12, which bits of a
/// lane number choose its segment. Outside of the segment a lane reads itself, and is_inside is false.
template <shuffle How>
int source_lane(int lane, std::uint32_t by, std::uint32_t bounds, bool& is_inside) {
  const int segment = static_cast<int>(bounds >> 8 & 31), clamp = static_cast<int>(bounds & 31),
            b = static_cast<int>(by & 31);
  const int first = lane & segment, last = first | (clamp & ~segment & 31);
  const int from = How == shuffle::up          ? lane - b
                   : How == shuffle::down      ? lane + b
                   : How == shuffle::butterfly ? lane ^ b
                                               : first | (b & ~segment & 31);
  is_inside = How == shuffle::up ? from >= last : from <= last;
  return is_inside ? from : lane;
}

/// Lanes that take no part have no defined value: all ones, NaN as a float.
template <shuffle How>
void run_shuffle(warp& w, const instruction& i, mask active) {
  const auto *from = w.in<std::uint32_t>(i.from[0]), *by = w.in<std::uint32_t>(i.from[1]),
             *bounds = w.in<std::uint32_t>(i.from[2]);
  std::array<std::uint32_t, lanes> result{};
  mask inside = 0;
  for_lanes(active, [&](int l) {
    bool is_inside = false;
    const int source = source_lane<How>(l, by[l], bounds[l], is_inside);
    result[static_cast<std::size_t>(l)] = (active >> source & 1) != 0 ? from[source] : ~0u;
    inside |= static_cast<mask>(is_inside) << l;
  });
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = result[static_cast<std::size_t>(l)]; });
  if (i.to[1]) w.set_predicate(i.to[1], active, inside);
}

mask votes(warp& w, const instruction& i, mask active) { return w.predicate(i.from[0]) & active; }
void vote_all(warp& w, const instruction& i, mask active) {
  w.set_predicate(i.to[0], active, votes(w, i, active) == active ? all_lanes : 0);
}
void vote_any(warp& w, const instruction& i, mask active) {
  w.set_predicate(i.to[0], active, votes(w, i, active) != 0 ? all_lanes : 0);
}
void vote_same(warp& w, const instruction& i, mask active) {
  const mask found = votes(w, i, active);
  w.set_predicate(i.to[0], active, found == 0 || found == active ? all_lanes : 0);
}
void ballot(warp& w, const instruction& i, mask active) {
  const mask found = votes(w, i, active);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = found; });
}
void active_mask(warp& w, const instruction& i, mask active) {
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = active; });
}

template <class T>
void match_any(warp& w, const instruction& i, mask active) {
  const T* const from = w.in<T>(i.from[0]);
  auto* const to = w.out<std::uint32_t>(i.to[0]);
  for_lanes(active, [&](int l) {
    mask same = 0;
    for_lanes(active, [&](int other) { same |= static_cast<mask>(from[other] == from[l]) << other; });
    to[l] = same;
  });
}

template <class T, class F>
void reduce(warp& w, const instruction& i, mask active) {
  const T* const from = w.in<T>(i.from[0]);
  T result = from[std::countr_zero(active)];
  for (mask rest = active & (active - 1); rest != 0; rest &= rest - 1)
    result = F()(result, from[std::countr_zero(rest)]);
  T* const to = w.out<T>(i.to[0]);
  for_lanes(active, [&](int l) { to[l] = result; });
}
struct smaller {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct larger {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

bool decode_shuffle(const statement& s, operand_rows& rows, instruction& i) {
  const operand& to = s.operands[0];
  const bool has_predicate = to.is == operand::form::list;
  operand_rows::add_target(i, rows.write(has_predicate ? to.parts[0] : to, type::b32));
  if (has_predicate) operand_rows::add_target(i, rows.write(to.parts[1], type::pred));
  rows.read_all(s, i, type::b32);
  i.members = i.from[3];
  i.run = s.has("up")     ? run_shuffle<shuffle::up>
          : s.has("down") ? run_shuffle<shuffle::down>
          : s.has("bfly") ? run_shuffle<shuffle::butterfly>
                          : run_shuffle<shuffle::index>;
  return true;
}

bool decode_vote(const statement& s, operand_rows& rows, instruction& i) {
  const bool is_ballot = s.has("ballot");
  operand_rows::add_target(i, rows.write(s.operands[0], is_ballot ? type::b32 : type::pred));
  operand_rows::add_source(i, rows.read(s.operands[1], type::pred));
  i.members = rows.read(s.operands[2], type::b32);
  i.run = is_ballot ? ballot : s.has("all") ? vote_all : s.has("any") ? vote_any : vote_same;
  return true;
}

bool decode_reduction(const statement& s, operand_rows& rows, instruction& i) {
  operand_rows::add_target(i, rows.write(s.operands[0], type::b32));
  operand_rows::add_source(i, rows.read(s.operands[1], type::b32));
  i.members = rows.read(s.operands[2], type::b32);
  const bool is_signed_type = type_of(s) == type::s32;
  if (s.has("add")) i.run = reduce<std::uint32_t, std::plus<>>;
  if (s.has("and")) i.run = reduce<std::uint32_t, std::bit_and<>>;
  if (s.has("or")) i.run = reduce<std::uint32_t, std::bit_or<>>;
  if (s.has("xor")) i.run = reduce<std::uint32_t, std::bit_xor<>>;
  if (s.has("min")) i.run = is_signed_type ? reduce<std::int32_t, smaller> : reduce<std::uint32_t, smaller>;
  if (s.has("max")) i.run = is_signed_type ? reduce<std::int32_t, larger> : reduce<std::uint32_t, larger>;
  return i.run != nullptr;
}

}  // namespace

bool decode_warp(const statement& s, operand_rows& rows, instruction& i) {
  const std::string_view op = s.op[0];
  i.counted = kind::shuffle;
  i.flow = control::together;
  if (op == "shfl") return decode_shuffle(s, rows, i);
  if (op == "vote") return decode_vote(s, rows, i);
  if (op == "redux") return decode_reduction(s, rows, i);
  if (op == "match" && s.has("any")) {
    const type t = type_of(s);
    operand_rows::add_target(i, rows.write(s.operands[0], type::b32));
    operand_rows::add_source(i, rows.read(s.operands[1], t));
    i.members = rows.read(s.operands[2], type::b32);
    i.run = bytes_of(t) == 8 ? match_any<std::uint64_t> : match_any<std::uint32_t>;
    return true;
  }
  if (op == "bar" && s.has("warp")) {
    i.counted = kind::barrier;
    i.members = rows.read(s.operands[0], type::b32);
    i.run = [](warp&, const instruction&, mask) {};
    return true;
  }
  i.flow = control::none;
  if (op != "activemask") return false;
  operand_rows::add_target(i, rows.write(s.operands[0], type::b32));
  i.run = active_mask;
  return true;
}

}  // namespace nullscope::ptx
