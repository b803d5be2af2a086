/// Loads, stores, asynchronous copies, and what they cost.
#include <algorithm>
#include <string>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {
namespace {

constexpr std::uint64_t sector = 32, bank_bytes = 4;
constexpr int banks = 32;

/// How often shared memory works for these lanes: a bank gives one of its words at a time, to all who want that one.
std::uint64_t wavefronts(const std::array<std::uint64_t, lanes>& addresses, mask active, int bytes) {
  std::array<std::array<std::uint64_t, lanes>, banks> wanted;
  std::array<std::size_t, banks> count{};
  std::size_t most = 0;
  for (; active != 0; active &= active - 1) {
    const std::uint64_t first = addresses[static_cast<std::size_t>(std::countr_zero(active))] / bank_bytes;
    for (std::uint64_t word = first; word < first + static_cast<std::uint64_t>((bytes + 3) / 4); ++word) {
      auto& of_bank = wanted[word % banks];
      std::size_t& n = count[word % banks];
      if (std::find(of_bank.begin(), of_bank.begin() + static_cast<std::ptrdiff_t>(n), word) !=
          of_bank.begin() + static_cast<std::ptrdiff_t>(n))
        continue;
      of_bank[n++] = word;
      most = std::max(most, n);
    }
  }
  return most;
}

/// Accesses of 8 bytes are served for half of the lanes at a time, those of 16 for a quarter.
void count_shared(counts& counted, const std::array<std::uint64_t, lanes>& addresses, mask active, int bytes) {
  const int parts = bytes >= 16 ? 4 : bytes == 8 ? 2 : 1;
  for (int p = 0; p < parts; ++p) {
    const mask part = parts == 1 ? all_lanes : ((mask{1} << (lanes / parts)) - 1) << (p * lanes / parts);
    if ((active & part) == 0) continue;
    const std::uint64_t found = wavefronts(addresses, active & part, bytes);
    counted.shared_wavefronts += found;
    counted.shared_conflicts += found - 1;
  }
}

/// Lanes that ask for the same 32 bytes get them together.
std::uint64_t sectors(const std::array<std::uint64_t, lanes>& addresses, mask active, int bytes) {
  std::array<std::uint64_t, lanes * 4> found;
  std::size_t count = 0;
  for (; active != 0; active &= active - 1) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(std::countr_zero(active))];
    for (std::uint64_t s = address / sector; s <= (address + static_cast<std::uint64_t>(bytes) - 1) / sector; ++s) {
      if (count == 0 || found[count - 1] != s) found[count++] = s;
    }
  }
  std::sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<std::uint64_t>(std::unique(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)) -
                                    found.begin());
}

std::byte* inside(std::byte* begin, std::size_t size, std::uint64_t at, std::size_t bytes, const char* what) {
  if (at > size || bytes > size - at) {
    throw failure("byte " + std::to_string(at) + " of " + what + " memory, which has " + std::to_string(size));
  }
  return begin + at;
}

/// The address of each active lane; a narrow register is one of shared memory.
std::array<std::uint64_t, lanes> addresses_of(const warp& w, const instruction& i, mask active) {
  std::array<std::uint64_t, lanes> result{};
  const auto offset = static_cast<std::uint64_t>(i.offset);
  if (i.from[0].bytes == 4) {
    const auto* const base = w.in<std::uint32_t>(i.from[0]);
    for_lanes(active,
              [&](int l) { result[static_cast<std::size_t>(l)] = static_cast<std::uint32_t>(base[l] + offset); });
  } else {
    const auto* const base = w.in<std::uint64_t>(i.from[0]);
    for_lanes(active, [&](int l) { result[static_cast<std::size_t>(l)] = base[l] + offset; });
  }
  return result;
}

void check_alignment(std::uint64_t address, std::size_t bytes) {
  if (address % bytes != 0)
    throw failure("address " + std::to_string(address) + " is no multiple of " + std::to_string(bytes));
}

template <class T, class Register>
void load(warp& w, const instruction& i, mask active) {
  const auto addresses = addresses_of(w, i, active);
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(i.to_count);
  count_access(w, i.where, addresses, active, static_cast<int>(bytes), false);
  for_lanes(active, [&](int l) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(l)];
    check_alignment(address, bytes);
    const std::byte* const from = memory_at(w, i.where, l, address, bytes);
    for (std::size_t n = 0; n < static_cast<std::size_t>(i.to_count); ++n) {
      T value;
      std::memcpy(&value, from + n * sizeof(T), sizeof(T));
      if (i.to[n]) w.out<Register>(i.to[n])[l] = static_cast<Register>(value);
    }
  });
}

template <class T, class Register>
void store(warp& w, const instruction& i, mask active) {
  const auto addresses = addresses_of(w, i, active);
  const std::size_t count = static_cast<std::size_t>(i.from_count) - 1, bytes = sizeof(T) * count;
  count_access(w, i.where, addresses, active, static_cast<int>(bytes), true);
  for_lanes(active, [&](int l) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(l)];
    check_alignment(address, bytes);
    std::byte* const to = memory_at(w, i.where, l, address, bytes);
    for (std::size_t n = 0; n < count; ++n) {
      const T value = static_cast<T>(w.in<Register>(i.from[n + 1])[l]);
      std::memcpy(to + n * sizeof(T), &value, sizeof(T));
    }
  });
}

/// Copies of 4, 8 or 16 bytes that a later wait completes: until then shared memory keeps what it had.
void copy_async(warp& w, const instruction& i, mask active) {
  const auto to = addresses_of(w, i, active);
  std::array<std::uint64_t, lanes> from{};
  const auto* const base = w.in<std::uint64_t>(i.from[1]);
  const auto* const copied = i.from[2] ? w.in<std::uint32_t>(i.from[2]) : nullptr;
  const auto bytes = static_cast<std::size_t>(i.number);
  for_lanes(active, [&](int l) { from[static_cast<std::size_t>(l)] = base[l]; });
  count_access(w, space::global, from, active, static_cast<int>(bytes), false);
  count_access(w, space::shared, to, active, static_cast<int>(bytes), true);
  for_lanes(active, [&](int l) {
    const auto lane = static_cast<std::size_t>(l);
    check_alignment(to[lane], bytes);
    check_alignment(from[lane], bytes);
    const std::size_t taken = copied == nullptr ? bytes : std::min<std::size_t>(copied[l], bytes);
    w.begin_copy(l, {memory_at(w, space::shared, l, to[lane], bytes), memory_at(w, space::global, l, from[lane], taken),
                     taken, bytes});
  });
}
void close_copy_group(warp& w, const instruction&, mask active) { w.close_copies(active); }
void wait_for_copies(warp& w, const instruction& i, mask active) {
  if (i.number < 0) w.close_copies(active);
  w.finish_copies(active, static_cast<std::size_t>(std::max<std::int64_t>(i.number, 0)));
}

space space_of(const statement& s) {
  if (s.has("global")) return space::global;
  if (s.has("shared") || s.has("shared::cta")) return space::shared;
  if (s.has("local")) return space::local;
  if (s.has("const")) return space::constant;
  if (s.has("param") || s.has("param::entry")) return space::parameter;
  return space::generic;
}

kind kind_of(space where, bool is_store) {
  switch (where) {
    case space::shared: return is_store ? kind::store_shared : kind::load_shared;
    case space::local: return is_store ? kind::store_local : kind::load_local;
    case space::constant:
    case space::parameter: return kind::load_constant;
    default: return is_store ? kind::store_global : kind::load_global;
  }
}

/// f(T{}, Register{}): integers as wide as the type or narrower than the register, with its sign.
template <class F>
bool with_memory_type(type t, int register_bytes, F f) {
  const auto in = [&](auto number) {
    using T = decltype(number);
    constexpr bool is_signed_number = std::is_signed_v<T>;
    if (register_bytes == 2)
      return f(number, std::conditional_t<is_signed_number, std::int16_t, std::uint16_t>{}), true;
    if (register_bytes == 4)
      return f(number, std::conditional_t<is_signed_number, std::int32_t, std::uint32_t>{}), true;
    return f(number, std::conditional_t<is_signed_number, std::int64_t, std::uint64_t>{}), true;
  };
  const int bytes = bytes_of(t);
  if (bytes > register_bytes) return false;
  if (bytes == 1) return t == type::s8 ? in(std::int8_t{}) : in(std::uint8_t{});
  if (bytes == 2) return t == type::s16 ? in(std::int16_t{}) : in(std::uint16_t{});
  if (bytes == 4) return t == type::s32 ? in(std::int32_t{}) : in(std::uint32_t{});
  return in(std::uint64_t{});
}

bool decode_access(const statement& s, operand_rows& rows, instruction& i, bool is_store) {
  const type t = type_of(s);
  const operand& values = s.operands[is_store ? 1 : 0];
  const std::vector<operand> one{values};
  i.where = space_of(s);
  i.counted = kind_of(i.where, is_store);
  operand_rows::add_source(i, rows.address(s.operands[is_store ? 0 : 1], i));
  int bytes = 0;
  for (const operand& x : values.is == operand::form::list ? values.parts : one) {
    const row r = is_store ? rows.read_any(x, t) : rows.write_any(x);
    if (r) bytes = r.bytes;
    if (is_store) {
      operand_rows::add_source(i, r);
    } else {
      operand_rows::add_target(i, r);
    }
  }
  return with_memory_type(t, bytes, [&]<class T, class Register>(T, Register) {
    i.run = is_store ? store<T, Register> : load<T, Register>;
  });
}

bool decode_copy(const statement& s, operand_rows& rows, instruction& i) {
  i.counted = kind::copy_async;
  if (s.has("commit_group")) return i.run = close_copy_group, true;
  if (s.has("wait_group") || s.has("wait_all")) {
    i.number = s.has("wait_all") ? -1 : static_cast<std::int64_t>(s.operands[0].bits);
    return i.run = wait_for_copies, true;
  }
  if (s.operands.size() < 3) return false;
  operand_rows::add_source(i, rows.address(s.operands[0], i));
  instruction source;  // whose offset stands for itself
  const row from = rows.address(s.operands[1], source);
  if (source.offset != 0) return false;
  operand_rows::add_source(i, from);
  if (s.operands.size() > 3) operand_rows::add_source(i, rows.read(s.operands[3], type::b32));
  i.number = static_cast<std::int64_t>(s.operands[2].bits);
  i.run = copy_async;
  return true;
}

}  // namespace

std::byte* memory_at(warp& w, space where, int lane, std::uint64_t address, std::size_t bytes) {
  if (where == space::generic) {
    where = address / window == 1 ? space::shared : address / window == 2 ? space::local : space::global;
    address %= window;
  }
  work_group& group = w.group();
  switch (where) {
    case space::shared: return inside(group.shared.data(), group.shared.size(), address, bytes, "shared");
    case space::local: return inside(w.local(lane), group.code.local_bytes, address, bytes, "local");
    case space::parameter: {
      auto* const begin = const_cast<std::byte*>(group.parameters.data());
      return inside(begin, group.parameters.size(), address, bytes, "parameter");
    }
    default:
      if (address < 4096) throw failure("global memory at address " + std::to_string(address));
      return reinterpret_cast<std::byte*>(address);
  }
}

void count_access(warp& w, space where, const std::array<std::uint64_t, lanes>& addresses, mask active, int bytes,
                  bool is_store) {
  counts& counted = w.group().counted;
  if (where == space::generic) {  // all lanes point to one space, in programs that are any good
    const std::uint64_t in = addresses[static_cast<std::size_t>(std::countr_zero(active))] / window;
    where = in == 1 ? space::shared : in == 2 ? space::local : space::global;
    const kind as_global = is_store ? kind::store_global : kind::load_global;
    --counted.executed[static_cast<std::size_t>(as_global)];
    ++counted.executed[static_cast<std::size_t>(kind_of(where, is_store))];
  }
  if (where == space::shared) count_shared(counted, addresses, active, bytes);
  if (where != space::global) return;
  (is_store ? counted.sectors_written : counted.sectors_read) += sectors(addresses, active, bytes);
  (is_store ? counted.bytes_written : counted.bytes_read) += static_cast<std::uint64_t>(std::popcount(active) * bytes);
}

bool decode_memory(const statement& s, operand_rows& rows, instruction& i) {
  const std::string_view op = s.op[0];
  if (op == "ld" || op == "ldu") return decode_access(s, rows, i, false);
  if (op == "st") return decode_access(s, rows, i, true);
  if (op == "cp" && s.has("async")) return decode_copy(s, rows, i);
  if (op == "fence" || op == "membar" || op == "prefetch") {  // memory is always in order here
    i.counted = op == "prefetch" ? kind::load_global : kind::barrier;
    i.run = [](warp&, const instruction&, mask) {};
    return true;
  }
  return false;
}

}  // namespace nullscope::ptx
