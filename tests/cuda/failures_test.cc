#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cuda/card_kernels.h"
#include "ramet/base/error.h"
#include "support/test_card.h"

// What people read where there is no driver, no card, another card, too little memory or wrong device code. Each case
// has a process of its own, as a process finds its card once, and a failed launch ends what it can do.

namespace ramet::tests {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::HasSubstr;
using Variables = std::vector<std::pair<const char*, const char*>>;

/// What a process writes that sets `variables` and does `body`.
template <typename Body>
void tell(const Variables& variables, const Body& body) {
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  std::string text = "nothing was thrown";
  try {
    body();
  } catch (const std::exception& error) {
    text = error.what();
  }
  std::fprintf(stderr, "\nmessage: %s\n", text.c_str());
  std::fflush(stderr);
  _exit(0);
}

class Failures : public testing::Test {
 protected:
  void SetUp() override {
    if (has_real_card()) GTEST_SKIP() << "only the fake card fails on request";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

void use_card() { card_device(); }

TEST_F(Failures, NoDriver) {
  EXPECT_EXIT(
      tell({{"RAMET_CUDA_DRIVER", "/nowhere/libcuda.so.1"}}, use_card), ExitedWithCode(0),
      AllOf(HasSubstr("NVIDIA's driver is not there"), HasSubstr("/nowhere/libcuda.so.1"), HasSubstr("hopper-host")));
}

TEST_F(Failures, NoCard) {
  EXPECT_EXIT(
      tell({{"RAMET_FAKE_CUDA_DEVICES", "0"}}, use_card), ExitedWithCode(0),
      AllOf(HasSubstr("NVIDIA's driver does not start"), HasSubstr("CUDA_ERROR_NO_DEVICE"), HasSubstr("hopper-host")));
}

TEST_F(Failures, AnotherCard) {
  EXPECT_EXIT(tell({{"RAMET_FAKE_CUDA_ARCHITECTURE", "8.0"}}, use_card), ExitedWithCode(0),
              AllOf(HasSubstr("a GPU of another class"), HasSubstr("sm_80"), HasSubstr("expected sm_90")));
}

TEST_F(Failures, NoCardOfThatNumber) {
  EXPECT_EXIT(tell({{"RAMET_CUDA_CARD", "3"}}, use_card), ExitedWithCode(0),
              AllOf(HasSubstr("there is no such GPU"), HasSubstr("card 3 of 1")));
}

TEST_F(Failures, TooLittleMemory) {
  EXPECT_EXIT(tell({{"RAMET_FAKE_CUDA_MEMORY", "4194304"}},
                   [] { (void)card_device().take(8 << 20, Memory::kDevice, "the test's arena"); }),
              ExitedWithCode(0),
              AllOf(HasSubstr("the test's arena: not enough memory"), HasSubstr("available on Ramet fake card")));
}

TEST_F(Failures, NoCompiler) {
  EXPECT_EXIT(tell({{"RAMET_NVRTC", "/nowhere/libnvrtc.so"}, {"XDG_CACHE_HOME", "/nowhere"}},
                   [] { run_test_kernel(test_source("a.data[0] = 1;"), {0}, {.threads = 32}); }),
              ExitedWithCode(0), AllOf(HasSubstr("run-time compiler"), HasSubstr("/nowhere/libnvrtc.so")));
}

TEST_F(Failures, CodeThatDoesNotCompile) {
  EXPECT_EXIT(tell({}, [] { run_test_kernel(test_source("a.dat[0] = 1;"), {0}, {.threads = 32}); }), ExitedWithCode(0),
              AllOf(HasSubstr("test.cu does not compile"), HasSubstr("has no member named"), HasSubstr("dat")));
}

TEST_F(Failures, NoSuchKernel) {
  EXPECT_EXIT(tell({}, [] { load_cuda_function(test_source("a.data[0] = 1;"), "tset"); }), ExitedWithCode(0),
              HasSubstr("test.cu has no kernel 'tset'"));
}

/// The first failure is the only thing that the card says from then on.
TEST_F(Failures, WritesOutsideOfTheMemory) {
  const auto fail_twice = [] {
    const CudaSource wrong = test_source("a.data[1ll << 40] = 1;"), right = test_source("a.data[0] = 1;");
    EXPECT_ANY_THROW(run_test_kernel(wrong, {0}, {.threads = 32}));
    run_test_kernel(right, {0}, {.threads = 32});
  };
  EXPECT_EXIT(tell({}, fail_twice), ExitedWithCode(0),
              AllOf(HasSubstr("fake card: kernel test: an address outside"), HasSubstr("message: device cuda"),
                    HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
}

TEST_F(Failures, ThreadsThatWaitForever) {
  const char* bodies[] = {"if (threadIdx.x != 3) __syncthreads(); a.data[0] = 1;",
                          "if (threadIdx.x < 7) __syncthreads(); else __syncwarp();",
                          "if (threadIdx.x == 0) __syncwarp();"};
  for (const char* body : bodies)
    EXPECT_EXIT(tell({}, [&] { run_test_kernel(test_source(body), {0}, {.threads = 64}); }), ExitedWithCode(0),
                AllOf(HasSubstr("threads wait for"), HasSubstr("CUDA_ERROR_LAUNCH_TIMEOUT")))
        << body;
}

TEST_F(Failures, WarpsThatAreNotWhole) {
  EXPECT_EXIT(tell({}, [] { run_test_kernel(test_source("__syncwarp(); a.data[0] = 1;"), {0}, {.threads = 40}); }),
              ExitedWithCode(0), HasSubstr("a warp operation in a warp of fewer than 32 threads"));
  EXPECT_EXIT(tell({}, [] { run_test_kernel(test_source("__syncwarp(1); a.data[0] = 1;"), {0}, {.threads = 32}); }),
              ExitedWithCode(0), HasSubstr("a warp operation of some lanes only"));
}

TEST_F(Failures, WritesBehindDynamicSharedMemory) {
  const auto run = [] {
    const CudaSource source = test_source("RAMET_DYNAMIC_SHARED(room); room[a.n] = 1; a.data[0] = room[0];");
    run_test_kernel(source, std::vector<int>(100), {.threads = 32, .dynamic_shared_bytes = 100});
  };
  EXPECT_EXIT(tell({}, run), ExitedWithCode(0),
              AllOf(HasSubstr("a write behind the dynamic shared memory"), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
}

/// Results may be right by chance; RAMET_FAKE_CUDA_RACES=1 looks at the accesses.
TEST_F(Failures, Races) {
  const std::string shared = "RAMET_SHARED(int, s, 64); s[threadIdx.x] = 1;";
  const std::pair<std::string, const char*> cases[] = {
      {shared + "a.data[threadIdx.x] = s[63 - threadIdx.x];", "a race at"},
      {shared + "__syncthreads(); a.data[threadIdx.x] = s[63 - threadIdx.x]; s[threadIdx.x] = 2;", "a race at"},
      {shared + "__syncwarp(); a.data[threadIdx.x] = s[threadIdx.x ^ 1];", ""},
      {shared + "__syncwarp(); a.data[threadIdx.x] = s[threadIdx.x ^ 32];", "a race at"},
      {shared + "__syncthreads(); a.data[threadIdx.x] = s[63 - threadIdx.x];", ""},
      {"atomicAdd(a.data, 1);", ""},
      {"if (threadIdx.x == 0) a.data[0] = 1;", "two writes"}};
  for (const auto& [body, expected] : cases) {
    const auto run = [&] {
      run_test_kernel(test_source(body), std::vector<int>(64),
                      {.x = std::string(expected) == "two writes" ? 2 : 1, .threads = 64});
    };
    const testing::Matcher<const std::string&> says =
        expected[0] ? testing::Matcher<const std::string&>(HasSubstr(expected)) : testing::Not(HasSubstr("race at"));
    EXPECT_EXIT(tell({{"RAMET_FAKE_CUDA_RACES", "1"}, {"XDG_CACHE_HOME", RAMET_BINARY_DIR "/fake_cuda/races"}}, run),
                ExitedWithCode(0), says)
        << body;
  }
}

TEST_F(Failures, TheHostCannotReadTheCardsMemory) {
  EXPECT_EXIT(
      {
        const DeviceMemory memory = card_device().take(64, Memory::kDevice, "a test");
        std::printf("%d", static_cast<int>(*reinterpret_cast<volatile char*>(memory.data())));
      },
      testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace ramet::tests
