#include "ramet/kernel/cpu/onednn.h"

#include <array>
#include <vector>

#include <dnnl.hpp>

#include "ramet/base/error.h"

extern "C" {
// OpenMP's own functions, from the run-time library that oneDNN is linked with.
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

namespace ramet::kernel::onednn {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// The descriptor of B in the blocked form of GemmShape.
memory::desc blocked_desc(const GemmShape& shape) {
  using Tag = memory::format_tag;
  const bool pairs = shape.compute == DType::kBF16;
  Tag tag = Tag::undef;
  if (shape.n_block == 64) tag = pairs ? Tag::BA16a64b2a : Tag::BA16a64b;
  if (shape.n_block == 48) tag = pairs ? Tag::BA16a48b2a : Tag::BA16a48b;
  if (shape.n_block == 32) tag = pairs ? Tag::BA16a32b2a : Tag::BA16a32b;
  if (shape.n_block == 16) tag = pairs ? Tag::BA16a16b2a : Tag::BA16a16b;
  if (tag == Tag::undef) internal_error("onednn::blocked_desc", "no such block");
  return memory::desc({shape.k, shape.n}, type_of(shape.compute), tag);
}

dnnl::matmul::primitive_desc primitive_desc(const GemmShape& shape, const memory::desc& b) {
  const memory::desc a({shape.m, shape.k}, type_of(shape.compute), memory::format_tag::ab);
  const memory::desc c({shape.m, shape.n}, type_of(shape.out), memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  if (shape.bias) {
    const memory::desc bias({1, shape.n}, type_of(*shape.bias), memory::format_tag::ab);
    return {dnnl::matmul::desc(a, b, bias, c), attributes, engine()};
  }
  return {dnnl::matmul::desc(a, b, c), attributes, engine()};
}

/// Argument slots hold plain bytes of no size: a primitive takes shapes from its own descriptor, and bytes have no
/// padding that oneDNN would clear (in operands that are ours to read only) each time an address is set.
memory bytes_slot() {
  return memory(memory::desc({1}, memory::data_type::u8, memory::format_tag::a), engine(), nullptr);
}

constexpr std::array<int, 5> kArguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST,
                                           DNNL_ARG_SCRATCHPAD};

struct Slot {
  dnnl::stream stream{engine()};
  std::array<memory, 5> values{bytes_slot(), bytes_slot(), bytes_slot(), bytes_slot(), bytes_slot()};
};

}  // namespace

bool built() { return true; }

OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

struct Gemm::Parts {
  dnnl::matmul primitive;
  std::string implementation;
  int64_t scratch_bytes = 0;
  bool has_bias = false;
  mutable std::vector<Slot> slots;
};

Gemm::Gemm(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Gemm::~Gemm() = default;

int64_t preferred_block(DType compute, int64_t k, int64_t n) {
  if (k < 1 || n < 1) return 0;
  const OneThread one_thread;
  try {
    const GemmShape shape{.m = 256, .n = n, .k = k, .compute = compute};
    const memory::desc any({k, n}, type_of(compute), memory::format_tag::any);
    const memory::desc chosen = primitive_desc(shape, any).weights_desc();
    for (int64_t block : {64, 48, 32, 16}) {
      GemmShape candidate = shape;
      candidate.n_block = block;
      if (blocked_desc(candidate) == chosen) return block;
    }
  } catch (const dnnl::error&) {
    // No implementation takes the type here.
  }
  return 0;
}

std::unique_ptr<Gemm> Gemm::make(const GemmShape& shape, int slots, std::string* why) {
  const OneThread one_thread;
  try {
    const auto descriptor = primitive_desc(shape, blocked_desc(shape));
    auto parts = std::make_unique<Parts>();
    parts->primitive = dnnl::matmul(descriptor);
    parts->implementation = descriptor.impl_info_str();
    parts->scratch_bytes = static_cast<int64_t>(descriptor.scratchpad_desc().get_size());
    parts->has_bias = shape.bias.has_value();
    parts->slots.resize(static_cast<size_t>(slots));
    return std::unique_ptr<Gemm>(new Gemm(std::move(parts)));
  } catch (const dnnl::error& error) {
    if (why) *why = std::string("oneDNN refuses the shape: ") + error.what();
    return nullptr;
  }
}

const std::string& Gemm::implementation() const { return parts_->implementation; }
int64_t Gemm::scratch_bytes() const { return parts_->scratch_bytes; }

void Gemm::run(int slot, const void* a, const void* b, const void* bias, void* c, void* scratch) const {
  const OneThread one_thread;
  Slot& own = parts_->slots[static_cast<size_t>(slot)];
  const std::array<const void*, 5> addresses = {a, b, bias, c, scratch};
  std::array<dnnl_exec_arg_t, 5> arguments;
  int count = 0;
  for (size_t i = 0; i < kArguments.size(); ++i) {
    if (kArguments[i] == DNNL_ARG_BIAS && !parts_->has_bias) continue;
    own.values[i].set_data_handle(const_cast<void*>(addresses[i]));
    arguments[static_cast<size_t>(count++)] = {kArguments[i], own.values[i].get()};
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(parts_->primitive.get(), own.stream.get(), count, arguments.data());
  if (status != dnnl_success) internal_error("onednn::Gemm::run", "oneDNN returned " + std::to_string(status));
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + " (" + v->hash +
         ")";
}

void limit_isa(CpuLevel level) {
  if (level == CpuLevel::kBaseline) dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  if (level == CpuLevel::kAvx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  if (level == CpuLevel::kAvx512) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
  // oneDNN's products with tiles are not used: for few rows it takes another implementation, whose bits differ.
  if (level >= CpuLevel::kAvx512Bf16) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
}

}  // namespace ramet::kernel::onednn
