#include "ramet/program/compile.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "ramet/base/error.h"
#include "ramet/ir/text.h"
#include "ramet/layout/partition.h"
#include "ramet/machine/machine.h"
#include "ramet/program/block_operands.h"
#include "ramet/program/choose.h"
#include "ramet/program/join.h"
#include "ramet/program/keep_panels.h"
#include "ramet/program/liveness.h"
#include "ramet/program/match.h"
#include "ramet/program/order.h"
#include "ramet/program/pass_log.h"
#include "ramet/program/refuse.h"
#include "ramet/program/relieve.h"
#include "ramet/program/stage.h"
#include "ramet/program/steps.h"
#include "ramet/transform/attach_programs.h"
#include "ramet/transform/fold_messages.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/hoist.h"
#include "ramet/transform/inline_maps.h"
#include "ramet/transform/join_epilogues.h"
#include "ramet/transform/layer_inputs.h"
#include "ramet/transform/lower_states.h"
#include "ramet/transform/merge_maps.h"
#include "ramet/transform/pick_early.h"
#include "ramet/transform/simplify.h"
#include "ramet/transform/sum_in_place.h"

namespace ramet::program {
namespace {

/// Addresses of a program that streams, so that files may be read and written around the system's cache.
constexpr int32_t kStreamAlignment = 4096;

/// Instructions of a program in which equal code is stored once: layers that call the same ops on the same types in the
/// same order share one function, and each layer is a call of it. Attributes, as a layer's random stream, are
/// arguments.
int64_t outlined_instructions(const Executable& exe) {
  std::map<std::string, int32_t> kinds;
  std::vector<int32_t> kind_of_call;
  for (const Call& call : exe.calls)
    kind_of_call.push_back(kinds.emplace(call_key(call.node), static_cast<int32_t>(kinds.size())).first->second);
  std::set<std::vector<int32_t>> functions;
  int64_t count = 0;
  for (const Segment& segment : exe.segments) {
    const auto& all = segment.instructions;
    for (size_t from = 0, to = 0; from < all.size(); from = to) {
      std::vector<int32_t> calls;
      for (const Part& part = all[from].part; to < all.size() && all[to].part == part; ++to)
        calls.push_back(all[to].call < 0 ? -1 : kind_of_call[static_cast<size_t>(all[to].call)]);
      const auto length = static_cast<int64_t>(calls.size());
      count += functions.insert(std::move(calls)).second ? length : 1;
    }
  }
  return count;
}

/// Gives buffers the room that device memory needs for them, and the program its own.
void add_room(Executable& exe, const KernelChoices& kernels, const KernelLibrary& library) {
  std::vector<double> spread(exe.buffers.size(), 1);
  for (const Segment& segment : exe.segments)
    for (const Instruction& instruction : segment.instructions) {
      if (instruction.call < 0) continue;
      const double share = kernels.choices[static_cast<size_t>(instruction.call)].spread;
      for (BufferId id : instruction.outputs)
        spread[static_cast<size_t>(id)] = std::min(spread[static_cast<size_t>(id)], share);
    }
  for (size_t id = 0; id < exe.buffers.size(); ++id)
    exe.buffers[id].bytes = library.stored_bytes(exe.buffers[id].bytes, spread[id]);
  if (const int64_t bytes = library.program_bytes(exe.calls, outlined_instructions(exe)); bytes > 0)
    exe.buffers.push_back(
        {.name = "program", .kind = BufferClass::kScratch, .bytes = bytes, .first = 0, .last = exe.instants - 1});
}

/// Gradients go straight into their accumulators, which start every lane at zero.
void sum_in_place(Stage& stage) {
  std::set<std::string> sums;
  for (const LocalState& state : stage.states)
    if (state.tensor.kind == StateKind::kAccumulator) sums.insert(state.tensor.name);
  for (Piece& piece : stage.pieces)
    if (piece.kind != PieceKind::kUpdate)
      piece.graph =
          transform::sum_in_place(piece.graph, [&](const std::string& name) { return sums.count(name) != 0; });
}

/// Kernels compute what follows their results while these are in the caches, unless that would take a better kernel
/// away.
void join_epilogues(Stage& stage, const KernelLibrary& library, int threads) {
  const auto same_kernel = [&](const NodeSignature& bare, const NodeSignature& joined) {
    return library.choose(bare, threads).name == library.choose(joined, threads).name;
  };
  for (Piece& piece : stage.pieces) piece.graph = transform::join_epilogues(piece.graph, same_kernel);
}

/// Activations between sparse products stay in panels.
void keep_panels(Stage& stage, const KernelLibrary& library) {
  for (Piece& piece : stage.pieces) piece.graph = program::keep_panels(piece.graph, library);
}

/// Merged maps are faster on processors; elsewhere nobody has measured them.
bool merges_maps(const KernelLibrary& library) { return library.kernel_class().starts_with("cpu-"); }

void merge_maps(Stage& stage) {
  for (Piece& piece : stage.pieces) piece.graph = transform::inline_maps(transform::merge_maps(piece.graph));
}

void fold_messages(Stage& stage) {
  for (Piece& piece : stage.pieces) piece.graph = transform::fold_messages(piece.graph);
}

std::vector<std::string> weights_of(const Stage& stage) {
  std::vector<std::string> names;
  for (const LocalState& state : stage.states)
    if (state.tensor.kind == StateKind::kWeight && !state.tensor.low_half) names.push_back(state.tensor.name);
  return names;
}

std::set<std::string> first_of(const std::vector<std::string>& names, int64_t count) {
  return {names.begin(), names.begin() + std::min<int64_t>(count, std::ssize(names))};
}

void relieve_peaks(const Stage& stage, const KernelChoices& kernels, std::vector<NodeOrder>& orders) {
  for (size_t piece = 0; piece < orders.size(); ++piece) {
    const auto kernel_of = [&](NodeId id) -> const KernelChoice& {
      return kernels.choices[static_cast<size_t>(kernels.call_of_node[piece][static_cast<size_t>(id)])];
    };
    orders[piece] = relieve_peak(stage.pieces[piece].graph, std::move(orders[piece]), kernel_of);
  }
}

/// From a stage that will not change any more to a program without addresses.
Executable lower(Stage stage, const KernelLibrary& library, const CompileOptions& options, PassLog& log) {
  stage.ahead = options.ahead;
  const std::vector<std::string> weights = weights_of(stage);
  log.run("remake", [&] { return remake_derived(stage, first_of(weights, options.copies.remade)), 0; });
  log.run("sum in place", [&] { return sum_in_place(stage), 0; });
  // Before operands are blocked for the kernels, which depend on the epilogue.
  log.run("epilogues", [&] { return join_epilogues(stage, library, options.threads), 0; });
  // In front of the merging of maps, which would put sums and values that are read in rows into one node.
  log.run("panels", [&] { return keep_panels(stage, library), 0; });
  // Behind the sums in place, whose nodes it would hide; in front of all that counts tensors.
  if (merges_maps(library)) {
    log.run("merge maps", [&] { return merge_maps(stage), 0; });
    log.run("fold messages", [&] { return fold_messages(stage), 0; });
    log.show("fold messages", [&] {
      std::string text;
      for (const Piece& piece : stage.pieces) text += print(piece.graph);
      return text;
    });
  }
  log.run("block", [&] { return block_operands(stage, library, first_of(weights, options.copies.unblocked)), 0; });
  if (stage.phased) split_prepare(stage);
#ifdef RAMET_VERIFY
  for (const Piece& piece : stage.pieces) verify(piece.graph, "block");
#endif
  std::vector<NodeOrder> orders = log.run("order", [&] {
    std::vector<NodeOrder> all;
    for (const Piece& piece : stage.pieces) all.push_back(find_order(piece.graph));
    return all;
  });
  const KernelChoices kernels =
      log.run("choose", [&] { return choose_kernels(stage.pieces, library, options.threads); });
  log.run("relieve", [&] { return relieve_peaks(stage, kernels, orders), 0; });
  Executable exe = log.run("liveness", [&] {
    Timeline timeline = make_timeline(stage);
    Stays stays = find_stays(stage, timeline);
    Executable made = assign_buffers(stage, timeline, stays, orders, kernels);
    make_programs(made, stage, timeline, stays);
    add_room(made, kernels, library);
    return made;
  });
  exe.threads = options.threads;
  exe.kernel_class = library.kernel_class();
  if (!exe.streaming.empty())
    for (auto* buffers : {&exe.buffers, &exe.streaming})
      for (Buffer& buffer : *buffers) buffer.alignment = kStreamAlignment;
  return exe;
}

std::vector<PlaceItem> items_of(const std::vector<Buffer>& buffers) {
  std::vector<PlaceItem> items;
  items.reserve(buffers.size());
  for (const Buffer& buffer : buffers) items.push_back({buffer.total(), buffer.first, buffer.last});
  return items;
}

/// Placements found before: the stages of a pipeline are often alike.
using KnownPlacements = std::vector<std::pair<std::vector<PlaceItem>, Placement>>;

Placement place_once(std::vector<PlaceItem> items, const PlaceOptions& options, KnownPlacements* known) {
  if (!known) return place(items, options);
  for (const auto& [same, placement] : *known)
    if (same == items) return placement;
  Placement placement = place(items, options);
  known->emplace_back(std::move(items), placement);
  return placement;
}

/// Gives addresses to the buffers of one memory, and returns its height. Buffers that live for the whole timeline lie
/// at the bottom, in order; the others are placed above them.
int64_t place_memory(std::vector<Buffer>& buffers, int32_t instants, const PlaceOptions& options,
                     KnownPlacements* known, std::string* method) {
  const std::vector<PlaceItem> items = items_of(buffers);
  std::vector<PlaceItem> moving;
  std::vector<size_t> moving_id;
  int64_t base = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].first > 0 || items[i].last < instants - 1) {
      moving.push_back(items[i]);
      moving_id.push_back(i);
      continue;
    }
    buffers[i].offset = base;
    base += (items[i].bytes + options.alignment - 1) & -options.alignment;
  }
  const Placement placement = place_once(std::move(moving), options, known);
  for (size_t i = 0; i < moving_id.size(); ++i) buffers[moving_id[i]].offset = base + placement.offsets[i];
  if (method) *method = placement.method;
  return base + placement.height;
}

int64_t alignment_of(const Executable& exe, const PlaceOptions& options) {
  return exe.streaming.empty() ? options.alignment : std::max<int64_t>(options.alignment, kStreamAlignment);
}

/// Gives every buffer its address.
void place_buffers(Executable& exe, PlaceOptions options, KnownPlacements* known = nullptr) {
  options.alignment = alignment_of(exe, options);
  exe.bound_bytes = live_bound(items_of(exe.buffers), options.alignment, &exe.peak_instant);
  exe.arena_bytes = place_memory(exe.buffers, exe.instants, options, known, &exe.placement);
  exe.streaming_bytes = place_memory(exe.streaming, exe.instants, options, known, nullptr);
}

/// A program of one stage with as much of what buys speed with memory as device memory allows: blocked copies of
/// weights, double buffers of what streams, scratch, casts of weights once an update. No bit depends on any of it.
class StageFit {
 public:
  StageFit(const Stage& stage, const KernelLibrary& library, const CompileOptions& options, PassLog& log,
           KnownPlacements* known)
      : stage_(stage), library_(library), options_(options), how_(options), log_(log), known_(known) {}

  /// The fastest program that fits; where none does, the smallest.
  Executable run() {
    best_ = build(library_);
    give_up(&WeightCopies::unblocked);
    if (!fits(best_) && how_.ahead && !best_.streaming.empty()) {
      how_.ahead = false;
      take(build(library_));
    }
    for (auto tight = library_.tighter(); tight && !fits(best_); tight = tight->tighter()) take(build(*tight));
    give_up(&WeightCopies::remade);
    return std::move(best_);
  }

  bool fits(const Executable& exe) const {
    return options_.device_memory == 0 || exe.arena_bytes <= options_.device_memory;
  }

 private:
  Executable build(const KernelLibrary& kernels) {
    Executable exe = lower(stage_, kernels, how_, log_);
    log_.run("place", [&] { return place_buffers(exe, how_.place, known_), 0; });
    exe.given_up = given_up(kernels);
    return exe;
  }

  /// What a program that is built so has less of than the caller asked for.
  std::string given_up(const KernelLibrary& kernels) const {
    std::string text;
    const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
    const auto add_copies = [&](int64_t WeightCopies::* copies, const std::string& name) {
      if (const int64_t count = how_.copies.*copies; count > options_.copies.*copies)
        add(name + " of " + std::to_string(count) + " of " + std::to_string(weights_) + " weights");
    };
    add_copies(&WeightCopies::unblocked, "blocked copies");
    if (how_.ahead != options_.ahead) add("double buffers");
    if (&kernels != &library_) add("scratch");
    add_copies(&WeightCopies::remade, "casts ahead of use");
    return text;
  }

  void take(Executable exe) {
    if (exe.arena_bytes < best_.arena_bytes) best_ = std::move(exe);
  }

  /// Gives up the copies of the fewest weights, in eighths of all, that let the program fit; else of all.
  void give_up(int64_t WeightCopies::* copies) {
    int64_t& count = how_.copies.*copies;
    if (fits(best_) || count >= weights_) return;
    const int64_t before = best_.arena_bytes, first = count;
    const auto at = [&](int64_t eighth) { return first + ((weights_ - first) * eighth + 7) / 8; };
    int64_t little = 0, enough = 8;
    count = weights_;
    Executable smaller = build(library_);
    if (!fits(smaller)) little = 7;  // what does not fit with none does not with a few
    while (enough - little > 1) {
      const int64_t middle = (little + enough) / 2;
      count = at(middle);
      Executable exe = build(library_);
      if (fits(exe))
        enough = middle, smaller = std::move(exe);
      else
        little = middle;
    }
    count = at(enough);
    take(std::move(smaller));
    if (best_.arena_bytes == before) count = first;
  }

  const Stage& stage_;
  const KernelLibrary& library_;
  const CompileOptions& options_;
  CompileOptions how_;
  PassLog& log_;
  KnownPlacements* known_;
  const int64_t weights_ = std::ssize(weights_of(stage_));
  Executable best_;
};

/// A program that is to be as near to a size as it can be computes activations again for at most this share of the time
/// that a step's forward and backward pass takes: layers that are computed again whole cost up to a third of it.
constexpr double kTimeForLeast = 1.0 / 12;

double time_share(const CompileOptions& options) {
  return options.least ? kTimeForLeast : std::numeric_limits<double>::infinity();
}

/// How candidates of mode kFit are compiled, whose peaks are asked for.
CompileOptions for_candidates(CompileOptions options) {
  if (options.copies_first) options.copies = {.unblocked = kAllWeights, .remade = kAllWeights};
  return options;
}

/// All passes after which no bit of a result changes any more.
StepGraph decide_bits(StepGraph step, PassLog& log) {
  step = log.step("simplify", [&] { return simplify(std::move(step)); });
  // Casts of weights once an update, not once a micro-batch.
  step = log.step("hoist", [&] { return hoist(std::move(step)); });
  // Before recompute: what a map rounds and what it keeps in f32 is the recipe's, not the layout's.
  step = log.step("fuse", [&] { return fuse(std::move(step)); });
  step = log.step("simplify", [&] { return simplify(std::move(step)); });
  // Behind fuse, which decides what is rounded; before partitioning, which sees smaller products.
  step = log.step("pick early", [&] { return pick_early(std::move(step)); });
  return log.step("attach programs", [&] { return attach_programs(std::move(step)); });
}

}  // namespace

Executable compile(StepGraph step, const KernelLibrary& library, const CompileOptions& options) {
  PassLog log;
  const Hash key = log.run("key", [&] { return compile_key(step, library, options); });
  const bool joined = step.micro_batches() == 1;
  check_roles(step);
  step = log.step("states", [&] { return lower_states(std::move(step)); });

  // The step's computation, simplified. `join` runs first, so that later passes see gradients go straight to their
  // updates.
  step = log.step("join", [&] { return join(std::move(step)); });
  step = decide_bits(std::move(step), log);
  // The bytes that a candidate of recomputation would need; everything is compiled but the addresses.
  const CompileOptions of_candidate = for_candidates(options);
  const auto peak_bytes = [&](const StepGraph& candidate) {
    PassLog quiet;
    return live_bound(items_of(lower(single_stage(candidate), library, of_candidate, quiet).buffers),
                      options.place.alignment);
  };
  const StepGraph whole = options.device_memory > 0 ? step : StepGraph{};
  std::string chosen;
  // After all passes that merge equal nodes: the copies made here must stay.
  step = log.step("recompute", [&] {
    if (options.recompute.mode != RecomputeOptions::Mode::kNone) step.micro = with_late_inputs(step.micro);
    const ActivationChoices choices =
        choose_activations(step, options.recompute, options.rates, peak_bytes, time_share(options));
    if (options.recompute.mode == RecomputeOptions::Mode::kFit) chosen = text_of(choices);
    return recompute(step, choices);
  });

  const Stage stage = single_stage(std::move(step));
  StageFit fit(stage, library, options, log, nullptr);
  Executable exe = fit.run();
  exe.key = key;
  exe.joined = joined;
  exe.activations = chosen;
#ifdef RAMET_VERIFY
  verify(exe, "compile");
#endif
  if (!fit.fits(exe) && !options.least)
    refuse_memory(exe, options, [&](const RecomputeOptions& other) -> std::optional<int64_t> {
      if (!options.advise) return std::nullopt;
      PassLog quiet;
      CompileOptions plain = options;
      plain.copies.unblocked = kAllWeights;
      const Executable most_saved =
          lower(single_stage(recompute(unhoist(whole), other, peak_bytes)), library, plain, quiet);
      return live_bound(items_of(most_saved.buffers), options.place.alignment);
    });
  exe.pass_seconds = log.take_seconds();
  return exe;
}

namespace {

/// The bytes that each stage needs.
std::vector<int64_t> stage_peaks(const DeviceGraphs& graphs, const KernelLibrary& library,
                                 const CompileOptions& options) {
  std::vector<int64_t> peaks;
  for (Stage& stage : stages_of(graphs)) {
    PassLog quiet;
    const Executable exe = lower(std::move(stage), library, options, quiet);
    peaks.push_back(live_bound(items_of(exe.buffers), alignment_of(exe, options.place)));
  }
  return peaks;
}

/// A step with its activations' choices, and the layout that it is to be cut by.
struct SettledStep {
  StepGraph step;
  Layout layout;
  ActivationChoices activations;  ///< empty: the layout alone says what is streamed
  DeviceGraphs cut() const { return partition(step, layout, activations); }
};

/// Chooses which activations are recomputed and which are streamed. Mode kFit chooses for each stage; layers stay on
/// the stages where they are without it.
SettledStep settle_step(const StepGraph& step, const Layout& layout, const KernelLibrary& library,
                        const CompileOptions& options) {
  const size_t layers = count_layers(step.micro);
  if (options.recompute.mode != RecomputeOptions::Mode::kFit)
    return {recompute(step, choose_activations(options.recompute, layers)), layout, {}};
  const DeviceGraphs whole = partition(step, layout);
  Layout fixed = layout;
  FitProblem problem{.stage_of = std::vector<int>(layers + 1, 0), .peaks = {}};
  if (!whole.part_of_layer.empty()) {
    fixed.layers.assign(static_cast<size_t>(layout.layer_parts()), 0);
    for (size_t i = 0; i < layers; ++i) {
      const auto part = static_cast<size_t>(whole.part_of_layer[i]);
      ++fixed.layers[part];
      problem.stage_of[i] = whole.stage_of_part[part];
    }
    problem.stage_of.back() = whole.stage_of_part.back();
  }
  problem.byte_limit = options.recompute.byte_limit;
  problem.may_stream = layout.offload.activations;
  problem.in_parts = options.recompute.in_parts;
  problem.to_files = layout.streams_to_files();
  problem.rates = options.rates;
  problem.time_share = time_share(options);
  const CompileOptions of_candidate = for_candidates(options);
  problem.peaks = [&](const StepGraph& candidate, const ActivationChoices& choices) {
    return stage_peaks(partition(candidate, fixed, choices), library, of_candidate);
  };
  ActivationChoices choices = fit_activations(step, problem);
  StepGraph recomputed = recompute(step, choices);
  return {std::move(recomputed), std::move(fixed), std::move(choices)};
}

/// Changes of a layout, each beside those before it, that bring the step below the bytes that it needs, until it fits;
/// of phases the fewest that do. `step` is not recomputed yet.
std::vector<Advice> smaller_layouts(const StepGraph& step, Layout layout, int64_t needed, const KernelLibrary& library,
                                    CompileOptions options) {
  using Mode = RecomputeOptions::Mode;
  std::vector<Advice> result;
  std::vector<std::pair<std::string, std::string>> changes;
  options.copies.unblocked = kAllWeights;
  options.ahead = false;
  const auto fits = [&] { return !result.empty() && result.back().bytes <= options.device_memory; };
  const auto consider = [&](const std::string& key, const std::string& value) {
    if (fits()) return;
    try {
      const Layout changed = change_layout(layout, {.key = key, .value = value, .where = key});
      CompileOptions how = options;
      if (changed.recompute) how.recompute = *changed.recompute;
      how.recompute.in_parts = changed.layer_parts() > 1;
      // Nearly the least memory that a choice to fit can reach.
      if (how.recompute.mode == Mode::kFit) how.recompute.mode = Mode::kLayers;
      const auto peaks = stage_peaks(settle_step(step, changed, library, how).cut(), library, how);
      const int64_t bytes = *std::max_element(peaks.begin(), peaks.end());
      if (bytes >= (result.empty() ? needed : result.back().bytes)) return;
      if (!changes.empty() && changes.back().first == key) changes.pop_back(), result.pop_back();
      changes.emplace_back(key, value);
      std::string text;
      for (const auto& [name, to] : changes) text += (text.empty() ? "" : " ") + name + "=" + to;
      result.push_back({text, bytes});
      layout = changed;
      options = how;
    } catch (const Error&) {  // the model cannot be cut so
    }
  };
  if (const Mode mode = options.recompute.mode; mode == Mode::kNone || mode == Mode::kCheap)
    consider("recompute", "layer");
  if (layout.r > 1) consider("rts", "weights,grads,optimizer");
  consider("offload", "weights,grads,optimizer,activations");
  const bool phases = layout.schedule == PipelineSchedule::kGpipe || layout.schedule == PipelineSchedule::kOneFOneB;
  for (int more = std::max(4, 2 * layout.phases); phases && more <= 256; more *= 2)
    consider("phases", std::to_string(more));
  return result;
}

std::vector<Executable> compile_stages(const DeviceGraphs& graphs, const KernelLibrary& library,
                                       const CompileOptions& options,
                                       const std::function<std::vector<Advice>(int64_t needed)>& advise) {
  std::vector<Executable> executables;
  KnownPlacements known;
  for (const Stage& stage : stages_of(graphs)) {
    PassLog log;
    StageFit fit(stage, library, options, log, &known);
    Executable exe = fit.run();
    if (!fit.fits(exe) && !options.least)
      refuse_memory(exe, options, [](const RecomputeOptions&) { return std::nullopt; }, advise(exe.planned_bytes()));
    exe.pass_seconds = log.take_seconds();
    executables.push_back(std::move(exe));
  }
  verify_guards(executables);
  number_supersteps(executables);
  verify_match(executables);
#ifdef RAMET_VERIFY
  for (const Executable& exe : executables) verify(exe, "compile, stage " + std::to_string(exe.stage));
#endif
  return executables;
}

}  // namespace

std::vector<Executable> compile_layout(const DeviceGraphs& graphs, const KernelLibrary& library,
                                       const CompileOptions& options) {
  return compile_stages(graphs, library, options, [](int64_t) { return std::vector<Advice>(); });
}

StepGraph decide_bits(StepGraph step) {
  PassLog log;
  check_roles(step);
  step = log.step("states", [&] { return lower_states(std::move(step)); });
  return decide_bits(std::move(step), log);
}

std::vector<Executable> compile(StepGraph step, const Layout& layout, const KernelLibrary& library,
                                const CompileOptions& options) {
  return compile_decided(decide_bits(std::move(step)), layout, library, options);
}

std::vector<Executable> compile_decided(StepGraph step, const Layout& layout, const KernelLibrary& library,
                                        const CompileOptions& given) {
  PassLog log;
  CompileOptions options = given;
  options.recompute.in_parts = layout.layer_parts() > 1;
  const StepGraph whole = options.device_memory > 0 && options.advise ? step : StepGraph{};
  SettledStep planned;
  log.run("recompute", [&] { return planned = settle_step(step, layout, library, options), 0; });
  const DeviceGraphs graphs = log.run("partition", [&] { return planned.cut(); });
  log.show("partition", [&] { return print(graphs); });
  std::vector<Executable> stages = compile_stages(graphs, library, options, [&](int64_t needed) {
    return options.advise ? smaller_layouts(whole, layout, needed, library, options) : std::vector<Advice>();
  });
  for (Executable& stage : stages) stage.activations = text_of(planned.activations);
  return stages;
}

Hash compile_key(const StepGraph& step, const KernelLibrary& library, const CompileOptions& options) {
  Hasher hasher;
  const auto add = [&](const std::string& name, const std::string& value) { hasher.update(name + "=" + value + "\n"); };
  add("version", std::to_string(Executable::kVersion));
  add("kernels", library.kernel_class());
  if (const char* forced = std::getenv("RAMET_KERNELS")) add("forced", forced);
  add("threads", std::to_string(options.threads));
  add("device_memory", std::to_string(options.device_memory));
  add("recompute",
      std::to_string(static_cast<int>(options.recompute.mode)) + " " + std::to_string(options.recompute.byte_limit));
  if (options.recompute.mode == RecomputeOptions::Mode::kFit)
    add("rates", std::to_string(options.rates.flops) + " " + std::to_string(options.rates.bandwidth) + " " +
                     std::to_string(options.rates.files));
  for (int64_t layer : options.recompute.layers) add("layer", std::to_string(layer));
  add("copies", std::to_string(options.copies.unblocked) + " " + std::to_string(options.copies.remade));
  add("ahead", options.ahead ? "1" : "0");
  if (merges_maps(library)) add("maps", "merged");
  if (options.least || options.copies_first)
    add("smaller", std::string(options.least ? "least" : "") + (options.copies_first ? " copies first" : ""));
  add("place", std::to_string(options.place.alignment) + " " + std::to_string(options.place.search_work) + " " +
                   std::to_string(options.place.tolerance));
  // With names, which executables contain; without the places in the model's source, which they do not.
  hasher.update(print(step, PrintedText::kKey));
  return hasher.digest();
}

}  // namespace ramet::program
