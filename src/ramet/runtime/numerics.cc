#include "ramet/runtime/numerics.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "ramet/base/error.h"
#include "ramet/runtime/cluster_state.h"
#include "ramet/runtime/engine_state.h"

namespace ramet::runtime {
namespace {

using Kind = NumericsRow::Kind;

/// Whether what stands in a buffer after instruction `index` is read first by a collective that sums it.
bool is_part_of_sum(const Executable& exe, const Segment& segment, size_t index, BufferId buffer) {
  for (size_t i = index + 1; i < segment.instructions.size(); ++i) {
    const Instruction& next = segment.instructions[i];
    if (std::find(next.inputs.begin(), next.inputs.end(), buffer) != next.inputs.end()) {
      if (next.call < 0) return false;
      const Exchange exchange = exe.calls[static_cast<size_t>(next.call)].node.op->exchange;
      return exchange == Exchange::kAllReduce || exchange == Exchange::kReduceScatter;
    }
    if (std::find(next.outputs.begin(), next.outputs.end(), buffer) != next.outputs.end()) return false;
  }
  return false;
}

class TableBuilder {
 public:
  explicit TableBuilder(const Executable& exe) : exe_(exe) {
    for (const StatePlace& state : exe.states)
      for (const BufferId slot : state.slots) state_buffers_.insert(slot);
    for (const Transfer& transfer : exe.transfers)
      if (transfer.state >= 0) state_buffers_.insert(transfer.buffer);
  }

  NumericsTable run() {
    for (size_t i = 0; i < exe_.states.size(); ++i) {
      const StateTensor& state = exe_.states[i].tensor;
      if ((state.kind != StateKind::kWeight && state.kind != StateKind::kOptimizer) || !is_floating(state.type.dtype))
        continue;
      add({state.kind == StateKind::kWeight ? Kind::kWeight : Kind::kOptimizer, state.name, "", state.type, exe_.stage,
           -1},
          {.state = static_cast<int32_t>(i)});
    }
    std::set<int32_t> known;
    for (const ProgramStep& step : exe_.train().steps)
      if (step.kind == ProgramStep::Kind::kRun && known.insert(step.subject).second) add_segment(step);
    return std::move(table_);
  }

 private:
  void add(NumericsRow row, NumericsTable::Place place) {
    table_.rows.push_back(std::move(row));
    table_.places.push_back(place);
  }

  void add_segment(const ProgramStep& step) {
    const Segment& segment = exe_.segments[static_cast<size_t>(step.subject)];
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      if (instruction.call < 0) continue;
      const NodeSignature& node = exe_.calls[static_cast<size_t>(instruction.call)].node;
      NumericsTable::Place place{.segment = step.subject, .instruction = static_cast<int32_t>(i)};
      if (!instruction.gradient.empty() && node.op->exchange == Exchange::kNone) {
        place.input = true;
        add({Kind::kGradient, instruction.gradient, "", node.inputs.at(0), exe_.stage, step.superstep}, place);
        continue;
      }
      // Where forward, backward and update are one segment, its instructions tell.
      if (segment.kind == PieceKind::kUpdate || instruction.pass == NodePass::kUpdate) continue;
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const TensorType& type = node.outputs[o];
        const BufferId buffer = instruction.outputs[o];
        if (!is_floating(type.dtype) || type.elements() <= 1 || state_buffers_.count(buffer) ||
            is_part_of_sum(exe_, segment, i, buffer))
          continue;
        place.operand = static_cast<int32_t>(o);
        const std::string name = instruction.name + (node.outputs.size() > 1 ? "#" + std::to_string(o) : "");
        add({Kind::kActivation, name, node.op->name, type, exe_.stage, step.superstep}, place);
      }
    }
  }

  const Executable& exe_;
  std::set<BufferId> state_buffers_;
  NumericsTable table_;
};

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kWeight: return "weight";
    case Kind::kOptimizer: return "optimizer";
    case Kind::kGradient: return "gradient";
    case Kind::kActivation: return "activation";
  }
  internal_error("name_of", "unknown kind of row");
}

NumericsTable numerics_table(const Executable& executable) { return TableBuilder(executable).run(); }

/// Runs a step instruction by instruction, leaving out those that change weights or optimizer states, and counts
/// exponents of the tensors that the table names.
class NumericsSurvey {
 public:
  NumericsSurvey(EngineState& engine, const NumericsTable& table)
      : engine_(engine), exe_(engine.exe_), table_(table), trained_(engine.trained_buffers()) {
    counts_.resize(table.rows.size() * kExponentBins);
    for (size_t row = 0; row < table.rows.size(); ++row)
      if (table.places[row].instruction >= 0)
        rows_of_[{table.places[row].segment, table.places[row].instruction}].push_back(row);
  }

  std::vector<int64_t> run(int64_t step, const Feed& feed, std::span<const ScalarValue> scalars) {
    count_states();
    engine_.watch_step(step, feed, scalars, [&](const ProgramStep& each) {
      run_segment(each.subject);
      return true;
    });
    return std::move(counts_);
  }

 private:
  void run_segment(int32_t subject) {
    const Segment& segment = exe_.segments[static_cast<size_t>(subject)];
    const CallTable& table = engine_.tables_[static_cast<size_t>(subject)];
    for (size_t i = 0; i < segment.instructions.size(); ++i) {
      const Instruction& instruction = segment.instructions[i];
      if (EngineState::changes_any(instruction, trained_)) continue;
      const BoundCall& call = table.calls[i];
      const auto rows = rows_of_.find({subject, static_cast<int32_t>(i)});
      if (rows != rows_of_.end()) count_operands(rows->second, call, true);  // before the call: it may write over them
      engine_.run_call(call);
      if (rows != rows_of_.end()) count_operands(rows->second, call, false);
    }
  }

  void count_operands(const std::vector<size_t>& rows, const BoundCall& call, bool inputs) {
    for (const size_t row : rows) {
      const NumericsTable::Place& place = table_.places[row];
      if (place.input == inputs) count(row, inputs ? call.inputs[place.operand] : call.outputs[place.operand]);
    }
  }

  void count_states() {
    std::vector<std::byte> bytes;
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      if (table_.places[row].state < 0) continue;
      const StatePlace& state = exe_.states[static_cast<size_t>(table_.places[row].state)];
      if (!state.slots.empty()) {
        count(row, engine_.at(state.slots[0]));
        continue;
      }
      const std::byte* data = engine_.state_data(state, bytes);
      const DeviceMemory room = take(state.tensor.type.bytes());
      engine_.queue_->copy_in(room.data(), data, room.bytes());
      count(row, room.data());
    }
  }

  /// Counts with the backend's own kernel, one for each type.
  void count(size_t row, const void* data) {
    const TensorType& type = table_.rows[row].type;
    Counter& counter = counters_[type.text()];
    if (!counter.kernel) {
      NodeSignature node{&OpRegistry::instance().get("exponent_histogram"), {type}, {histogram_type()}, {}, "numerics"};
      const int threads = engine_.device_->threads();
      const KernelChoice choice = engine_.backend_->choose(node, threads);
      counter.kernel = engine_.backend_->make(node, threads, choice.name);
      counter.bins = take(sizeof(int64_t) * kExponentBins);
      counter.scratch = take(choice.scratch_bytes);
    }
    const void* in[] = {data};
    void* out[] = {counter.bins.data()};
    engine_.queue_->launch(*counter.kernel, {in, out, counter.scratch.data()});
    int64_t bins[kExponentBins];
    engine_.queue_->copy_out(bins, counter.bins.data(), counter.bins.bytes());
    for (int bin = 0; bin < kExponentBins; ++bin) counts_[row * kExponentBins + static_cast<size_t>(bin)] += bins[bin];
  }

  DeviceMemory take(int64_t bytes) { return engine_.device_->take(bytes, Memory::kDevice, "a check of numerics"); }

  struct Counter {
    std::unique_ptr<Kernel> kernel;
    DeviceMemory bins, scratch;
  };

  EngineState& engine_;
  const Executable& exe_;
  const NumericsTable& table_;
  std::vector<bool> trained_;
  std::map<std::pair<int32_t, int32_t>, std::vector<size_t>> rows_of_;
  std::map<std::string, Counter> counters_;
  std::vector<int64_t> counts_;
};

std::vector<int64_t> EngineState::count_exponents(const NumericsTable& table, int64_t step, const Feed& feed,
                                                  std::span<const ScalarValue> scalars) {
  return NumericsSurvey(*this, table).run(step, feed, scalars);
}

namespace {

/// Devices of a stage that hold each element of a tensor cut so, and flat among replicas in so many parts. `local`
/// elements are on each: more than a part's where the cut ones have been gathered.
int64_t copies_of(const Mesh& mesh, const Sharding& sharding, int64_t flat_parts, int64_t local) {
  const int64_t devices = mesh.devices() / mesh.p;
  const int64_t part = (sharding.cut_type().elements() + flat_parts - 1) / flat_parts;
  if (local > part) return devices * local / sharding.logical.elements();
  int64_t copies = devices / flat_parts;
  for (const Cut& cut : sharding.cuts) copies /= cut.parts;
  return copies;
}

/// Counts of a tensor of `elements` elements that several devices hold and that a device pads with zeros, each once.
void count_once(NumericsRecord& record, int64_t copies, int64_t elements) {
  for (int64_t& count : record.bins) count /= copies;
  record.bins[kZeroBin] = elements - counted(record.bins.data());
}

}  // namespace

std::vector<NumericsRecord> ClusterState::survey_numerics(int64_t step, const ClusterFeed& feed,
                                                          std::span<const ScalarValue> scalars, int gradient_parts) {
  std::vector<NumericsTable> tables;
  std::vector<size_t> first;  // row of each stage
  size_t rows = 0;
  for (const Executable& exe : stages) {
    tables.push_back(numerics_table(exe));
    first.push_back(rows);
    rows += tables.back().rows.size();
  }
  std::vector<std::vector<int64_t>> counts(devices.size());
  on_fed_devices([&](ClusterDevice& device) {
    const auto stage = static_cast<size_t>(device.position.stage);
    auto& mine = counts[static_cast<size_t>(&device - devices.data())];
    mine = device.engine->count_exponents(tables[stage], step, feed_of(device, feed), scalars);
    if (ranks == 1) return;
    std::vector<int64_t> all(rows * kExponentBins);
    std::copy(mine.begin(), mine.end(), all.begin() + static_cast<int64_t>(first[stage] * kExponentBins));
    mine.resize(all.size());
    device.all->all_reduce(all.data(), mine.data(), static_cast<int64_t>(all.size()), DType::kI64);
  });

  std::vector<NumericsRecord> records(rows);
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (size_t i = 0; i < tables[stage].rows.size(); ++i) {
      NumericsRecord& record = records[first[stage] + i];
      record.row = tables[stage].rows[i];
      for (size_t bin = 0; bin < kExponentBins; ++bin) {
        if (ranks > 1) record.bins[bin] = counts[0][(first[stage] + i) * kExponentBins + bin];
        for (const ClusterDevice& device : devices)
          if (ranks == 1 && static_cast<size_t>(device.position.stage) == stage)
            record.bins[bin] += counts[static_cast<size_t>(&device - devices.data())][i * kExponentBins + bin];
      }
      const int state = stages[stage].find_state(record.row.name);
      if (record.row.kind == Kind::kActivation || state < 0) continue;
      const Sharding& sharding = stages[stage].states[static_cast<size_t>(state)].sharding;
      const bool gradient = record.row.kind == Kind::kGradient;
      const int64_t local = gradient ? record.row.type.elements() : 0;  // of states the row has the logical type
      count_once(record, copies_of(mesh, sharding, gradient ? gradient_parts : sharding.flat_parts, local),
                 sharding.logical.elements());
    }
  std::stable_sort(records.begin(), records.end(), [](const NumericsRecord& a, const NumericsRecord& b) {
    return std::pair(a.row.superstep, a.row.stage) < std::pair(b.row.superstep, b.row.stage);
  });
  return records;
}

}  // namespace ramet::runtime
