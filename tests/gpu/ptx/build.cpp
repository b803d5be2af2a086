#include "tests/gpu/ptx/build.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "tests/gpu/ptx/handlers.hpp"

namespace nullscope::ptx {

type type_of(const statement& s) {
  type result{};
  for (std::size_t n = s.op.size(); n-- > 1;) {
    if (parse_type(s.op[n], result)) return result;
  }
  return type::b64;
}

namespace {

std::size_t aligned(std::size_t at, std::size_t alignment) { return (at + alignment - 1) / alignment * alignment; }

constexpr std::size_t row_alignment = 64;
std::size_t row_bytes(type t) {
  return t == type::pred ? row_alignment : aligned(static_cast<std::size_t>(bytes_of(t)) * lanes, row_alignment);
}
constexpr std::uint8_t predicate_bytes = 1;  // marks a row of predicates; nothing else has one byte per lane
std::uint8_t lane_bytes(type t) {
  return t == type::pred ? predicate_bytes : static_cast<std::uint8_t>(std::max(bytes_of(t), 2));
}

/// What a parameter of a call is: a scalar in a row, or bytes in local memory.
struct passed {
  row scalar;
  std::size_t local = 0;
};

/// The names of one call of a function.
struct frame {
  struct numbered {
    std::size_t offset, bytes;
    std::uint8_t lane_bytes;
    std::int64_t count;
  };
  const function* of;
  std::size_t register_top, local_top;  // what follows is free for calls
  std::vector<std::size_t> places;      // of its declarations, in their order
  std::map<std::string_view, numbered> registers;
  std::map<std::string_view, passed> parameters;
  std::map<std::string_view, std::size_t> locals;
  std::map<std::string_view, std::uint32_t> labels;
  std::map<std::string_view, std::vector<std::string_view>> label_lists;
  std::vector<std::pair<std::uint32_t, std::string_view>> jumps;  // to be resolved at the end
  std::vector<std::uint32_t> returns;                             // jumps to the end
};

class builder : public operand_rows {
 public:
  builder(const module& from, std::string_view kernel) : from_(from) {
    const auto found = from.functions.find(kernel);
    if (found == from.functions.end() || !found->second.has_body)
      throw failure("there is no kernel " + std::string(kernel));
    code_.name = kernel;
    code_.register_bytes = special_bytes;
    place_variables();
    frame outermost = open_frame(found->second, special_bytes, 0);
    place_parameters(found->second);
    add_body(outermost);
  }
  kernel_code take() { return std::move(code_); }

  row read(const operand& x, type t) override {
    const row found = read_any(x, t);
    check_size(found, x, t);
    return found;
  }
  row write(const operand& x, type t) override {
    const row found = write_any(x);
    if (found) check_size(found, x, t);
    return found;
  }
  row read_any(const operand& x, type t) override {
    if (x.is == operand::form::number) return constant(x, t);
    if (x.is != operand::form::name) throw failure("an operand is not understood");
    if (const auto found = find_register(x.name)) return *found;
    if (const auto found = address_of(x.name)) return constant_bits(*found, 8);
    throw failure("nothing is called " + std::string(x.name));
  }
  row write_any(const operand& x) override {
    if (x.is == operand::form::name && x.name == "_") return {};
    const auto found = x.is == operand::form::name ? find_register(x.name) : std::nullopt;
    if (!found) throw failure("a result needs a register");
    return *found;
  }
  row address(const operand& x, instruction& i) override {
    if (x.is != operand::form::memory) throw failure("an operand is no address");
    i.offset = x.offset;
    if (x.name.empty()) return constant_bits(0, 8);
    operand base;
    base.name = x.name;
    return read_any(base, type::b64);
  }

 private:
  static void check_size(const row& found, const operand& x, type t) {
    if (found.bytes == lane_bytes(t)) return;
    throw failure("register " + std::string(x.name) + " has another size than the instruction");
  }

  row constant_bits(std::uint64_t bits, std::uint8_t bytes) {
    const auto [place, is_new] =
        constants_.try_emplace({bits, bytes}, static_cast<std::uint32_t>(code_.constants.size()));
    if (is_new) {
      const std::size_t size =
          bytes == predicate_bytes ? row_alignment : aligned(std::size_t{bytes} * lanes, row_alignment);
      code_.constants.resize(code_.constants.size() + size);
      std::byte* const to = code_.constants.data() + place->second;
      for (std::size_t l = 0; l < lanes && bytes != predicate_bytes; ++l) std::memcpy(to + l * bytes, &bits, bytes);
      if (bytes == predicate_bytes) std::memset(to, bits != 0 ? 255 : 0, sizeof(mask));
    }
    return {place->second, bytes, true};
  }
  row constant(const operand& x, type t) {
    if (x.float_bits == 32 && bytes_of(t) == 8) {
      return constant_bits(
          std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(x.bits)))),
          8);
    }
    if (x.float_bits == 64 && bytes_of(t) == 4) {
      return constant_bits(std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(x.bits))), 4);
    }
    return constant_bits(x.bits, lane_bytes(t));
  }

  std::optional<row> find_register(std::string_view name) const {
    for (std::size_t n = 0; n < special_names.size(); ++n) {
      if (special_names[n] == name) return row{static_cast<std::uint32_t>(n * lanes * 4), 4, false};
    }
    const auto exact = frame_->registers.find(name);
    if (exact != frame_->registers.end() && exact->second.count < 0) return row_of(exact->second, 0);
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const auto found = frame_->registers.find(name.substr(0, digits));
    std::int64_t number = -1;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    if (found == frame_->registers.end() || number < 0 || number >= found->second.count) return std::nullopt;
    return row_of(found->second, number);
  }
  static row row_of(const frame::numbered& r, std::int64_t number) {
    return {static_cast<std::uint32_t>(r.offset + r.bytes * static_cast<std::size_t>(number)), r.lane_bytes, false};
  }

  /// Of a variable, in its own space.
  std::optional<std::uint64_t> address_of(std::string_view name) const {
    if (const auto local = frame_->locals.find(name); local != frame_->locals.end()) return local->second;
    if (const auto given = frame_->parameters.find(name); given != frame_->parameters.end() && !given->second.scalar) {
      return given->second.local;
    }
    if (const auto found = addresses_.find(name); found != addresses_.end()) return found->second;
    return std::nullopt;
  }

  /// Variables of the module: shared memory from 0 on, then what the launch adds; the others where their content
  /// stands.
  void place_variables() {
    for (const declaration& one : from_.variables) {
      if (one.space == ".shared" && one.has_size) {
        const std::size_t at = aligned(code_.shared_bytes, one.alignment);
        addresses_[one.name] = at;
        code_.shared_bytes = at + one.bytes();
      } else if (one.space != ".shared") {
        std::vector<std::byte> content(one.bytes() + one.alignment);
        const std::size_t element = static_cast<std::size_t>(bytes_of(one.element));
        for (std::size_t n = 0; n < one.values.size(); ++n)
          std::memcpy(content.data() + n * element, &one.values[n], element);
        addresses_[one.name] = reinterpret_cast<std::uint64_t>(content.data());
        code_.memory.push_back(std::move(content));
      }
    }
    code_.shared_bytes = aligned(code_.shared_bytes, row_alignment);
    for (const declaration& one : from_.variables) {
      if (one.space == ".shared" && !one.has_size) addresses_[one.name] = code_.shared_bytes;
    }
  }

  void place_parameters(const function& kernel) {
    std::size_t at = 0;
    for (const declaration& one : kernel.parameters) {
      at = aligned(at, one.alignment);
      addresses_[one.name] = at;
      code_.parameters.push_back({at, one.bytes()});
      at += one.bytes();
    }
  }

  static bool is_in_registers(const declaration& d) {
    return d.space == ".reg" || (d.space == ".param" && !d.is_array);
  }

  /// Registers and local variables of a function begin where its caller's end.
  frame open_frame(const function& f, std::size_t registers, std::size_t local) {
    frame result{};
    result.of = &f;
    for (const statement& s : f.body) {
      if (s.is != statement::form::declaration) continue;
      const declaration& d = s.declared;
      if (is_in_registers(d)) {
        result.places.push_back(registers);
        registers += row_bytes(d.element) * static_cast<std::size_t>(d.is_numbered ? d.count : 1);
      } else if (d.space == ".local" || d.space == ".param") {
        local = aligned(local, d.alignment);
        result.places.push_back(local);
        local += d.bytes();
      } else {
        throw failure("a variable inside a function: " + std::string(d.name));
      }
    }
    result.register_top = registers;
    result.local_top = aligned(local, 16);
    code_.register_bytes = std::max(code_.register_bytes, result.register_top);
    code_.local_bytes = std::max(code_.local_bytes, result.local_top);
    return result;
  }

  /// A name means what its last declaration says: scopes use the same names again.
  static void declare(frame& f, const declaration& d, std::size_t place) {
    if (d.space == ".reg") {
      f.registers[d.name] = {place, row_bytes(d.element), lane_bytes(d.element), d.is_numbered ? d.count : -1};
    } else if (d.space == ".local") {
      f.locals[d.name] = place;
    } else if (d.is_array) {
      f.parameters[d.name] = {{}, place};
    } else {
      f.parameters[d.name] = {{static_cast<std::uint32_t>(place), lane_bytes(d.element), false}, 0};
    }
  }

  void add_body(frame& f) {
    frame* const caller = std::exchange(frame_, &f);
    std::size_t declared = 0;
    for (const statement& s : f.of->body) {
      if (s.is == statement::form::declaration) declare(f, s.declared, f.places[declared++]);
      if (s.is == statement::form::label) f.labels[s.name] = next();
      if (s.is == statement::form::targets) {
        for (const operand& one : s.operands) f.label_lists[s.name].push_back(one.name);
      }
      if (s.is != statement::form::instruction) continue;
      try {
        add(s);
      } catch (const failure& why) {
        throw failure(std::string(s.text) + ": " + why.what());
      }
    }
    for (const auto& [at, label] : f.jumps) code_.instructions[at].targets.push_back(f.labels.at(label));
    for (const std::uint32_t at : f.returns) code_.instructions[at].targets = {next()};
    frame_ = caller;
  }

  std::uint32_t next() const { return static_cast<std::uint32_t>(code_.instructions.size()); }

  void add(const statement& s) {
    const std::string_view op = s.op[0];
    if (op == "call") return add_call(s);
    instruction i;
    i.text = s.text;
    if (!s.guard.empty()) {
      operand guard;
      guard.name = s.guard;
      i.predicate = read(guard, type::pred);
      i.is_negated = s.is_negated;
    }
    static constexpr decltype(&decode_move) decoders[] = {
        decode_move,    decode_integer, decode_bits,   decode_comparison, decode_float,
        decode_convert, decode_memory,  decode_atomic, decode_warp,       decode_matrix};
    const auto knows = [&](auto decode) { return decode(s, *this, i); };
    if (!add_flow(s, i) && !add_parameter_move(s, i) && std::none_of(std::begin(decoders), std::end(decoders), knows)) {
      throw failure("this instruction is not known");
    }
    code_.instructions.push_back(std::move(i));
  }

  bool add_flow(const statement& s, instruction& i) {
    const std::string_view op = s.op[0];
    i.counted = kind::branch;
    if (op == "bra") {
      i.flow = control::branch;
      frame_->jumps.emplace_back(next(), s.operands[0].name);
    } else if (op == "brx") {
      i.flow = control::branch_indexed;
      add_source(i, read(s.operands[0], type::b32));
      for (const std::string_view label : frame_->label_lists.at(s.operands[1].name))
        frame_->jumps.emplace_back(next(), label);
    } else if (op == "ret" && depth_ > 0) {
      i.flow = control::branch;
      frame_->returns.push_back(next());
    } else if (op == "ret" || op == "exit") {
      i.flow = control::leave;
    } else if ((op == "bar" || op == "barrier") && s.has("sync") && !s.has("warp") && s.operands.size() == 1) {
      i.flow = control::barrier;
      i.counted = kind::barrier;
    } else if (op == "trap" || op == "brkpt") {
      i.run = [](warp&, const instruction&, mask) { throw failure("the kernel stops itself"); };
    } else {
      i.counted = kind::integer;
      return false;
    }
    return true;
  }

  /// Loads and stores of what a call passes. Scalars are registers.
  bool add_parameter_move(const statement& s, instruction& i) {
    const bool is_store = s.op[0] == "st";
    if ((!is_store && s.op[0] != "ld") || !s.has("param")) return false;
    const operand& memory = s.operands[is_store ? 0 : 1];
    const auto found = frame_->parameters.find(memory.name);
    if (found == frame_->parameters.end()) return false;  // of the kernel
    const operand& value = s.operands[is_store ? 1 : 0];
    i.counted = kind::move;
    if (!found->second.scalar) {
      statement local = s;
      std::replace(local.op.begin(), local.op.end(), std::string_view("param"), std::string_view("local"));
      decode_memory(local, *this, i);
      i.counted = kind::move;
      return true;
    }
    if (memory.offset != 0 || value.is == operand::form::list) throw failure("a part of a parameter");
    const row scalar = found->second.scalar;
    const type t = type_of(s);
    const row from = is_store ? read_any(value, t) : scalar, to = is_store ? scalar : write_any(value);
    add_source(i, from);
    add_target(i, to);
    i.run = conversion(from.bytes, to.bytes, is_signed(t));
    return true;
  }

  template <class From>
  static handler converted_to(int bytes) {
    struct to_16 {
      std::uint16_t operator()(From x) const { return static_cast<std::uint16_t>(x); }
    };
    struct to_32 {
      std::uint32_t operator()(From x) const { return static_cast<std::uint32_t>(x); }
    };
    struct to_64 {
      std::uint64_t operator()(From x) const { return static_cast<std::uint64_t>(x); }
    };
    return bytes == 2 ? unary<From, to_16> : bytes == 4 ? unary<From, to_32> : unary<From, to_64>;
  }
  static handler conversion(int from, int to, bool is_signed_type) {
    if (from == 8) return converted_to<std::uint64_t>(to);
    if (from == 4) return is_signed_type ? converted_to<std::int32_t>(to) : converted_to<std::uint32_t>(to);
    return is_signed_type ? converted_to<std::int16_t>(to) : converted_to<std::uint16_t>(to);
  }

  /// `call (results), function, (parameters)`, either list may be missing.
  void add_call(const statement& s) {
    const bool has_results = s.operands[0].is == operand::form::list;
    const std::string_view name = s.operands[has_results ? 1 : 0].name;
    const auto found = from_.functions.find(name);
    if (found == from_.functions.end() || !found->second.has_body)
      throw failure("a call of a function that is not there");
    if (!s.guard.empty()) throw failure("a call that some lanes skip");
    if (++depth_ > 50) throw failure("calls that never end");
    frame callee = open_frame(found->second, frame_->register_top, frame_->local_top);
    const auto pass = [&](const std::vector<declaration>& formal, const operand& actual) {
      if (actual.parts.size() != formal.size()) throw failure("a call with another number of parameters");
      for (std::size_t n = 0; n < formal.size(); ++n) {
        callee.parameters[formal[n].name] = frame_->parameters.at(actual.parts[n].name);
      }
    };
    if (has_results) pass(found->second.results, s.operands[0]);
    const std::size_t last = has_results ? 2 : 1;
    if (s.operands.size() > last) pass(found->second.parameters, s.operands[last]);
    add_body(callee);
    --depth_;
  }

  const module& from_;
  kernel_code code_;
  std::map<std::pair<std::uint64_t, std::uint8_t>, std::uint32_t> constants_;
  std::map<std::string_view, std::uint64_t> addresses_;
  frame* frame_ = nullptr;
  int depth_ = 0;
};

}  // namespace

kernel_code build_kernel(const module& from, std::string_view kernel) { return builder(from, kernel).take(); }

}  // namespace nullscope::ptx
