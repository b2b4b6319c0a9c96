#include "ramet/kernel/cuda/product_wgmma.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "ramet/base/rng.h"
#include "ramet/device/cuda/tensor_map.h"
#include "ramet/device/cuda/trial.h"
#include "ramet/kernel/cuda/device/product_wgmma_arguments.h"
#include "ramet/kernel/cuda/families.h"
#include "ramet/kernel/cuda/print_map.h"

namespace ramet::kernel::cuda {
namespace {

using ramet_device::ProductArguments;
using ramet_device::TensorMap;
using ramet_device::WgmmaArguments;

constexpr int kBox = 64, kDepth = 64, kThreads = 384;  // of product_wgmma.cu

bool allowed() {
  const char* chosen = std::getenv("RAMET_CUDA_WGMMA");
  return !(chosen && std::string_view(chosen) == "0") && device::has_tensor_maps();
}

bool fits(const MatmulForm& form) {
  // Copies of 64 k neither cross a run nor leave a part, unless they leave the matrix, where they read zeros.
  const bool whole = form.chunks == 1 || form.run() % kDepth == 0;
  return whole && form.output.elements() > 0 && form.k > 0;
}

DType multiplied(DType stored) { return stored == DType::kF16 ? DType::kF16 : DType::kBF16; }

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// A small form that the same kernels compute: three tiles and two across, each with edges.
MatmulForm sample_of(const MatmulForm& form, int columns) {
  MatmulForm sample = form;
  sample.batch = 1;
  sample.m = 328;
  sample.n = columns + 24;
  sample.k = 200;
  if (form.chunks > 1) {
    sample.has_bias = sample.accumulate = false;
    sample.output.dtype = DType::kF32;
  }
  sample.chunks = sample.chunk_blocks = 1;
  sample.a.dtype = multiplied(form.a.dtype);
  sample.b.dtype = multiplied(form.b.dtype);
  sample.a.shape = form.transpose_a ? Shape{sample.k, sample.m} : Shape{sample.m, sample.k};
  sample.b.shape = form.transpose_b ? Shape{sample.n, sample.k} : Shape{sample.k, sample.n};
  sample.output.shape = Shape{sample.m, sample.n};
  return sample;
}

/// Numbers from 2^-7 to 2 (bf16; of f16, from 1 to 2) of both signs, as their bits.
std::vector<std::byte> numbers(int64_t elements, DType dtype, uint64_t which) {
  const RandomStream random(which, RandomPurpose::kTest, 0, 0);
  std::vector<std::byte> bytes(static_cast<size_t>(elements) * size_of(dtype));
  for (int64_t i = 0; i < elements; ++i) {
    const auto half = static_cast<uint16_t>((random.bits16(static_cast<uint64_t>(i)) & 0x83ff) | 0x3c00);
    const uint32_t whole = static_cast<uint32_t>(half) << 16;
    if (size_of(dtype) == 2)
      std::memcpy(&bytes[static_cast<size_t>(i) * 2], &half, 2);
    else
      std::memcpy(&bytes[static_cast<size_t>(i) * 4], &whole, 4);
  }
  return bytes;
}

ProductArguments arguments_of_sample(const MatmulForm& sample, DType bias, device::CudaTrial& trial) {
  ProductArguments arguments{};
  const auto operand = [&](const TensorType& type, int64_t stride, uint64_t which) {
    ramet_device::ProductOperand made{};
    made.data = trial.put(numbers(type.elements(), type.dtype, which));
    made.matrix = type.elements();
    made.stride = static_cast<int>(stride);
    made.whole_vectors = 1;
    return made;
  };
  arguments.a = operand(sample.a, sample.transpose_a ? sample.m : sample.k, 1);
  arguments.b = operand(sample.b, sample.transpose_b ? sample.k : sample.n, 2);
  if (sample.has_bias) arguments.result.extra = trial.put(numbers(sample.n, bias, 3));
  if (sample.accumulate) arguments.result.extra = trial.put(numbers(sample.m * sample.n, DType::kF32, 4));
  arguments.result.out_type = static_cast<int>(sample.output.dtype);
  arguments.result.extra_type = static_cast<int>(sample.has_bias ? bias : DType::kF32);
  arguments.result.extra_is_row = sample.has_bias;
  arguments.result.aligned = 1;
  for (long long& extent : arguments.stack) extent = 1;
  arguments.products = 1;
  arguments.part = sample.m * sample.n;
  arguments.m = static_cast<int>(sample.m);
  arguments.n = static_cast<int>(sample.n);
  arguments.k = arguments.run = static_cast<int>(sample.k);
  arguments.chunks = 1;
  return arguments;
}

}  // namespace

void MmaTiles::launch(CudaStream& stream, const ProductArguments& arguments) const {
  constexpr int64_t kTile = 128;
  const int64_t tiles = divided_up(arguments.m, kTile) * divided_up(arguments.n, kTile);
  stream.launch(function, {.x = tiles * arguments.products * arguments.chunks, .dynamic_shared_bytes = shared_bytes},
                arguments);
}

std::optional<WgmmaProduct> WgmmaProduct::make(const MatmulForm& form, DType bias, const MmaTiles& mma) {
  if (!fits(form) || !allowed()) return std::nullopt;
  WgmmaProduct product(form, bias, plan_product(form.m, form.n, form.k / form.chunks, form.batch * form.chunks));
  static std::mutex mutex;
  static std::map<const void*, bool> tried;  // by function
  const std::lock_guard lock(mutex);
  const auto [known, is_new] = tried.try_emplace(product.function_.handle, false);
  if (is_new) {
    known->second = product.agrees(form, bias, mma);
    if (!known->second)
      std::fprintf(stderr,
                   "ramet: cuda: a product by wgmma (%d columns, clusters of %d blocks) differs from mma.sync on this "
                   "card and is not used\n",
                   product.plan_.columns, product.plan_.cluster());
  }
  if (!known->second) return std::nullopt;
  return product;
}

bool WgmmaProduct::agrees(const MatmulForm& form, DType bias, const MmaTiles& mma) const {
  const MatmulForm sample = sample_of(form, plan_.columns);
  ProductPlan plan = plan_;
  plan.blocks = 2 * plan.cluster();  // fewer than tiles
  const WgmmaProduct small(sample, bias, plan);
  device::CudaTrial trial;
  ProductArguments arguments = arguments_of_sample(sample, bias, trial);
  const int64_t bytes = sample.output.bytes();
  const auto result = [&](uint8_t before, const auto& launch) {
    void* const out = trial.put(std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{before}));
    arguments.result.out = out;
    launch();
    return trial.get(out, bytes);
  };
  const auto expected = result(0x11, [&] { mma.launch(trial, arguments); });
  return result(0x22, [&] { small.launch(trial, arguments); }) == expected;
}

WgmmaProduct::WgmmaProduct(const MatmulForm& form, DType bias, const ProductPlan& plan)
    : transpose_a_(form.transpose_a),
      transpose_b_(form.transpose_b),
      matrices_a_(form.a.shape.elements() / (form.m * form.k)),
      matrices_b_(form.b.shape.elements() / (form.n * form.k)),
      m_(form.m),
      n_(form.n),
      k_(form.k),
      plan_(plan) {
  const bool parts = form.chunks > 1;  // product_parts adds and rounds
  const int extra = parts ? 0 : form.has_bias ? 1 : form.accumulate ? 2 : 0;
  CudaSource source = cuda_device_source(
      "product_wgmma.cu",
      {"kTileColumns=" + std::to_string(plan_.columns), "kStages=" + std::to_string(plan_.stages),
       "kClusterRows=" + std::to_string(plan_.cluster_rows), "kClusterColumns=" + std::to_string(plan_.cluster_columns),
       "kHeadStart=" + std::to_string(plan_.head_start), "kTransposeA=" + std::to_string(form.transpose_a),
       "kTransposeB=" + std::to_string(form.transpose_b),
       "TypeOut=" + storage_of(parts ? DType::kF32 : form.output.dtype),
       "TypeExtra=" + storage_of(extra == 1 ? bias : DType::kF32), "kExtra=" + std::to_string(extra)});
  source.text =
      multiply_tile_text(plan_.columns, form.transpose_a, form.transpose_b, multiplied(form.a.dtype)) + source.text;
  function_ = load_cuda_function(source, "product_wgmma", plan_.shared_bytes);
}

bool WgmmaProduct::takes(const ProductArguments& arguments) {
  return arguments.a.whole_vectors && arguments.b.whole_vectors;
}

void WgmmaProduct::launch(CudaStream& stream, ProductArguments arguments) const {
  ramet_device::ProductResult& result = arguments.result;
  const bool narrow = result.out_type != static_cast<int>(DType::kF32);
  if (narrow) result.aligned = n_ % 8 == 0 && reinterpret_cast<uintptr_t>(result.out) % 16 == 0;
  const auto map = [this](const ramet_device::ProductOperand& operand, int64_t matrices, bool along_k, int64_t others,
                          TensorMap* to) {
    device::make_tensor_map({.data = operand.data,
                             .matrices = matrices,
                             .rows = along_k ? others : k_,
                             .columns = along_k ? k_ : others,
                             .stride = operand.stride,
                             .box_rows = kBox,
                             .box_columns = kBox},
                            to);
  };
  WgmmaArguments all{};
  map(arguments.a, matrices_a_, !transpose_a_, m_, &all.map_a);
  map(arguments.b, matrices_b_, transpose_b_, n_, &all.map_b);
  all.product = arguments;
  stream.launch(function_, {.x = plan_.blocks, .threads = kThreads, .dynamic_shared_bytes = plan_.shared_bytes}, all);
}

}  // namespace ramet::kernel::cuda
