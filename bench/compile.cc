// How long the compiler takes over whole training steps of the presets, pass by pass, and how near to its bound each is
// placed.   usage: compile [PRESET ...] [--layout L] [--passes] [--f32] [--recompute LEVEL] [--threads N]
// [--accumulation N] [--set a.b=c]
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/kernel/kernel.h"
#include "ramet/layout/partition.h"
#include "ramet/program/compile.h"
#include "ramet/recipe/prepare.h"
#include "ramet/report/memory.h"
#include "ramet/train/step.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/simplify.h"
#include "ramet/transport/process.h"

namespace {

using namespace ramet::bench;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Case {
  const char* name;
  std::vector<std::string> settings;
};

const std::vector<Case> kCases = {
    {"bert-mini", {"model.kind=bert", "model.preset=mini", "data.sequence_length=128", "train.micro_batch=32"}},
    {"bert-base", {"model.kind=bert", "model.preset=base", "data.sequence_length=128", "train.micro_batch=16"}},
    {"bert-large", {"model.kind=bert", "model.preset=large", "data.sequence_length=128", "train.micro_batch=8"}},
    {"gpt2-124m", {"model.kind=gpt2", "model.preset=124m", "data.sequence_length=1024", "train.micro_batch=2"}},
    {"gpt2-355m", {"model.kind=gpt2", "model.preset=355m", "data.sequence_length=1024", "train.micro_batch=1"}},
    {"gpt2-774m", {"model.kind=gpt2", "model.preset=774m", "data.sequence_length=1024", "train.micro_batch=1"}},
    {"gpt2-1.5b", {"model.kind=gpt2", "model.preset=1.5b", "data.sequence_length=1024", "train.micro_batch=1"}},
};

/// GPT-3 175B (Brown et al. 2020, table 2.1), its vocabulary padded to a multiple of 1024 as Megatron-LM does: only
/// with a layout.
const Case kGpt3 = {
    "gpt3-175b",
    {"model.kind=gpt2", "model.preset=1.5b", "model.layers=96", "model.hidden=12288", "model.heads=96",
     "model.vocabulary_size=51200", "model.max_positions=2048", "data.sequence_length=2048", "train.micro_batch=1",
     "train.lanes=4", "train.accumulation=64", "train.chunks=8", "train.evaluation.batches=0"}};

/// The step over a layout's devices: partition, then a program for each stage.
void compile_over(const Case& each, const StepGraph& step, const std::string& text, const CompileOptions& options,
                  double build) {
  const Layout layout = parse_layout(text);
  auto start = Clock::now();
  const DeviceGraphs graphs = partition(
      recompute(simplify(fuse(hoist(simplify(step)))), layout.recompute.value_or(RecomputeOptions{})), layout);
  const double cut = since(start);
  start = Clock::now();
  const std::vector<Executable> stages = compile_layout(graphs, cpu_backend(), options);
  const double seconds = since(start);
  int64_t most = 0;
  size_t calls = 0;
  for (const Executable& exe : stages) most = std::max(most, exe.planned_bytes()), calls += exe.calls.size();
  std::printf(
      "%s, %s: %d devices; build %.2f s, partition %.2f s, compile %.2f s; %zu calls, %s on the fullest device; this "
      "process took %s\n",
      each.name, text.c_str(), layout.devices(), build, cut, seconds, calls, format_size(most).c_str(),
      format_size(measured_peak_bytes()).c_str());
}

}  // namespace

int main(int count, char** words) try {
  std::vector<std::string> wanted, settings;
  CompileOptions options;
  bool passes = false, report = false;
  std::string svg, layout;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto next = [&] { return std::string(i + 1 < count ? words[++i] : ""); };
    if (word == "--passes")
      passes = true;
    else if (word == "--report")
      report = true;
    else if (word == "--svg")
      svg = next();
    else if (word == "--layout")
      layout = next();
    else if (word == "--f32")
      settings.push_back("train.precision=f32");
    else if (word == "--recompute")
      options.recompute = parse_recompute(next());
    else if (word == "--set")
      settings.push_back(next());
    else if (word == "--threads")
      options.threads = std::stoi(next());
    else if (word == "--accumulation")
      settings.push_back("train.accumulation=" + next());
    else if (word == "--device-memory")
      options.device_memory = parse_size(next());
    else
      wanted.push_back(word);
  }
  std::printf("%-12s %8s %8s %10s %10s %8s %12s %9s  %s\n", "step", "nodes", "build s", "compile s", "calls", "buffers",
              "planned", "gap", "placement");
  std::vector<Case> cases = kCases;
  if (!layout.empty()) cases.push_back(kGpt3);
  for (const Case& each : cases) {
    bool chosen = wanted.empty();
    for (const std::string& name : wanted) chosen = chosen || name == each.name;
    if (!chosen) continue;
    std::vector<std::string> all = each.settings;
    all.insert(all.end(), settings.begin(), settings.end());
    const Recipe recipe = complete_recipe(parse_recipe("data.kind = \"synthetic\"\n", each.name, ".", all));
    auto start = Clock::now();
    const StepGraph step = make_training_step(build_model(recipe), recipe.train);
    const double build = since(start);
    if (!layout.empty()) {
      compile_over(each, step, layout, options, build);
      continue;
    }
    start = Clock::now();
    const Executable exe = compile(step, cpu_backend(), options);
    const double seconds = since(start);
    std::printf("%-12s %8zu %8.2f %10.2f %10zu %8zu %12s %8.3f%%  %s\n", each.name,
                step.micro.nodes().size() + step.update.nodes().size(), build, seconds, exe.calls.size(),
                exe.buffers.size(), format_size(exe.planned_bytes()).c_str(), 100 * exe.gap(), exe.placement.c_str());
    if (passes)
      for (const auto& [name, time] : exe.pass_seconds) std::printf("    %-10s %8.1f ms\n", name.c_str(), time * 1e3);
    if (report) std::printf("%s", text_of(memory_report(exe)).c_str());
    if (!svg.empty()) write_file_atomic(svg, memory_svg(exe));
  }
  return 0;
} catch (const std::exception& fault) {
  std::fprintf(stderr, "%s\n", fault.what());
  return 1;
}
