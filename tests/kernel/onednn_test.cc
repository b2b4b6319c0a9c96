#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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

/// oneDNN starts no thread of its own, however OpenMP is set: the process has as many after as before.
TEST(Onednn, StartsNoThreads) {
  if (!has_onednn()) GTEST_SKIP() << "no oneDNN kernels on this processor";
  omp_set_num_threads(4);
  const auto tasks = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = tasks();
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
  EXPECT_EQ(tasks(), before);
}

TEST(Guard, ProvesWhatIsInUse) {
  if (!has_onednn()) GTEST_SKIP() << "no oneDNN kernels on this processor";
  const std::string verdicts = guard_prove();
  EXPECT_THAT(verdicts, testing::HasSubstr("f32 brg:avx512_core equal\n"));
  EXPECT_THAT(verdicts, testing::Not(testing::HasSubstr("differs")));
  EXPECT_EQ(guard_refuses(DType::kF32, "gemm:jit"), "oneDNN's gemm:jit is not proven to give equal bits");
}

}  // namespace
}  // namespace ramet::tests
