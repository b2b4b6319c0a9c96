#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// One parser under attack is one file, tests/fuzz/fuzz_NAME.cc:
///
///     RAMET_FUZZ_TARGET(name, std::string_view input) { parse_something(input); }
///     RAMET_FUZZ_SEEDS(name) { return {.inputs = {...}, .words = {...}}; }
///
/// The body may throw ramet::Error for bad input; anything else (a crash, another exception, Ramet's own internal
/// error, a hang) is a finding. Files in tests/samples/fuzz/NAME/ are seeds too.
///
/// The fuzz preset makes of each file a libFuzzer program, fuzz_NAME; the tests make of it the test Fuzz.NAME, which
/// tries mutations of the seeds, the same in every run (RAMET_FUZZ_ITERATIONS of them, when that is set).
namespace ramet::tests::fuzz {

struct Seeds {
  std::vector<std::string> inputs;
  std::vector<std::string> words;
};
using Body = void (*)(std::string_view);

/// Calls the body; lets ramet::Error pass when it speaks of the input, and ends the process for anything else.
void survive(Body body, std::string_view input);

/// The seeds given and those in tests/samples/fuzz/NAME/.
Seeds all_seeds(const std::string& name, Seeds given);

/// Tries the seeds and many mutations of them; on a crash prints which mutation it was.
void run_mutations(const std::string& name, Body body, Seeds seeds);

/// Writes seeds and words where libFuzzer finds them, when RAMET_FUZZ_SEED_FOLDER asks for it.
void write_seeds(const std::string& name, const Seeds& seeds);

/// A file in memory with these contents, for parsers that take a path. Lives until the next call.
std::filesystem::path as_file(std::string_view contents);

/// A folder of that name in memory, or else in the folder for temporary files; emptied at each call, gone in the end.
std::filesystem::path empty_folder(const std::string& name);

}  // namespace ramet::tests::fuzz

#define RAMET_FUZZ_SEEDS(name) static ::ramet::tests::fuzz::Seeds ramet_fuzz_seeds_##name()

#ifdef RAMET_LIBFUZZER
#define RAMET_FUZZ_TARGET(name, parameter)                                                         \
  static void ramet_fuzz_##name(parameter);                                                        \
  static ::ramet::tests::fuzz::Seeds ramet_fuzz_seeds_##name();                                           \
  extern "C" int LLVMFuzzerInitialize(int*, char***) {                                             \
    ::ramet::tests::fuzz::write_seeds(#name, ::ramet::tests::fuzz::all_seeds(#name, ramet_fuzz_seeds_##name())); \
    return 0;                                                                                      \
  }                                                                                                \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {                        \
    ::ramet::tests::fuzz::survive(ramet_fuzz_##name, {reinterpret_cast<const char*>(data), size});        \
    return 0;                                                                                      \
  }                                                                                                \
  static void ramet_fuzz_##name(parameter)
#else
#include <gtest/gtest.h>
#define RAMET_FUZZ_TARGET(name, parameter)                                                                \
  static void ramet_fuzz_##name(parameter);                                                               \
  static ::ramet::tests::fuzz::Seeds ramet_fuzz_seeds_##name();                                                  \
  TEST(Fuzz, name) { ::ramet::tests::fuzz::run_mutations(#name, ramet_fuzz_##name, ramet_fuzz_seeds_##name()); } \
  static void ramet_fuzz_##name(parameter)
#endif
