#include "ramet/program/refuse.h"

#include <algorithm>
#include <set>

#include "ramet/base/error.h"
#include "ramet/base/file.h"

namespace ramet::program {
namespace {

int64_t bytes_of(const Executable& exe, BufferClass kind) {
  return exe.live_at(exe.peak_instant)[static_cast<size_t>(kind)];
}

std::string breakdown(const Executable& exe) {
  const auto live = exe.live_at(exe.peak_instant);
  std::string text;
  for (int kind = 0; kind < kBufferClassCount; ++kind)
    if (live[static_cast<size_t>(kind)] > 0)
      text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<BufferClass>(kind))) + " " +
              format_size(live[static_cast<size_t>(kind)]);
  return text + "; most bytes are live at " + exe.at(exe.peak_instant);
}

/// About what the step would need with its micro-batch cut into `parts`. Transient buffers of a weight's size are taken
/// for gradients, which do not shrink; a joined step would have to keep all of them.
int64_t bytes_with_smaller_batch(const Executable& exe, int64_t parts) {
  std::set<int64_t> weight_sizes;
  int64_t fixed = 0, weights = 0, largest = 0;
  std::vector<int64_t> change(static_cast<size_t>(exe.instants) + 1, 0);
  for (const StatePlace& state : exe.states)
    if (state.tensor.kind == StateKind::kWeight) weight_sizes.insert(state.tensor.type.bytes());
  for (const Buffer& buffer : exe.buffers) {
    const bool transient = buffer.kind == BufferClass::kActivations || buffer.kind == BufferClass::kStash ||
                           buffer.kind == BufferClass::kExchange || buffer.kind == BufferClass::kScratch ||
                           buffer.kind == BufferClass::kHost;
    if (!transient) {
      fixed += buffer.bytes;
      if (buffer.kind == BufferClass::kWeights) weights += buffer.bytes, largest = std::max(largest, buffer.bytes);
    } else if (!weight_sizes.count(buffer.bytes)) {
      change[static_cast<size_t>(buffer.first)] += buffer.total();
      change[static_cast<size_t>(buffer.last) + 1] -= buffer.total();
    }
  }
  int64_t live = 0, most = 0;
  for (int64_t delta : change) most = std::max(most, live += delta);
  return fixed + largest + (exe.joined ? weights : 0) + most / parts;
}

std::string advice(const std::string& what, int64_t bytes, int64_t limit) {
  return what + ": about " + format_size(bytes) + (bytes <= limit ? ", fits" : "");
}

}  // namespace

void refuse_memory(const Executable& exe, const CompileOptions& options, const BytesUnder& plan_bytes,
                   const std::vector<Advice>& more) {
  const int64_t need = exe.planned_bytes(), limit = options.device_memory;
  std::string remedy = "What would help";
  const auto add = [&](const std::string& text) { remedy += (remedy.back() == 'p' ? ": " : "; ") + text; };
  for (const Advice& each : more) add(advice(each.change, each.bytes, limit));
  using Mode = RecomputeOptions::Mode;
  for (const auto& [mode, name] :
       {std::pair{Mode::kCheap, "cheap"}, std::pair{Mode::kLayers, "layer"}, std::pair{Mode::kAll, "all"}}) {
    if (options.recompute.mode == mode || options.recompute.mode == Mode::kFit || options.recompute.mode == Mode::kAll)
      continue;
    if (const auto bytes = plan_bytes({mode, {}, 0}); bytes && *bytes < need)
      add(advice("recompute \"" + std::string(name) + "\"", *bytes, limit));
  }
  for (int64_t parts = 2; parts <= 64; parts *= 2) {
    const int64_t bytes = bytes_with_smaller_batch(exe, parts);
    if (bytes >= need || (bytes > limit && parts < 64)) continue;
    add(advice("a micro-batch of 1/" + std::to_string(parts), bytes, limit));
    break;
  }
  if (const int64_t moments = bytes_of(exe, BufferClass::kOptimizer); moments > 0)
    add(advice("optimizer states in half the bytes (bf16, or an optimizer with fewer)", need - moments / 2, limit));
  if (const int64_t states = bytes_of(exe, BufferClass::kWeights) + bytes_of(exe, BufferClass::kOptimizer);
      more.empty() && states > limit)
    add("nothing on one device like this, for weights and optimizer states alone take " + format_size(states));
  add("--device-memory of " + std::to_string(need) + " bytes or more");
  throw StepDoesNotFit(
      {.what = "the training step does not fit into device memory",
       .where = exe.mesh.p > 1 ? "device memory of stage " + std::to_string(exe.stage) : "device memory",
       .found = format_size(need) + " needed (" + breakdown(exe) + ")",
       .expected = "at most " + format_size(limit),
       .remedy = remedy},
      need, exe.stage);
}

}  // namespace ramet::program
