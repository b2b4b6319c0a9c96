#include "ramet/train/row_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "ramet/base/error.h"
#include "ramet/base/file.h"
#include "ramet/train/groups.h"
#include "ramet/train/optimizers/optimizer.h"

namespace ramet::train {
namespace {

/// The tensors of a source that number rows: by table, places in its signature.
using RowPlaces = std::vector<std::vector<size_t>>;

class WindowSource final : public RowSource {
 public:
  WindowSource(std::shared_ptr<const Source> source, RowPlaces places, int64_t step_samples)
      : source_(std::move(source)), places_(std::move(places)), step_samples_(step_samples) {
    const Signature types = signature(step_samples_);
    for (const std::vector<size_t>& table : places_) {
      int64_t& most = most_rows_.emplace_back();
      for (const size_t tensor : table) most += types[tensor].second.elements();
    }
  }

  Signature signature(int64_t count) const override { return source_->signature(count); }
  int64_t epoch_of(int64_t index) const override { return source_->epoch_of(index); }
  int64_t epoch_samples(int64_t epoch) const override { return source_->epoch_samples(epoch); }
  Hash identity() const override { return source_->identity(); }
  std::string text_of(int64_t index) const override { return source_->text_of(index); }
  int64_t host_bytes() const override {
    int64_t rows = 0;
    for (const int64_t most : most_rows_) rows += most;
    return source_->host_bytes() + static_cast<int64_t>(kKept * sizeof(int32_t)) * rows;
  }

  void fill(int64_t first, int64_t count, const Places& places) const override {
    source_->fill(first, count, places);
    const Signature types = signature(count);
    for (int64_t begin = first; begin < first + count;) {
      const int64_t step = begin / step_samples_, end = std::min(first + count, (step + 1) * step_samples_);
      const bool whole = begin == step * step_samples_ && end - begin == step_samples_ && count == step_samples_;
      const std::shared_ptr<const RowsOfStep> rows = known_rows(step, whole ? &places : nullptr);
      for (size_t table = 0; table < places_.size(); ++table)
        for (const size_t tensor : places_[table]) {
          const int64_t each = types[tensor].second.elements() / count;
          auto* const numbers = reinterpret_cast<int32_t*>(places.tensors[tensor]) + (begin - first) * each;
          renumber((*rows)[table], {numbers, static_cast<size_t>((end - begin) * each)});
        }
      begin = end;
    }
  }

  RowsOfStep rows_of(int64_t step) const override { return *known_rows(step, nullptr); }

 private:
  static constexpr size_t kKept = 32;  // steps whose rows are kept: more than batches are made ahead

  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const RowsOfStep> rows;
  };

  static void renumber(const std::vector<int32_t>& rows, std::span<int32_t> numbers) {
    for (int32_t& number : numbers)
      number = static_cast<int32_t>(std::lower_bound(rows.begin(), rows.end(), number) - rows.begin());
  }

  /// `filled`: the samples of the step, where they are at hand.
  std::shared_ptr<const RowsOfStep> known_rows(int64_t step, const Places* filled) const {
    const std::shared_ptr<Entry> entry = entry_of(step);
    const std::lock_guard lock(entry->mutex);
    if (entry->rows) return entry->rows;
    if (filled) return entry->rows = std::make_shared<const RowsOfStep>(find_rows(*filled));
    BatchMemory memory(signature(step_samples_));
    const Places places{.tensors = memory.tensors()};
    source_->fill(step * step_samples_, step_samples_, places);
    return entry->rows = std::make_shared<const RowsOfStep>(find_rows(places));
  }

  std::shared_ptr<Entry> entry_of(int64_t step) const {
    const std::lock_guard lock(mutex_);
    if (const auto known = entries_.find(step); known != entries_.end()) return known->second;
    // The farthest one is of a run that goes on elsewhere, or of the past.
    if (entries_.size() >= kKept)
      entries_.erase(step - entries_.begin()->first > std::prev(entries_.end())->first - step
                         ? entries_.begin()
                         : std::prev(entries_.end()));
    return entries_[step] = std::make_shared<Entry>();
  }

  RowsOfStep find_rows(const Places& places) const {
    const Signature types = signature(step_samples_);
    RowsOfStep rows(places_.size());
    for (size_t table = 0; table < places_.size(); ++table) {
      std::vector<int32_t>& found = rows[table];
      found.reserve(static_cast<size_t>(most_rows_[table]));
      for (const size_t tensor : places_[table]) {
        const auto* const numbers = reinterpret_cast<const int32_t*>(places.tensors[tensor]);
        found.insert(found.end(), numbers, numbers + types[tensor].second.elements());
      }
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
    }
    return rows;
  }

  const std::shared_ptr<const Source> source_;
  const RowPlaces places_;
  const int64_t step_samples_;
  std::vector<int64_t> most_rows_;  ///< of a step, by table
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::shared_ptr<Entry>> entries_;
};

const StateTensor* find_weight(const Model& model, const std::string& name) {
  for (const StateTensor& weight : model.weights)
    if (weight.name == name) return &weight;
  return nullptr;
}

bool reads(const Graph& graph, const std::string& state) { return graph.find_input(state) != kNoValue; }

/// Whether each reader of the state takes rows of it by index, and nothing else.
bool read_by_rows(const Graph& graph, const std::string& state) {
  const ValueId value = graph.find_input(state);
  for (const GraphOutput& output : graph.outputs())
    if (output.value == value) return false;
  for (const Node& node : graph.nodes())
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == value && !(i == 0 && node.op->picks_rows)) return false;
  return true;
}

/// The graph with another number of rows of some states.
Graph with_rows(const Graph& from, const std::map<std::string, TensorType>& types) {
  Graph graph(from.name());
  GraphCopier copier(from, graph);
  for (const GraphInput& input : from.inputs()) {
    const auto type = types.find(from.value(input.value).name);
    if (type == types.end())
      copier.copy_input(input);
    else
      copier.map(input.value, graph.add_input(type->first, type->second, input.role));
  }
  for (NodeId id = 0; id < static_cast<NodeId>(from.nodes().size()); ++id) copier.copy_node(id);
  copier.copy_outputs();
  return graph;
}

/// The state with `rows` rows, none of which is padding.
StateTensor with_rows(StateTensor state, int64_t rows) {
  std::vector<int64_t> dims = state.type.shape.dims();
  dims[0] = rows;
  state.type.shape = Shape(std::move(dims));
  if (!state.axes.empty()) state.axes[0].padding = 0;
  return state;
}

/// Collects what is in the way.
class WindowMaker {
 public:
  WindowMaker(const Workload& workload, const TrainOptions& options, const Layout& layout, std::string where, int ranks)
      : workload_(workload), options_(options), layout_(layout), where_(std::move(where)) {
    if (ranks > 1) problem("several processes (one, with any number of devices, can)");
  }

  RowWindow make() {
    if (workload_.evaluator) programs_ = workload_.evaluator->programs_by_rows();
    check_options();
    check_data();
    for (const RowInputs& rows : workload_.rows) take(rows);
    if (window_.tables.empty() && problems_.empty()) problem(no_table());
    if (!problems_.empty())
      throw Error({.what = "the rows of tables cannot live in streaming memory here (offload=rows)",
                   .where = where_,
                   .found = problems_,
                   .remedy = "Change these, or leave rows out of offload"});
    make_model();
    if (workload_.train)
      window_.source =
          std::make_shared<const WindowSource>(workload_.train, places_, options_.micro_batch * options_.accumulation);
    return std::move(window_);
  }

 private:
  void problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }

  std::string no_table() const {
    if (workload_.rows.empty())
      return "the model has no table of which a step is known to read some rows alone (recipes of embeddings of a "
             "knowledge graph "
             "have one, without model.knowledge.shards and with a loss of negatives)";
    return "a step may read as many rows as the table has: it gains nothing";
  }

  /// Numbers that depend on where a row lies in its table, or on rows without a gradient.
  void check_options() {
    if (options_.weights != "f32" || options_.accumulators != "f32")
      problem("weights or sums that are held in fewer bits (train.weights and train.accumulators must be f32)");
    if (options_.scaling != "none") problem("train.scaling, which goes by the size of a table");
    if (options_.loss_scale.automatic) problem("an automatic loss scale, which counts the zeros of all gradients");
  }

  void check_data() {
    if (workload_.train && (!workload_.train->repeatable() || workload_.train->by_step()))
      problem("training data that gives each sample once: the rows of the next step are not known");
    if (workload_.evaluator ? programs_.empty() : workload_.held_out != nullptr)
      problem("an evaluation that reads whole tables");
  }

  void check_optimizer(const StateTensor& weight) {
    if (is_frozen(options_, weight)) return;
    const int group = group_of(options_, weight);
    const OptimizerOptions own = group_optimizer(options_, group);
    const OptimizerDef& optimizer = find_optimizer(own.kind);
    if (!optimizer.keeps_untouched || !optimizer.keeps_untouched(own))
      problem(
          fmt::format("optimizer {}, which changes rows without a gradient (adagrad, and sgd with "
                      "train.optimizer.momentum of 0, do not)",
                      own.kind));
    if (weight_decay_of(options_, group, weight) != 0)
      problem(
          fmt::format("a decay of '{}', which changes rows without a gradient (train.optimizer.weight_decay must "
                      "be 0)",
                      weight.name));
  }

  /// A table, where something is gained by it. A weight that the evaluator's programs read stays whole.
  void take(const RowInputs& rows) {
    const StateTensor* const weight = find_weight(workload_.model, rows.weight);
    if (!weight || !workload_.train) return;
    for (const NamedGraph& program : programs_)
      if (reads(program.graph, rows.weight)) return;
    const Signature signature = workload_.train->signature(options_.micro_batch);
    std::vector<size_t> places;
    int64_t most = 0;
    for (size_t i = 0; i < signature.size(); ++i) {
      const auto& [name, type] = signature[i];
      if (std::find(rows.inputs.begin(), rows.inputs.end(), name) == rows.inputs.end()) continue;
      if (type.dtype != DType::kI32) return problem("numbers of rows that are not i32 ('" + name + "')");
      places.push_back(i);
      most += type.elements() * options_.accumulation;
    }
    const int64_t shards = int64_t{layout_.t1} * layout_.t2;
    const int64_t window = (most + shards - 1) / shards * shards;
    if (window >= weight->type.shape[0]) return;
    if (!read_by_rows(workload_.model.forward, rows.weight))
      return problem("'" + rows.weight + "', which the model reads otherwise than by rows");
    check_optimizer(*weight);
    places_.push_back(std::move(places));
    RowTable& table = window_.tables.emplace_back();
    const auto add = [&](StateTensor whole) {
      StateTensor some = with_rows(whole, window);
      table.states.push_back({std::move(whole), std::move(some)});
    };
    add(*weight);
    if (is_frozen(options_, *weight)) return;
    const OptimizerOptions own = group_optimizer(options_, group_of(options_, *weight));
    for (const OptimizerState& state : find_optimizer(own.kind).states)
      if (!state.kept || state.kept(own, *weight))
        add({.name = "optimizer." + state.name + "." + weight->name,
             .type = weight->type,
             .kind = StateKind::kOptimizer,
             .init = {},
             .group = weight->group,
             .axes = weight->axes,
             .of = weight->name});
  }

  void make_model() {
    std::map<std::string, TensorType> types;
    for (const RowTable& table : window_.tables) types[table.states[0].whole.name] = table.states[0].window.type;
    Model& model = window_.model = workload_.model;
    model.forward = with_rows(workload_.model.forward, types);
    model.evaluate = Graph("evaluate");
    model.programs = programs_;
    for (StateTensor& weight : model.weights)
      if (types.contains(weight.name)) weight = with_rows(weight, types.at(weight.name).shape[0]);
  }

  const Workload& workload_;
  const TrainOptions& options_;
  const Layout& layout_;
  const std::string where_;
  std::vector<NamedGraph> programs_;
  std::string problems_;
  RowPlaces places_;
  RowWindow window_;
};

}  // namespace

std::string RowWindow::text(const Layout& layout) const {
  std::string text;
  for (const RowTable& table : tables) {
    const StateTensor& weight = table.states[0].whole;
    text += fmt::format(
        "rows of '{}': {} live in {} ({} with the optimizer's states); a device has the {} that a step may "
        "read, at most {} each way a step\n",
        weight.name, table.rows(), layout.streams_to_files() ? "files" : "RAM",
        format_size(RowTables::streaming_bytes({table}, layout.streams_to_files())), table.window(),
        format_size(RowTables::step_bytes({table}, layout.streams_to_files())));
  }
  if (!text.empty()) text.pop_back();
  return text;
}

int64_t RowWindow::host_bytes(const Layout& layout) const {
  const bool files = layout.streams_to_files();
  return RowTables::staging_bytes(tables, files) + (files ? 0 : RowTables::streaming_bytes(tables, files));
}

RowWindow make_row_window(const Workload& workload, const TrainOptions& options, const Layout& layout,
                          const std::string& where, int ranks) {
  return WindowMaker(workload, options, layout, where, ranks).make();
}

void take_whole_states(const std::vector<RowTable>& tables, std::vector<StateTensor>& states) {
  for (const RowTable& table : tables)
    for (StateTensor& state : states) {
      if (state.weight() != table.states[0].whole.name) continue;
      const auto known = std::find_if(table.states.begin(), table.states.end(),
                                      [&](const RowTable::State& each) { return each.whole.name == state.name; });
      if (known == table.states.end() || known->window.type != state.type)
        internal_error("take_whole_states", "'" + state.name + "' " + state.type.text() + " is in no table");
      state.type = known->whole.type;
      state.axes = known->whole.axes;
    }
}

void refuse_rows(const Layout& layout, const std::string& where, const std::string& what) {
  if (layout.offload.rows)
    throw Error({.what = what + " knows no tables whose rows live in streaming memory",
                 .where = where,
                 .found = "offload=rows",
                 .remedy = "Leave rows out of offload"});
}

}  // namespace ramet::train
