#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "kernel/kernel_tools.h"
#include "ramet/kernel/cpu/guard.h"
#include "ramet/kernel/cpu/onednn.h"
#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/kernel/interpret.h"

// oneDNN itself: only in builds that have it.

extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);

namespace ramet::tests {
namespace {

bool has_onednn() { return cpu_level() >= CpuLevel::kAvx512; }

TEST(Onednn, LeavesOpenMpAsItFoundIt) {
  omp_set_num_threads(3);
  const std::vector<HostTensor> inputs{random_tensor(DType::kF32, {64, 64}, 1),
                                       random_tensor(DType::kF32, {64, 64}, 2)};
  interpret_node(node_of("matmul", inputs, {{"dtype", DType::kF32}}), cpu_backend(), inputs, 2);
  EXPECT_EQ(omp_get_max_threads(), 3);
  {
    const onednn::OneThread one_thread;
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
}

/// The process's threads by number. One that was just joined may still be listed for a moment.
std::set<std::string> threads_now() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    found.insert(entry.path().filename());
  return found;
}

/// oneDNN starts no thread of its own, however OpenMP is set: the process has none after that it had not before.
TEST(Onednn, StartsNoThreads) {
  if (!has_onednn()) GTEST_SKIP() << "no oneDNN kernels on this processor";
  omp_set_num_threads(4);
  const std::set<std::string> before = threads_now();
  MatmulForm form;
  form.m = 512, form.n = 512, form.k = 3072;
  form.a_index = form.b_index = {0};
  form.a = form.b = {DType::kF32, {512, 512}};
  form.output = {DType::kF32, {512, 512}};
  std::string why;
  const auto prepared = PreparedMatmul::make(BlockProduct::kOnednn, form, DType::kF32, std::nullopt, 1, &why);
  ASSERT_NE(prepared, nullptr) << why;
  const HostTensor a = random_tensor(DType::kF32, {3072, 512}, 1), b = random_tensor(DType::kF32, {3072, 512}, 2);
  HostTensor out(form.output);
  std::vector<char> scratch(static_cast<size_t>(prepared->scratch_bytes()) + 64);
  ThreadTeam team(1);
  prepared->run(a.data.data(), b.data.data(), nullptr, out.data.data(),
                scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64), team);
  EXPECT_THAT(threads_now(), testing::IsSubsetOf(before));
}

/// Narrow products with a transposed a are not oneDNN's, and have the bits of those that are.
TEST(Onednn, TransposedNarrowProductsHaveItsBits) {
  if (!has_onednn()) GTEST_SKIP() << "no oneDNN kernels on this processor";
  using Sizes = std::array<int64_t, 4>;  // m, n, k and chunks
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const auto& [m, n, k, chunks] : {Sizes{64, 64, 1500, 1}, Sizes{64, 50, 4369, 1}, Sizes{37, 200, 700, 1},
                                          Sizes{256, 16, 512, 1}, Sizes{5, 130, 2050, 2}, Sizes{100, 1, 1024, 1}}) {
      const HostTensor turned = random_tensor(dtype, {k, m}, 1), b = random_tensor(dtype, {k, n}, 2);
      HostTensor a({dtype, {m, k}});
      for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p) a.set(i * k + p, turned.get(p * m + i));
      Attributes plain{{"dtype", DType::kF32}};
      if (chunks > 1) plain.set("chunks", chunks);
      Attributes transposed = plain;
      transposed.set("transpose_a", true);
      for (const int threads : {1, 2, 3}) {
        const std::vector<HostTensor> left{turned, b}, right{a, b};
        EXPECT_EQ(interpret_node(node_of("matmul", left, transposed), cpu_backend(), left, threads, "onednn")[0].data,
                  interpret_node(node_of("matmul", right, plain), cpu_backend(), right, threads, "onednn")[0].data)
            << name_of(dtype) << " " << m << "x" << n << "x" << k << " in " << chunks << " on " << threads;
      }
    }
}

TEST(Guard, ProvesWhatIsInUse) {
  if (!has_onednn()) GTEST_SKIP() << "no oneDNN kernels on this processor";
  const std::string verdicts = guard_prove();
  EXPECT_THAT(verdicts, testing::HasSubstr("f32 brg:avx512_core equal\n"));
  // The order of sums may be another on another processor; then oneDNN computes all products.
  std::istringstream lines(verdicts);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("f32-chains ") && !line.starts_with("bf16-chains ")) {
      EXPECT_THAT(line, testing::Not(testing::HasSubstr("differs")));
    }
  EXPECT_EQ(guard_refuses(DType::kF32, "gemm:jit"), "oneDNN's gemm:jit is not proven to give equal bits");
}

}  // namespace
}  // namespace ramet::tests
