#include "ramet/kernel/cpu/compiled_map.h"

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)

#include <xbyak/xbyak.h>

#include <bit>
#include <map>
#include <string_view>

#include "ramet/kernel/cpu/cpu_features.h"

namespace ramet::kernel::cpu {
namespace {

using Prepared = MapEvaluator::Prepared;
using Reduce = MapProgram::Reduce;
using Xbyak::Opmask;
using Xbyak::Zmm;

constexpr int64_t kLanes = 16;
static_assert(kMapPad % kLanes == 0);
constexpr int kValues = 28;  ///< vector registers for values; the others are for work within a step

/// Comparisons of VCMPPS: ordered, so that NaN is in no order, and unordered for "is NaN".
enum Comparison : uint8_t {
  kEqual = 0,
  kUnordered = 3,
  kNotEqual = 4,
  kLess = 17,
  kLessEqual = 18,
  kGreaterEqual = 29,
  kGreater = 30
};

}  // namespace

/// Writes the loop. Work within a step uses registers 28 to 31 and masks 1 and 2. rdi has the places, rax the element
/// of the block, r8 the column and rcx the row, if they count, and rsi where rax or rcx ends.
class CompiledMap::Writer : public Xbyak::CodeGenerator {
 public:
  explicit Writer(const Prepared& prepared, CompiledMap& into);
  using Loop = void (*)(const void* const* places, int64_t count);
  Loop loop = nullptr;

  struct Operands {
    Zmm result, a, b, c;
    float p, q;
  };
  using Emit = void (Writer::*)(const Operands&);

 private:
  struct Constant {
    uint32_t bits;
    Xbyak::Label label;
  };

  void find_uses();
  void write_flat();
  void write_rows();
  void write_sums();
  void write_body();
  void step(const Prepared::Step& step);
  void load(size_t input);
  void load_bf16(const Zmm& value, const Xbyak::Address& from);
  void store(size_t output, bool in_memory);
  bool is_sum(size_t output) const { return into_.by_rows_ && prepared_.outputs[output].reduce == Reduce::kSumRows; }
  void find_place(size_t place) { mov(rdx, ptr[rdi + static_cast<int>(place * sizeof(void*))]); }
  void find_output(size_t output) { find_place(prepared_.inputs.size() + output); }
  Zmm zmm_of(int value);
  Zmm take(int value);
  void release_after(int at);
  /// A number in all lanes, as an operand in memory.
  Xbyak::Address lanes(float number) { return lanes_of_bits(std::bit_cast<uint32_t>(number)); }
  Xbyak::Address lanes_of_bits(uint32_t bits);
  void round_to_bf16(const Zmm& value);
  void truth(const Zmm& result, const Opmask& mask);

  using Xbyak::CodeGenerator::add;
  void add(const Operands& o) { vaddps(o.result, o.a, o.b); }
  void subtract(const Operands& o) { vsubps(o.result, o.a, o.b); }
  void multiply(const Operands& o) { vmulps(o.result, o.a, o.b); }
  void divide(const Operands& o) { vdivps(o.result, o.a, o.b); }
  void square(const Operands& o) { vmulps(o.result, o.a, o.a); }
  void scale(const Operands& o) { vmulps(o.result, o.a, lanes(o.p)); }
  void add_scalar(const Operands& o) { vaddps(o.result, o.a, lanes(o.p)); }
  void copy(const Operands& o) { vmovaps(o.result, o.a); }
  void negate(const Operands& o) { vpxord(o.result, o.a, lanes_of_bits(0x80000000u)); }
  void abs(const Operands& o) { vpandd(o.result, o.a, lanes_of_bits(0x7fffffffu)); }
  void sqrt(const Operands& o) { vsqrtps(o.result, o.a); }
  void reciprocal(const Operands& o) {
    vbroadcastss(work_, number_of(1));
    vdivps(o.result, work_, o.a);
  }
  void rsqrt(const Operands& o) {
    vsqrtps(work2_, o.a);
    vbroadcastss(work_, number_of(1));
    vdivps(o.result, work_, work2_);
  }
  void greater_or_nan(const Operands& o, Comparison order) {
    vcmpps(k1, o.a, o.b, order);
    vcmpps(k2, o.a, o.a, kUnordered);
    korw(k1, k1, k2);
    vblendmps(o.result | k1, o.b, o.a);
  }
  void maximum(const Operands& o) { greater_or_nan(o, kGreater); }
  void minimum(const Operands& o) { greater_or_nan(o, kLess); }
  void relu(const Operands& o) {
    vcmpps(k1, o.a, zero_, kLess);
    vblendmps(o.result | k1, o.a, zero_);
  }
  /// The number, times p where operand a is below 0.
  void leak(const Operands& o, const Zmm& number) {
    vcmpps(k1, o.a, zero_, kLess);
    vbroadcastss(work_, number_of(o.p));
    vmulps(work_, work_, number);
    vblendmps(o.result | k1, number, work_);
  }
  void leaky_relu(const Operands& o) { leak(o, o.a); }
  void leaky_relu_grad(const Operands& o) { leak(o, o.b); }
  void relu_grad(const Operands& o) {
    vcmpps(k1, o.a, zero_, kGreater);
    vmovaps(o.result | k1 | T_z, o.b);
  }
  void clamp(const Operands& o) {
    vbroadcastss(work_, number_of(o.p));
    vbroadcastss(work2_, number_of(o.q));
    vcmpps(k1, o.a, work_, kLess);
    vcmpps(k2, o.a, work2_, kGreater);
    vblendmps(work2_ | k2, o.a, work2_);
    vblendmps(o.result | k1, work2_, work_);
  }
  void clamp_grad(const Operands& o) {
    vbroadcastss(work_, number_of(o.p));
    vbroadcastss(work2_, number_of(o.q));
    vcmpps(k1, o.a, work_, kGreaterEqual);
    vcmpps(k1 | k1, o.a, work2_, kLessEqual);
    vmovaps(o.result | k1 | T_z, o.b);
  }
  void round_bf16(const Operands& o) {
    vmovaps(o.result, o.a);
    round_to_bf16(o.result);
  }
  template <Comparison kOrder>
  void compare(const Operands& o) {
    vcmpps(k1, o.a, o.b, kOrder);
    truth(o.result, k1);
  }
  void select(const Operands& o) {
    vptestmd(k1, o.a, o.a);
    vpblendmd(o.result | k1, o.c, o.b);
  }
  static const std::map<std::string_view, Emit>& table();

  /// The number, once, as an operand in memory.
  Xbyak::Address number_of(float number) {
    Xbyak::Label& label = constant(std::bit_cast<uint32_t>(number));
    return dword[rip + label];
  }
  Xbyak::Label& constant(uint32_t bits);

  const Prepared& prepared_;
  CompiledMap& into_;
  std::vector<int> register_of_, last_use_, free_;
  std::map<size_t, Zmm> sums_;  ///< by outputs
  std::vector<std::unique_ptr<Constant>> constants_;
  const Zmm work_{28}, work2_{29}, work3_{30}, zero_{31};
};

namespace {
/// Thrown within `make` alone, for a program that is not compiled.
struct NotCompiled {};
}  // namespace

const std::map<std::string_view, CompiledMap::Writer::Emit>& CompiledMap::Writer::table() {
  static const std::map<std::string_view, Emit> table = {{"add", &Writer::add},
                                                         {"subtract", &Writer::subtract},
                                                         {"multiply", &Writer::multiply},
                                                         {"divide", &Writer::divide},
                                                         {"square", &Writer::square},
                                                         {"scale", &Writer::scale},
                                                         {"add_scalar", &Writer::add_scalar},
                                                         {"stop_gradient", &Writer::copy},
                                                         {"negate", &Writer::negate},
                                                         {"abs", &Writer::abs},
                                                         {"sqrt", &Writer::sqrt},
                                                         {"rsqrt", &Writer::rsqrt},
                                                         {"reciprocal", &Writer::reciprocal},
                                                         {"maximum", &Writer::maximum},
                                                         {"minimum", &Writer::minimum},
                                                         {"relu", &Writer::relu},
                                                         {"leaky_relu", &Writer::leaky_relu},
                                                         {"relu_grad", &Writer::relu_grad},
                                                         {"leaky_relu_grad", &Writer::leaky_relu_grad},
                                                         {"clamp", &Writer::clamp},
                                                         {"clamp_grad", &Writer::clamp_grad},
                                                         {"round_bf16", &Writer::round_bf16},
                                                         {"equal", &Writer::compare<kEqual>},
                                                         {"not_equal", &Writer::compare<kNotEqual>},
                                                         {"less", &Writer::compare<kLess>},
                                                         {"less_equal", &Writer::compare<kLessEqual>},
                                                         {"greater", &Writer::compare<kGreater>},
                                                         {"greater_equal", &Writer::compare<kGreaterEqual>},
                                                         {"select", &Writer::select}};
  return table;
}

Xbyak::Label& CompiledMap::Writer::constant(uint32_t bits) {
  for (const auto& known : constants_)
    if (known->bits == bits) return known->label;
  constants_.push_back(std::make_unique<Constant>());
  constants_.back()->bits = bits;
  return constants_.back()->label;
}

Xbyak::Address CompiledMap::Writer::lanes_of_bits(uint32_t bits) { return ptr_b[rip + constant(bits)]; }

/// As RoundToBf16 in convert-inl.h: to even, and NaN stays one.
void CompiledMap::Writer::round_to_bf16(const Zmm& value) {
  vpsrld(work3_, value, 16);
  vpandd(work3_, work3_, lanes_of_bits(1));
  vpaddd(work3_, work3_, lanes_of_bits(0x7fff));
  vpaddd(work3_, work3_, value);
  vcmpps(k1, value, value, kUnordered);
  vpord(work3_ | k1, value, lanes_of_bits(0x00400000));
  vpandd(value, work3_, lanes_of_bits(0xffff0000u));
}

void CompiledMap::Writer::truth(const Zmm& result, const Opmask& mask) {
  vpbroadcastd(result | mask | T_z, dword[rip + constant(1)]);
}

Zmm CompiledMap::Writer::take(int value) {
  if (free_.empty()) throw NotCompiled();
  register_of_[static_cast<size_t>(value)] = free_.back();
  free_.pop_back();
  return Zmm(register_of_[static_cast<size_t>(value)]);
}

Zmm CompiledMap::Writer::zmm_of(int value) {
  if (register_of_[static_cast<size_t>(value)] < 0) {
    take(value);
    load(static_cast<size_t>(value));
  }
  return Zmm(register_of_[static_cast<size_t>(value)]);
}

void CompiledMap::Writer::release_after(int at) {
  for (size_t v = 0; v < register_of_.size(); ++v)
    if (last_use_[v] == at && register_of_[v] >= 0) free_.push_back(register_of_[v]);
}

void CompiledMap::Writer::load_bf16(const Zmm& value, const Xbyak::Address& from) {
  vpmovzxwd(value, from);
  vpslld(value, value, 16);
}

void CompiledMap::Writer::load(size_t input) {
  const Zmm value(register_of_[input]);
  const bool narrow = prepared_.inputs[input].dtype == DType::kBF16;
  find_place(input);
  switch (into_.reads_[input]) {
    case Reads::kPlace: return vmovups(value, zword[rdx + rax * 4]);
    case Reads::kBf16: return load_bf16(value, yword[rdx + rax * 2]);
    case Reads::kColumn: return narrow ? load_bf16(value, yword[rdx + r8 * 2]) : vmovups(value, zword[rdx + r8 * 4]);
    case Reads::kRow:
      if (!narrow) return vbroadcastss(value, dword[rdx + rcx * 4]);
      movzx(edx, word[rdx + rcx * 2]);
      shl(edx, 16);
      return vpbroadcastd(value, edx);
    case Reads::kNumber: return vbroadcastss(value, dword[rdx]);
  }
}

void CompiledMap::Writer::store(size_t output, bool in_memory) {
  const Prepared::Output& made = prepared_.outputs[output];
  const Zmm value = zmm_of(made.value);
  find_output(output);
  if (in_memory && made.dtype == DType::kBF16) {
    const bool is_rounded = made.store == map_steps().store_rounded;
    if (!is_rounded) {
      vmovaps(work_, value);
      round_to_bf16(work_);
    }
    vpsrld(work_, is_rounded ? value : work_, 16);
    vpmovdw(yword[rdx + rax * 2], work_);
  } else {
    vmovups(zword[rdx + rax * 4], value);
  }
}

void CompiledMap::Writer::step(const Prepared::Step& step) {
  const auto found = table().find(step.info->name);
  if (found == table().end() || step.generic || step.wraps || step.dropout >= 0) throw NotCompiled();
  const auto type_of = [&](int value) { return prepared_.values[static_cast<size_t>(value)].type; };
  // What is selected may be of any type in lanes of 32 bits; all other operands are floats.
  const bool selects = step.info->types == MapOpTypes::kSelect;
  for (const int operand : step.operands)
    if (operand >= 0 && (selects ? size_of(type_of(operand)) == 8 : type_of(operand) != DType::kF32))
      throw NotCompiled();
  Operands operands{Zmm(0), zero_, zero_, zero_, step.p, step.q};
  Zmm* const places[] = {&operands.a, &operands.b, &operands.c};
  for (size_t i = 0; i < 3; ++i)
    if (step.operands[i] >= 0) *places[i] = zmm_of(step.operands[i]);
  release_after(static_cast<int>(&step - prepared_.steps.data()));
  operands.result = take(step.value);
  (this->*found->second)(operands);
  if (step.form == MapForm::kRounded) round_to_bf16(operands.result);
}

void CompiledMap::Writer::find_uses() {
  last_use_.assign(prepared_.values.size(), -1);
  for (size_t at = 0; at < prepared_.steps.size(); ++at)
    for (const int operand : prepared_.steps[at].operands)
      if (operand >= 0) last_use_[static_cast<size_t>(operand)] = static_cast<int>(at);
  const int end = static_cast<int>(prepared_.steps.size());
  for (size_t i = 0; i < prepared_.outputs.size(); ++i) {
    const int value = prepared_.outputs[i].value;
    if (is_sum(i) || value >= static_cast<int>(prepared_.inputs.size())) last_use_[static_cast<size_t>(value)] = end;
  }
}

/// All steps, and what is made of them, for one vector.
void CompiledMap::Writer::write_body() {
  for (const Prepared::Step& each : prepared_.steps) step(each);
  // A sum may be of an input, which an output may lie over.
  for (const auto& [output, sum] : sums_) {
    const Zmm added = zmm_of(prepared_.outputs[output].value);
    vaddps(sum, sum, added);
  }
  for (size_t i = 0; i < prepared_.outputs.size(); ++i)
    if (!is_sum(i) && prepared_.outputs[i].value >= static_cast<int>(prepared_.inputs.size()))
      store(i, into_.writes_[i]);
}

void CompiledMap::Writer::write_flat() {
  Xbyak::Label again;
  xor_(eax, eax);
  L(again);
  write_body();
  add(rax, static_cast<int>(kLanes));
  cmp(rax, rsi);
  jl(again, T_NEAR);
}

/// Row after row, as they lie in memory.
void CompiledMap::Writer::write_rows() {
  Xbyak::Label next_columns, next_row;
  xor_(eax, eax);
  xor_(ecx, ecx);
  L(next_row);
  xor_(r8d, r8d);
  L(next_columns);
  write_body();
  add(rax, static_cast<int>(kLanes));
  add(r8, static_cast<int>(kLanes));
  cmp(r8, static_cast<int>(prepared_.columns));
  jl(next_columns, T_NEAR);
  add(rcx, 1);
  cmp(rcx, rsi);
  jl(next_row, T_NEAR);
}

/// Down the rows of a vector of columns, whose sums stay in registers.
void CompiledMap::Writer::write_sums() {
  for (size_t i = 0; i < prepared_.outputs.size(); ++i) {
    if (!is_sum(i)) continue;
    if (free_.empty()) throw NotCompiled();
    sums_.emplace(i, Zmm(free_.back()));
    free_.pop_back();
  }
  Xbyak::Label next_columns, next_row;
  xor_(r8d, r8d);
  L(next_columns);
  for (const auto& [output, sum] : sums_) {
    find_output(output);
    vmovups(sum, zword[rdx + r8 * 4]);
  }
  mov(rax, r8);
  xor_(ecx, ecx);
  L(next_row);
  write_body();
  add(rax, static_cast<int>(prepared_.columns));
  add(rcx, 1);
  cmp(rcx, rsi);
  jl(next_row, T_NEAR);
  for (const auto& [output, sum] : sums_) {
    find_output(output);
    vmovups(zword[rdx + r8 * 4], sum);
  }
  add(r8, static_cast<int>(kLanes));
  cmp(r8, static_cast<int>(prepared_.columns));
  jl(next_columns, T_NEAR);
}

CompiledMap::Writer::Writer(const Prepared& prepared, CompiledMap& into)
    : Xbyak::CodeGenerator(1 << 14, Xbyak::DontSetProtectRWE), prepared_(prepared), into_(into) {
  register_of_.assign(prepared.values.size(), -1);
  for (int i = 0; i < kValues; ++i) free_.push_back(i);
  find_uses();
  vpxord(zero_, zero_, zero_);
  if (into.by_rows_ && prepared.sums_rows)
    write_sums();
  else if (into.by_rows_)
    write_rows();
  else
    write_flat();
  vzeroupper();
  ret();
  for (const auto& each : constants_) {
    L(each->label);
    dd(each->bits);
  }
  setProtectModeRE();
  loop = getCode<Loop>();
}

CompiledMap::~CompiledMap() = default;

namespace {

/// Whether the input has one number for each row of the space, one after another.
bool has_number_a_row(const Prepared& prepared, const Prepared::Input& input) {
  if (input.uniform || input.strides.back() != 0) return false;
  int64_t rows = 1;
  for (size_t axis = prepared.extents.size() - 1; axis-- > 0; rows *= prepared.extents[axis])
    if (prepared.extents[axis] != 1 && input.strides[axis] != rows) return false;
  return true;
}

CompiledMap::Reads reads_of(const Prepared& prepared, const Prepared::Input& input, bool by_rows) {
  const bool narrow = input.dtype == DType::kBF16;
  if (input.full && narrow) return CompiledMap::Reads::kBf16;
  if (!by_rows || input.counter || input.full || !(narrow || input.dtype == DType::kF32))
    return CompiledMap::Reads::kPlace;
  if (input.uniform && !narrow) return CompiledMap::Reads::kNumber;
  if (input.repeats) return CompiledMap::Reads::kColumn;
  return has_number_a_row(prepared, input) ? CompiledMap::Reads::kRow : CompiledMap::Reads::kPlace;
}

/// Whether the loop reads the input where it lies.
bool is_read_in_place(const Prepared& prepared, size_t input, CompiledMap::Reads reads) {
  const DType dtype = prepared.inputs[input].dtype;
  return prepared.values[input].uses == 0 || reads != CompiledMap::Reads::kPlace ||
         (prepared.inputs[input].full && (dtype == DType::kF32 || dtype == DType::kI32 || dtype == DType::kU32));
}

bool is_per_row_or_column(CompiledMap::Reads reads) {
  return reads == CompiledMap::Reads::kColumn || reads == CompiledMap::Reads::kRow;
}

}  // namespace

CompiledMap::CompiledMap(const Prepared& prepared, bool by_rows) : by_rows_(by_rows), in_place_(by_rows) {
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    reads_.push_back(reads_of(prepared, prepared.inputs[i], by_rows));
    in_place_ = in_place_ && is_read_in_place(prepared, i, reads_[i]);
  }
  for (const Prepared::Output& output : prepared.outputs) {
    writes_.push_back(output.reduce == Reduce::kNone && output.value >= static_cast<int>(prepared.inputs.size()) &&
                      (output.dtype == DType::kF32 || output.dtype == DType::kBF16));
    in_place_ = in_place_ && (writes_.back() || output.reduce == Reduce::kSumRows);
  }
  // What lies otherwise goes through registers, which a flat loop reads as well.
  if (by_rows && !in_place_ && !prepared.sums_rows) throw NotCompiled();
  code_ = std::make_unique<Writer>(prepared, *this);
}

std::unique_ptr<const CompiledMap> CompiledMap::make(const MapEvaluator::Prepared& prepared) {
  constexpr size_t kFewestSteps = 2;  // a single loop reads and writes what this one does
  if (cpu_level() < CpuLevel::kAvx512 || prepared.steps.empty()) return nullptr;
  if (prepared.inputs.size() + prepared.outputs.size() > kMostPlaces) return nullptr;
  const bool whole_rows = prepared.columns % kLanes == 0 && prepared.columns <= Prepared::kShortRow;
  const bool has_rows = prepared.sums_rows || std::ranges::any_of(prepared.inputs, [&](const Prepared::Input& input) {
                          return is_per_row_or_column(reads_of(prepared, input, true));
                        });
  for (const bool by_rows : {true, false}) {
    if (by_rows ? !(has_rows && whole_rows) : prepared.steps.size() < kFewestSteps) continue;
    try {
      return std::unique_ptr<const CompiledMap>(new CompiledMap(prepared, by_rows));
    } catch (const NotCompiled&) {
      continue;
    } catch (const Xbyak::Error&) {
      continue;  // no room, or no memory that may be run
    }
  }
  return nullptr;
}

#ifdef __clang__
__attribute__((no_sanitize("function")))  // which looks for a mark of the compiler before the code
#endif
void CompiledMap::run(const void* const* places, int64_t count) const {
  code_->loop(places, count);
}

}  // namespace ramet::kernel::cpu

#else

namespace ramet::kernel::cpu {

class CompiledMap::Writer {};

CompiledMap::~CompiledMap() = default;
std::unique_ptr<const CompiledMap> CompiledMap::make(const MapEvaluator::Prepared&) { return nullptr; }
void CompiledMap::run(const void* const*, int64_t) const {}

}  // namespace ramet::kernel::cpu

#endif
