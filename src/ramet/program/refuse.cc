#include "ramet/program/refuse.h"

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet {
namespace {

int64_t bytes_of(const Executable& exe, BufferClass kind) { return exe.live_at(exe.peak_instant)[static_cast<size_t>(kind)]; }

std::string breakdown(const Executable& exe) {
  const auto live = exe.live_at(exe.peak_instant);
  std::string text;
  for (int kind = 0; kind < kBufferClassCount; ++kind)
    if (live[static_cast<size_t>(kind)] > 0)
      text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<BufferClass>(kind))) + " " +
              format_size(live[static_cast<size_t>(kind)]);
  return text + "; the most is alive at " + exe.at(exe.peak_instant);
}

/// Bytes that grow with the micro-batch: everything of the micro segment that is no state.
int64_t batch_bytes(const Executable& exe) {
  return bytes_of(exe, BufferClass::kActivations) + bytes_of(exe, BufferClass::kScratch) + bytes_of(exe, BufferClass::kHost);
}

/// Gradients that a step of several micro-batches would keep and a joined one does not: as large as the weights.
int64_t new_accumulators(const Executable& exe) { return exe.joined ? bytes_of(exe, BufferClass::kWeights) : 0; }

std::string advice(const std::string& what, int64_t bytes, int64_t limit) {
  return what + ": about " + format_size(bytes) + (bytes <= limit ? ", fits" : "");
}

}  // namespace

void refuse_memory(const Executable& exe, const CompileOptions& options, const PlanBytes& plan_bytes) {
  const int64_t need = exe.planned_bytes(), limit = options.device_memory;
  std::string remedy = "What would help";
  const auto add = [&](const std::string& text) { remedy += (remedy.back() == 'p' ? ": " : "; ") + text; };
  using Mode = RecomputeOptions::Mode;
  for (const auto& [mode, name] : {std::pair{Mode::kCheap, "cheap"}, std::pair{Mode::kLayers, "layer"}, std::pair{Mode::kAll, "all"}}) {
    if (options.recompute.mode == mode || options.recompute.mode == Mode::kFit || options.recompute.mode == Mode::kAll) continue;
    if (const auto bytes = plan_bytes({mode, {}, 0}); bytes && *bytes < need)
      add(advice("recompute \"" + std::string(name) + "\"", *bytes, limit));
  }
  const int64_t batch = batch_bytes(exe);
  for (int64_t part = 2; part <= 64; part *= 2) {
    const int64_t bytes = need - batch + batch / part + new_accumulators(exe);
    if (bytes >= need && part < 64) continue;
    if (bytes > limit && part < 64) continue;
    if (bytes < need) add(advice("a micro-batch of 1/" + std::to_string(part), bytes, limit));
    break;
  }
  if (const int64_t moments = bytes_of(exe, BufferClass::kOptimizer); moments > 0)
    add(advice("optimizer states in half the bytes (bf16, or an optimizer with fewer)", need - moments / 2, limit));
  add("--device-memory of " + std::to_string(need) + " bytes or more");
  throw Error({.what = "the training step does not fit into device memory",
               .where = "device memory",
               .found = format_size(need) + " needed (" + breakdown(exe) + ")",
               .expected = "at most " + format_size(limit),
               .remedy = remedy});
}

}  // namespace ramet
