#include "ramet/train/plan.h"

#include <algorithm>
#include <cstdio>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/base/thread_team.h"
#include "ramet/kernel/devices.h"
#include "ramet/kernel/kernel.h"
#include "ramet/measure/probe.h"
#include "ramet/program/refuse.h"
#include "ramet/sim/machine_kernels.h"
#include "ramet/sim/shared_processors.h"
#include "ramet/train/facts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/row_window.h"
#include "ramet/train/step.h"
#include "ramet/transport/process.h"

namespace ramet::train {
namespace {

/// The settings of "auto p=4 t=1" as a layout, and their keys.
std::pair<Layout, std::set<std::string>> fixed_keys(const std::string& text) {
  std::string rest;
  std::set<std::string> keys;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty() || word == "auto") continue;
    keys.insert(word.substr(0, word.find('=')));
    rest += (rest.empty() ? "" : " ") + word;
  }
  return {parse_layout(rest), keys};
}

/// The largest share of a device's time, for the stage that waits least.
std::string limit_of(const Simulation& simulation) {
  const auto busiest = std::min_element(simulation.stages.begin(), simulation.stages.end(),
                                        [](const StageTime& a, const StageTime& b) { return a.waiting < b.waiting; });
  if (busiest == simulation.stages.end() || simulation.seconds <= 0) return "compute";
  const std::pair<double, const char*> parts[] = {{busiest->work.seconds, "compute"},
                                                  {busiest->exchanging, "exchange"},
                                                  {busiest->streaming, "streaming"},
                                                  {busiest->waiting, "bubble"}};
  const auto most = std::max_element(std::begin(parts), std::end(parts),
                                     [](const auto& a, const auto& b) { return a.first < b.first; });
  char text[48];
  std::snprintf(text, sizeof text, "%s %.0f%%", most->second, 100 * most->first / simulation.seconds);
  return text;
}

std::string fullest_of(const Executable& exe, size_t stages) {
  const auto live = exe.live_at(exe.peak_instant);
  const auto most = std::max_element(live.begin(), live.end()) - live.begin();
  return std::string(name_of(static_cast<BufferClass>(most))) + " " + format_size(live[static_cast<size_t>(most)]) +
         (stages > 1 ? " of stage " + std::to_string(exe.stage) : "");
}

}  // namespace

/// Models and steps by micro-batch: made when they are first needed.
struct WorkloadPlanner::Steps {
  struct Entry {
    TrainOptions options;
    std::optional<Model> model;
    std::map<std::pair<int64_t, int64_t>, StepGraph> decided;  ///< by lanes and chunks
  };
  BuildModel build;
  std::vector<Entry> entries;

  const Model& model(size_t batch) {
    Entry& entry = entries[batch];
    if (!entry.model) entry.model = apply_model_passes(build(entry.options), entry.options);
    return *entry.model;
  }
  StepGraph whole(size_t batch, const Layout& layout) {
    return make_training_step(model(batch), with_order_of_sums(entries[batch].options, layout));
  }
  const StepGraph& decided(size_t batch, const Layout& layout) {
    const TrainOptions ordered = with_order_of_sums(entries[batch].options, layout);
    auto& known = entries[batch].decided;
    const auto key = std::make_pair(ordered.lanes, ordered.chunks);
    const auto found = known.find(key);
    return found != known.end() ? found->second : known.emplace(key, decide_bits(whole(batch, layout))).first->second;
  }
};

WorkloadPlanner::~WorkloadPlanner() = default;
WorkloadPlanner::WorkloadPlanner(WorkloadPlanner&&) noexcept = default;

bool is_automatic_layout(const std::string& layout) {
  return layout == "auto" || layout.starts_with("auto ") || layout.ends_with(" auto") ||
         layout.find(" auto ") != layout.npos;
}

WorkloadPlanner::WorkloadPlanner(BuildModel build, std::shared_ptr<const Source> source, TrainOptions options,
                                 std::optional<Machine> machine, const std::string& layout, const Where& where,
                                 bool other_batches)
    : source_(std::move(source)),
      options_(std::move(options)),
      where_(where),
      local_(!machine),
      steps_(std::make_unique<Steps>()) {
  steps_->build = std::move(build);
  std::tie(space_.base, space_.fixed) = fixed_keys(layout);
  refuse_rows(space_.base, "--layout", "a search of layouts");
  const int processors = where.threads > 0 ? where.threads : available_processors();
  if (machine) {
    machine_ = std::move(*machine);
    device_memory_ = machine_.memory(MemoryRole::kDevice) ? machine_.memory(MemoryRole::kDevice)->bytes : 0;
    library_ = machine_kernels(machine_);
    space_.devices = machine_.devices;
    space_.streaming = machine_.memory(MemoryRole::kStreaming) != nullptr;
  } else {
    machine_ = probe_machine(find_device(where_.device).backend(), 1);
    machine_.processors = machine_.devices = space_.devices = processors;
    for (LinkLevel& level : machine_.links) level.group = processors;  // there is one: the memory
    if (processors == 1) machine_.links.clear();
    space_.streaming = true;
  }
  const int64_t asked = where.device_memory > 0 ? where.device_memory : space_.base.device_memory;
  if (asked > 0) device_memory_ = device_memory_ > 0 ? std::min(device_memory_, asked) : asked;
  if (local_) space_.base.device_memory = asked;
  space_.recomputes = options_.recompute != "none";
  steps_->entries.push_back({options_, std::nullopt, {}});
  space_.tied_head = has_tied_weights(model());
  find_batches(other_batches);
}

const Model& WorkloadPlanner::model() const { return steps_->model(0); }

const TrainOptions& WorkloadPlanner::options_of(const Candidate& candidate) const {
  return steps_->entries[static_cast<size_t>(candidate.batch)].options;
}

void WorkloadPlanner::find_batches(bool others) {
  const int64_t samples = options_.micro_batch * options_.accumulation;
  const auto add = [&](int64_t micro_batch) {
    TrainOptions other = options_;
    other.accumulation = samples / micro_batch;
    other.micro_batch = micro_batch;
    LayoutFacts facts = layout_facts(model(), other);
    facts.processors = facts.memory = 0;  // those of the machine that is planned for
    space_.batches.push_back({micro_batch, other.accumulation, facts});
    if (micro_batch != options_.micro_batch) steps_->entries.push_back({std::move(other), std::nullopt, {}});
  };
  add(options_.micro_batch);
  if (!others) return;
  for (int64_t micro = 1; micro <= samples; micro *= 2)
    if (micro != options_.micro_batch && samples % (micro * options_.lanes) == 0) add(micro);
}

CompileOptions WorkloadPlanner::compiling(const Layout& layout) const {
  Where where = where_;
  if (!local_) where.threads = 1, where.device_memory = device_memory_;
  CompileOptions result = compile_options(options_, layout, where, local_ ? layout.devices() : 1);
  result.advise = false;
  return result;
}

Outcome WorkloadPlanner::evaluate(const Candidate& candidate) {
  const auto batch = static_cast<size_t>(candidate.batch);
  const Layout layout = settled(space_, candidate);
  const CompileOptions how = compiling(layout);
  const KernelLibrary& library = library_ ? *library_ : find_device(where_.device).backend();
  Outcome outcome;
  try {
    std::vector<Executable> stages;
    if (layout.is_single())
      stages.push_back(compile(steps_->whole(batch, layout), library, how));
    else
      stages = compile_decided(steps_->decided(batch, layout), layout, library, how);
    return outcome_of(candidate, stages);
  } catch (const StepDoesNotFit& error) {
    outcome.bytes = error.needed();
    outcome.refused_stage = error.stage();
    outcome.refused = error.parts().found + " on " + error.parts().where;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kFailure) throw;
    outcome.refused = error.what();
  }
  return outcome;
}

Outcome WorkloadPlanner::outcome_of(const Candidate& candidate, const std::vector<Executable>& stages) {
  Outcome outcome;
  const Executable* fullest = &stages[0];
  for (const Executable& exe : stages) {
    outcome.stage_bytes.push_back(exe.planned_bytes());
    outcome.streaming_bytes = std::max(outcome.streaming_bytes, exe.streaming_bytes);
    if (exe.planned_bytes() > fullest->planned_bytes()) fullest = &exe;
  }
  outcome.bytes = fullest->planned_bytes();
  outcome.fullest = fullest_of(*fullest, stages.size());
  outcome.refused = too_much(candidate, outcome, stages);
  if (!outcome.refused.empty()) return outcome;
  const Layout& layout = candidate.layout;
  const SimulationOptions how{.streams_to_files = layout.streams_to_files()};
  const Simulation simulation =
      local_ ? simulate_sharing(stages, local_machine(stages, layout, false, real_batch_of(candidate)), how)
             : simulate(stages, machine_, how);
  outcome.fits = true;
  outcome.seconds = simulation.seconds;
  outcome.bubble = simulation.bubble;
  outcome.limit = limit_of(simulation);
  return outcome;
}

std::span<const TensorView> WorkloadPlanner::real_batch_of(const Candidate& candidate) {
  const int64_t samples = space_.batch_of(candidate).micro_batch;
  const auto [place, is_new] = real_batches_.try_emplace(samples);
  if (is_new) place->second = real_batch(source_.get(), samples);
  return place->second.views;
}

/// What devices share and would need more of than there is.
std::string WorkloadPlanner::too_much(const Candidate& candidate, const Outcome& outcome,
                                      std::span<const Executable> stages) const {
  const int devices = candidate.layout.devices();
  if (local_) {
    const int64_t all = (outcome.bytes + outcome.streaming_bytes) * devices, available = available_memory();
    return all <= available ? ""
                            : format_size(all) + " for " + std::to_string(devices) + " devices and what they stream; " +
                                  format_size(available) + " of memory are free here";
  }
  return lack_of_streaming(stages, machine_, candidate.layout.streams_to_files());
}

SearchResult WorkloadPlanner::search(const SearchOptions& options,
                                     const std::function<void(const SearchProgress&)>& progress,
                                     const std::function<bool()>& stop) {
  std::vector<ModelProfile> profiles;
  for (size_t batch = 0; batch < space_.batches.size(); ++batch)
    profiles.emplace_back(steps_->decided(batch, Layout{}), machine_);
  CostModel model(space_, std::move(profiles), machine_);
  SearchOptions how = options;
  how.device_memory = device_memory_ > 0 ? device_memory_ : available_memory();
  return search_layouts(
      space_, model, [&](const Candidate& candidate) { return evaluate(candidate); }, how, progress, stop);
}

}  // namespace ramet::train
