#include "ramet/base/process_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

namespace ramet::tests {
namespace {

/// Uses code, read-only data and relocated tables of the C and C++ libraries.
std::string use_libraries(double number) {
  std::ostringstream text;
  text << std::fixed << std::sin(number) << ' ' << typeid(text).name();
  try {
    throw std::out_of_range(text.str());
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(ProcessMemory, LibrariesWorkAfterTheirPagesHaveLeft) {
  if (!std::filesystem::exists("/proc/self/smaps")) GTEST_SKIP() << "this system does not tell what is mapped";
  const std::string expected = use_libraries(1);
  std::atomic<bool> stops = false;
  std::atomic<int64_t> wrong = 0;
  std::thread other([&] {
    while (!stops) wrong += use_libraries(1) != expected;
  });
  const int64_t first = leave_library_pages();
  for (int i = 0; i < 5; ++i) {
    leave_library_pages();
    EXPECT_EQ(use_libraries(1), expected);
  }
  stops = true;
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(first, 0);
  leave_library_pages();
  EXPECT_LT(leave_library_pages(), first);  // what is in use came back, and no more
}

TEST(ProcessMemory, TrimmingKeepsWhatIsAllocated) {
  std::vector<std::unique_ptr<std::string>> kept;
  for (int i = 0; i < 1000; ++i) kept.push_back(std::make_unique<std::string>(1000, static_cast<char>('a' + i % 26)));
  for (int i = 0; i < 1000; i += 2) kept[static_cast<size_t>(i)].reset();
  trim_heap();
  for (int i = 1; i < 1000; i += 2)
    EXPECT_EQ(*kept[static_cast<size_t>(i)], std::string(1000, static_cast<char>('a' + i % 26)));
}

}  // namespace
}  // namespace ramet::tests
