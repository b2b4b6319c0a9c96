#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "fake_cuda/module.h"
#include "fake_cuda/races.h"

// The functions of NVRTC that Ramet uses (device/cuda/nvrtc.cc). Device text is compiled by the host's compiler with
// host_shim.h. What was compiled stays in RAMET_FAKE_CUDA_CACHE, a folder, so that tests compile a text once.

extern char** environ;

namespace {

namespace fs = std::filesystem;
using namespace ramet_fake;

enum CompileResult : int { kCompiled = 0, kBadInput = 3, kBadProgram = 4, kBadOption = 5, kDoesNotCompile = 6 };

struct Program {
  std::string name, text, log;
  std::map<std::string, std::string> headers;
  std::vector<char> image;
};

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
void write_all(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// FNV-1a, with the lengths of what is added.
class Key {
 public:
  void add(const std::string& text) {
    for (uint64_t size = text.size(), i = 0; i < 8; ++i) step(static_cast<unsigned char>(size >> (8 * i)));
    for (const char c : text) step(static_cast<unsigned char>(c));
  }
  std::string text() const {
    char digits[40];
    std::snprintf(digits, sizeof(digits), "%016llx%016llx", static_cast<unsigned long long>(a_),
                  static_cast<unsigned long long>(b_));
    return digits;
  }

 private:
  void step(unsigned char byte) {
    a_ = (a_ ^ byte) * 0x100000001b3u;
    b_ = (b_ ^ byte) * 0x9e3779b97f4a7c15u + 1;
  }
  uint64_t a_ = 0xcbf29ce484222325u, b_ = 1;
};

std::string shim_folder() { return RAMET_FAKE_CUDA_FOLDER; }
std::string host_compiler() {
  const char* chosen = std::getenv("RAMET_FAKE_CUDA_COMPILER");
  return chosen && *chosen ? chosen : RAMET_FAKE_CUDA_COMPILER;
}
fs::path cache_folder() {
  const char* chosen = std::getenv("RAMET_FAKE_CUDA_CACHE");
  return chosen && *chosen ? chosen : RAMET_FAKE_CUDA_CACHE;
}

/// What the host's compiler is told for NVRTC's options.
struct Options {
  std::vector<std::string> definitions;
  std::string standard = "c++17";
  std::string architecture;
  bool contracts = true;  ///< NVRTC's default
};

/// The value of an option that is written as `name` or `other`; null where it is neither.
const char* value_of(const std::string& option, const std::string& name) {
  return option.rfind(name, 0) == 0 ? option.c_str() + name.size() : nullptr;
}

bool read_option(const std::string& option, Options* to) {
  for (const char* name : {"--gpu-architecture=", "-arch="})
    if (const char* value = value_of(option, name)) return to->architecture = value, true;
  for (const char* name : {"--define-macro=", "-D"})
    if (const char* value = value_of(option, name)) return to->definitions.push_back(std::string("-D") + value), true;
  for (const char* name : {"--fmad=", "-fmad="})
    if (const char* value = value_of(option, name)) return to->contracts = std::string(value) != "false", true;
  for (const char* name : {"--std=", "-std="})
    if (const char* value = value_of(option, name)) return to->standard = value, true;
  for (const char* name :
       {"--generate-line-info", "-lineinfo", "-default-device", "--restrict", "--device-as-default-execution-space",
        "--ptxas-options", "-diag-suppress", "--split-compile", "--no-source-include", "-no-source-include"})
    if (value_of(option, name)) return true;
  return false;
}

/// Runs a program; its output goes to `log`.
bool run_program(const std::vector<std::string>& words, const fs::path& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    write_all(log, words[0] + ": " + std::strerror(failed) + "\n");
    return false;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> command_of(const Options& options) {
  std::vector<std::string> words = {host_compiler(),
                                    "-x",
                                    "c++",
                                    "-std=" + options.standard,
                                    "-O1",
                                    "-ffp-contract=off",
                                    "-fno-fast-math",
                                    "-fno-strict-aliasing",
                                    "-fwrapv",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-gnu-unique",
                                    "-fvisibility=hidden",
                                    "-fsanitize=alignment",  // a card refuses what this processor does not mind
                                    "-fsanitize-undefined-trap-on-error",
                                    "-shared",
                                    "-fPIC",
                                    "-w",
                                    "-DRAMET_FAKE_CUDA"};
  // For fma as one instruction.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) words.push_back("-march=x86-64-v3");
  // Calls races.cc at each access; without the library of the sanitizer itself.
  if (watches_races())
    words.insert(words.end(), {"-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0", "-nostdlib"});
  words.insert(words.end(), options.definitions.begin(), options.definitions.end());
  return words;
}

CompileResult compile(Program& program, const Options& options) {
  std::vector<std::string> words = command_of(options);
  Key key;
  for (const std::string& word : words) key.add(word);
  for (const auto& [name, text] : program.headers) key.add(name), key.add(text);
  key.add(program.name);
  key.add(program.text);
  key.add(read_all(shim_folder() + "/host_shim.h"));
  const fs::path made = cache_folder() / (key.text() + ".so");
  if (!fs::exists(made)) {
    fs::create_directories(cache_folder());
    std::string folder = (cache_folder() / "compile-XXXXXX").string();
    if (!mkdtemp(folder.data())) return program.log = "no temporary folder\n", kDoesNotCompile;
    const fs::path place = folder;
    for (const auto& [name, text] : program.headers) write_all(place / name, text);
    write_all(place / program.name, program.text);
    words.insert(words.end(),
                 {"-I" + folder, "-I" + shim_folder(), "-o", folder + "/made.so", folder + "/" + program.name});
    const bool done = run_program(words, place / "log");
    program.log = read_all(place / "log");
    if (done) fs::rename(place / "made.so", made);
    fs::remove_all(place);
    if (!done) return kDoesNotCompile;
  }
  const std::string object = read_all(made);
  program.image = image_of({object.begin(), object.end()}, options.architecture);
  return kCompiled;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kCompiled;
}
int nvrtcCreateProgram(Program** made, const char* text, const char* name, int headers, const char* const* texts,
                       const char* const* names) {
  if (!made || !text) return kBadInput;
  auto* program = new Program;
  program->name = name ? name : "default_program";
  program->text = text;
  for (int i = 0; i < headers; ++i) program->headers[names[i]] = texts[i];
  *made = program;
  return kCompiled;
}
int nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) return kBadProgram;
  delete *program;
  *program = nullptr;
  return kCompiled;
}
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  Options read;
  for (int i = 0; i < count; ++i)
    if (!read_option(options[i], &read)) {
      program->log = std::string("unrecognized option ") + options[i] + "\n";
      return kBadOption;
    }
  if (read.contracts) {
    program->log = "the fake compiler takes --fmad=false only: multiply-adds are never contracted\n";
    return kDoesNotCompile;
  }
  return compile(*program, read);
}
int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->image.size();
  return kCompiled;
}
int nvrtcGetCUBIN(Program* program, char* to) {
  std::memcpy(to, program->image.data(), program->image.size());
  return kCompiled;
}
int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return kCompiled;
}
int nvrtcGetProgramLog(Program* program, char* to) {
  std::memcpy(to, program->log.c_str(), program->log.size() + 1);
  return kCompiled;
}
const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kCompiled: return "NVRTC_SUCCESS";
    case kBadInput: return "NVRTC_ERROR_INVALID_INPUT";
    case kBadProgram: return "NVRTC_ERROR_INVALID_PROGRAM";
    case kBadOption: return "NVRTC_ERROR_INVALID_OPTION";
    default: return "NVRTC_ERROR_COMPILATION";
  }
}

}  // extern "C"
#pragma GCC visibility pop
