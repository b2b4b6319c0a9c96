#include "fuzz/fuzz_target.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/mutate.h"
#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/hash.h"

namespace ramet::tests::fuzz {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kSeed = 20240229;
constexpr unsigned kSecondsPerInput = 30;

// What a crash must be able to tell, with nothing but write(2).
char current[256] = "fuzz: a crash before the first input\n";

void tell_current() {
  const ssize_t ignored = ::write(STDERR_FILENO, current, std::strlen(current));
  (void)ignored;
}

extern "C" void on_fatal_signal(int number) {
  tell_current();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)(void));

void watch_for_crashes() {
  if (__sanitizer_set_death_callback) {
    __sanitizer_set_death_callback(tell_current);
  } else {
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(number, on_fatal_signal);
  }
  for (const int number : {SIGABRT, SIGALRM}) ::signal(number, on_fatal_signal);
}

}  // namespace

void survive(Body body, std::string_view input) {
  try {
    body(input);
  } catch (const Error& error) {
    // By its first words alone: any others may be the input's own, and fuzzers are quick to learn them.
    if (error.parts().what.empty() || error.parts().what.starts_with("internal error: ")) {
      std::fprintf(stderr, "fuzz: input must not reach this: %s\n", error.what());
      std::abort();
    }
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "fuzz: bad input must throw ramet::Error, not: %s\n", exception.what());
    std::abort();
  }
}

Seeds all_seeds(const std::string& name, Seeds given) {
  const fs::path folder = fs::path(RAMET_SOURCE_DIR) / "tests/samples/fuzz" / name;
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) given.inputs.push_back(read_file(file));
  return given;
}

void run_mutations(const std::string& name, Body body, Seeds given) {
  const char* wish = std::getenv("RAMET_FUZZ_ITERATIONS");
  const long iterations = wish ? std::atol(wish) : 3000;
  const Seeds seeds = all_seeds(name, std::move(given));
  watch_for_crashes();
  for (long i = -static_cast<long>(seeds.inputs.size()); i < iterations; ++i) {
    // Each mutation has a generator of its own, so that one can be tried alone.
    const auto number = static_cast<uint64_t>(std::max(i, 0L));
    const std::string input =
        i < 0 ? seeds.inputs[static_cast<size_t>(-i - 1)] : Mutator(kSeed + number, seeds.words).mutate(seeds.inputs);
    std::snprintf(current, sizeof current, "fuzz: target %s ended at %s %ld (%zu bytes)\n", name.c_str(),
                  i < 0 ? "seed" : "mutation", i < 0 ? -i - 1 : i, input.size());
    ::alarm(kSecondsPerInput);
    survive(body, input);
  }
  ::alarm(0);
}

void write_seeds(const std::string& name, const Seeds& seeds) {
  const char* folder = std::getenv("RAMET_FUZZ_SEED_FOLDER");
  if (!folder) return;
  fs::create_directories(folder);
  for (const auto& input : seeds.inputs) write_file_atomic(fs::path(folder) / hash_text(input).hex(), input);
  std::string dictionary;
  for (const auto& word : seeds.words) {
    dictionary += '"';
    for (const unsigned char c : word) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, c < 32 || c > 126 || c == '"' || c == '\\' ? "\\x%02x" : "%c", c);
      dictionary += escaped;
    }
    dictionary += "\"\n";
  }
  write_file_atomic(fs::path(folder).parent_path() / (name + ".dict"), dictionary);
}

fs::path as_file(std::string_view contents) {
  static int fd = -1;
  if (fd < 0) fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, contents.data(), contents.size(), 0) != static_cast<ssize_t>(contents.size())) {
    std::perror("fuzz: no file in memory");
    std::abort();
  }
  return "/proc/self/fd/" + std::to_string(fd);
}

fs::path empty_folder(const std::string& name) {
  // Removed when the process ends, with all that targets kept there.
  static const struct Home {
    fs::path path;
    Home() {
      std::error_code none;
      const fs::path base = fs::is_directory("/dev/shm", none) ? fs::path("/dev/shm") : fs::temp_directory_path();
      path = base / ("ramet-fuzz-" + std::to_string(::getpid()));
    }
    ~Home() {
      std::error_code none;
      fs::remove_all(path, none);
    }
  } home;
  const fs::path folder = home.path / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

}  // namespace ramet::tests::fuzz
