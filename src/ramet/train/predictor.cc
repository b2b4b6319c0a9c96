#include "ramet/train/predictor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/devices.h"
#include "ramet/train/facts.h"
#include "ramet/train/model_passes.h"
#include "ramet/train/step.h"
#include "ramet/transform/data_axes.h"

namespace ramet::train {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Options of a step whose micro-batches replicas share.
TrainOptions prediction_options(TrainOptions options, const Layout& layout) {
  options.lanes = options.accumulation = layout.r;
  return with_order_of_sums(std::move(options), layout);
}

/// A minute, and what a slow machine would need for one micro-batch of every program on all devices.
std::chrono::milliseconds waiting_limit(const std::vector<Executable>& stages) {
  constexpr double kFlops = 2e10, kBytes = 1e8;  // of a slow machine, in a second
  double flops = 0, stream = 0;
  for (const Executable& exe : stages) {
    for (const Segment& segment : exe.segments)
      for (const Instruction& instruction : segment.instructions)
        if (instruction.call >= 0) flops += exe.calls[static_cast<size_t>(instruction.call)].cost.flops;
    stream += static_cast<double>(exe.streaming_bytes);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * (60 + flops / kFlops + stream / kBytes)));
}

/// A tensor of a program, and the dimension that runs along samples (-1: none).
struct Operand {
  std::string name;
  TensorType type;
  int batch_dim = -1;
  int64_t batch() const { return type.shape[batch_dim]; }
};

/// The samples of one batch as runs of bytes: `outer` of them, each `extent` x `inner` bytes.
struct Rows {
  int64_t outer = 1, extent = 1, inner = 1;
  Rows(const TensorType& type, int dim) : extent(type.shape[dim]) {
    for (int d = 0; d < dim; ++d) outer *= type.shape[d];
    for (int d = dim + 1; d < type.shape.rank(); ++d) inner *= type.shape[d];
    inner *= static_cast<int64_t>(size_of(type.dtype));
  }
};

TensorType with_extent(const TensorType& type, int dim, int64_t extent) {
  std::vector<int64_t> dims = type.shape.dims();
  dims[static_cast<size_t>(dim)] = extent;
  return {type.dtype, Shape(std::move(dims))};
}

[[noreturn]] void refuse(const std::string& program, const std::string& what, const std::string& found,
                         const std::string& expected) {
  throw Error({.what = what, .where = "program '" + program + "'", .found = found, .expected = expected});
}

}  // namespace

void PredictionTimes::add(int64_t call_samples, double call_seconds) {
  if (latencies.size() < kLatencies)
    latencies.push_back(call_seconds);
  else
    latencies[static_cast<size_t>(calls) % kLatencies] = call_seconds;
  ++calls;
  samples += call_samples;
  seconds += call_seconds;
}

double PredictionTimes::latency(double share) const {
  if (latencies.empty()) return 0;
  std::vector<double> sorted = latencies;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const auto rank = static_cast<size_t>(std::max(0.0, std::ceil(share * count) - 1));
  return sorted[std::min(rank, sorted.size() - 1)];
}

/// What a program takes and gives.
struct Predictor::Signature {
  std::string name;
  std::vector<Operand> inputs, results;

  explicit Signature(const StepProgram& program) : name(program.name) {
    Graph graph = program.graph;
    const std::vector<int> along = dims_along(graph, "batch");
    const bool declares = declares_axes(graph);
    for (const GraphInput& input : graph.inputs()) {
      if (input.role != InputRole::kData) continue;
      const Value& value = graph.value(input.value);
      const int first = value.type.shape.rank() > 0 ? 0 : -1;
      inputs.push_back({value.name, value.type, declares ? along[static_cast<size_t>(input.value)] : first});
    }
    for (const GraphOutput& output : graph.outputs()) {
      if (output.role != OutputRole::kResult) continue;
      const TensorType& type = graph.type(output.value);
      int dim = declares ? along[static_cast<size_t>(output.value)] : -1;
      // Without axes: rows as many as samples are taken for samples.
      if (!declares && type.shape.rank() > 0 && batch() > 0 && type.shape[0] == batch()) dim = 0;
      // A dimension of one sample is lost where shapes change; such a batch is that sample.
      if (dim < 0 && batch() == 1 && type.shape.rank() > 0 && type.shape[0] == 1) dim = 0;
      results.push_back({output.name, type, dim});
    }
  }

  /// Samples of a batch; 0 when no input has a batch dimension.
  int64_t batch() const {
    int64_t least = 0;
    for (const Operand& input : inputs)
      if (input.batch_dim >= 0) least = least == 0 ? input.batch() : std::min(least, input.batch());
    return least;
  }
  const Operand* find(const std::vector<Operand>& operands, const std::string& wanted) const {
    for (const Operand& operand : operands)
      if (operand.name == wanted) return &operand;
    return nullptr;
  }

  /// How many samples the inputs hold; each input must hold as many.
  int64_t samples_of(std::span<const NamedTensor> given) const {
    std::string missing;
    for (const Operand& input : inputs) {
      const bool found =
          std::any_of(given.begin(), given.end(), [&](const auto& each) { return each.name == input.name; });
      if (!found) missing += (missing.empty() ? "" : ", ") + input.name + " " + input.type.text();
    }
    if (!missing.empty()) refuse(name, "inputs are missing", "", missing);
    int64_t samples = -1;
    for (const NamedTensor& tensor : given) {
      const Operand* input = find(inputs, tensor.name);
      if (!input) refuse(name, "the program has no such input", "'" + tensor.name + "'", text_of(inputs));
      if (input->batch_dim < 0) {
        if (tensor.type != input->type)
          refuse(name, "input '" + tensor.name + "' has another type", tensor.type.text(), input->type.text());
        continue;
      }
      const int64_t rows =
          tensor.type.shape.rank() == input->type.shape.rank() ? tensor.type.shape[input->batch_dim] : -1;
      const int64_t each = input->batch() / batch();  // rows of a sample
      const bool fits = rows >= 0 && rows % each == 0 &&
                        tensor.type == with_extent(input->type, input->batch_dim, rows) &&
                        static_cast<int64_t>(tensor.bytes.size()) == tensor.type.bytes();
      if (!fits)
        refuse(name, "input '" + tensor.name + "' has another type", tensor.type.text(),
               with_extent(input->type, input->batch_dim, each).text() + " for each sample");
      if (samples >= 0 && rows / each != samples)
        refuse(name, "the inputs have different numbers of samples",
               "'" + tensor.name + "' " + std::to_string(rows / each), std::to_string(samples));
      samples = rows / each;
    }
    return samples;
  }

  static std::string text_of(const std::vector<Operand>& operands) {
    std::string text;
    for (const Operand& operand : operands) text += (text.empty() ? "" : ", ") + operand.name;
    return text;
  }
};

Predictor::Predictor(Model model, const TrainOptions& options, const Layout& layout, const Where& where,
                     std::vector<std::string> programs)
    : model_(apply_model_passes(std::move(model), options)),
      options_(prediction_options(options, layout)),
      programs_(programs.empty() ? program_names(model_) : std::move(programs)) {
  const auto start = Clock::now();
  std::vector<std::string> remarks;
  const Layout fitted = fitted_layout(layout, model_, options_, where.layout_source, remarks);
  StepGraph step = make_prediction_step(model_, options_, programs_);
  for (const StepProgram& program : step.programs) signatures_.emplace_back(program);
  states_ = step.states;
  std::vector<Executable> stages = compile_step(std::move(step), options_, fitted, where);
  compile_seconds_ = seconds_since(start);
  ClusterOptions cluster;
  cluster.mpi = where.mpi;
  cluster.streaming = fitted.streaming;
  cluster.device = where.device;
  cluster.profile = where.profile;
  cluster.bits = options_.bits == "fast" ? ExactBits::kFast : ExactBits::kExact;
  cluster.time_limit = where.time_limit.count() > 0 ? where.time_limit : waiting_limit(stages);
  cluster_ = std::make_unique<Cluster>(std::move(stages), find_device(where.device).backend(), cluster);
  for (const int device : cluster_->local_devices())
    threads_ += cluster_->stages()[static_cast<size_t>(cluster_->mesh().position(device).stage)].threads;
  loader_.emplace(*cluster_, options_, threads_, where.progress);
  // Caches and the like begin as they say; what a checkpoint holds comes with it.
  for (const StateTensor& state : states_)
    if (state.kind == StateKind::kKept && cluster_->holds(state)) loader_->write_first(state);
}

Predictor::~Predictor() = default;

void Predictor::initialize(const std::string& file) {
  loader_->write_first_weights(model_.weights, file);
  for (const StateTensor& state : states_)
    if (state.kind != StateKind::kWeight && is_saved(state.kind) && cluster_->holds(state)) loader_->write_first(state);
  ready();
}

void Predictor::load(const Checkpoint& checkpoint) {
  // As they are held where the checkpoint holds them so, else by way of f32.
  std::vector<StateTensor> weights, others;
  for (const StateTensor& weight : model_.weights)
    if (cluster_->holds(weight)) weights.push_back(weight);
  for (const StateTensor& state : states_)
    if (state.kind != StateKind::kWeight && is_saved(state.kind)) others.push_back(state);
  loader_->load(checkpoint, weights, false);
  if (!others.empty()) loader_->load(checkpoint, others, true);
  ready();
}

void Predictor::import_weights(const std::filesystem::path& path) {
  for (const std::string& name : loader_->import(path, model_.weights)) {
    const auto weight = std::find_if(model_.weights.begin(), model_.weights.end(),
                                     [&](const StateTensor& each) { return each.name == name; });
    if (cluster_->holds(*weight))
      throw Error({.what = "the file lacks weights that prediction needs",
                   .where = path.string(),
                   .found = "no '" + name + "'",
                   .remedy = "Train the head first (model.init_from), or name a file of the whole model"});
  }
  ready();
}

void Predictor::write_weight(const StateTensor& weight, std::span<const std::byte> bytes) {
  if (cluster_->holds(weight)) loader_->write_weight(weight, bytes);
}

void Predictor::ready() { cluster_->run_derive(); }

const Predictor::Signature& Predictor::signature_of(const std::string& program) const {
  for (const Signature& signature : signatures_)
    if (signature.name == program) return signature;
  std::string known;
  for (const std::string& name : programs_) known += (known.empty() ? "" : ", ") + name;
  throw Error({.what = "the predictor has no program of this name", .found = "'" + program + "'", .expected = known});
}

int64_t Predictor::batch_of(const std::string& program) const { return signature_of(program).batch(); }

std::string Predictor::weights_hash() {
  std::vector<StateTensor> held;
  for (const StateTensor& state : states_)
    if (is_hashed(state.kind)) held.push_back(state);
  return train::weights_hash(held, [&](const StateTensor& state, uint64_t offset,
                                       std::span<std::byte> to) { cluster_->read_state(state, offset, to); })
      .hex();
}

std::vector<std::string> Predictor::inputs_of(const std::string& program) const {
  std::vector<std::string> names;
  for (const Operand& input : signature_of(program).inputs) names.push_back(input.name);
  return names;
}

std::vector<ResultTensors> Predictor::run(const std::string& program, int64_t batches, int64_t samples,
                                          const ClusterFeed& feed, const Wanted& wanted) {
  const auto start = Clock::now();
  std::vector<ResultTensors> results = cluster_->run(program, batches, feed, {}, wanted);
  times_.add(samples, seconds_since(start));
  return results;
}

std::vector<NamedTensor> Predictor::run(const std::string& program, std::span<const NamedTensor> inputs,
                                        std::vector<std::string> wanted) {
  const Signature& signature = signature_of(program);
  for (const std::string& name : wanted)
    if (!signature.find(signature.results, name))
      refuse(program, "the program has no such result", "'" + name + "'", Signature::text_of(signature.results));
  if (wanted.empty())
    for (const Operand& result : signature.results) wanted.push_back(result.name);
  const int64_t batch = signature.batch(), samples = signature.samples_of(inputs);
  const int64_t batches = batch == 0 ? 1 : (samples + batch - 1) / batch;
  for (const Operand& result : signature.results)
    if (result.batch_dim < 0 && batch > 0 && samples % batch != 0 &&
        std::find(wanted.begin(), wanted.end(), result.name) != wanted.end())
      refuse(program, "result '" + result.name + "' belongs to a whole batch", std::to_string(samples) + " samples",
             "a multiple of " + std::to_string(batch) + ", or other results (`wanted`)");

  const ClusterFeed feed = [&](int64_t micro, const Executable&, FeedSink& sink) {
    std::vector<std::byte> piece;
    for (const NamedTensor& tensor : inputs) {
      if (!sink.takes(tensor.name)) continue;
      const Operand& input = *signature.find(signature.inputs, tensor.name);
      if (input.batch_dim < 0) {
        sink.set(tensor.name, tensor.type, tensor.bytes.data());
        continue;
      }
      const Rows from(tensor.type, input.batch_dim), to(input.type, input.batch_dim);
      const int64_t each = to.extent / batch;
      piece.resize(static_cast<size_t>(input.type.bytes()));
      for (int64_t outer = 0; outer < from.outer; ++outer)
        for (int64_t sample = 0; sample < batch; ++sample) {
          const int64_t taken = std::min(micro * batch + sample, samples - 1);
          std::memcpy(piece.data() + (outer * to.extent + sample * each) * to.inner,
                      tensor.bytes.data() + (outer * from.extent + taken * each) * from.inner,
                      static_cast<size_t>(each * to.inner));
        }
      sink.set(tensor.name, input.type, piece.data());
    }
  };
  std::vector<ResultTensors> given;
  if (batches > 0) given = run(program, batches, samples, feed, {.names = wanted, .everywhere = true});

  std::vector<NamedTensor> results;
  for (const Operand& result : signature.results) {
    if (std::find(wanted.begin(), wanted.end(), result.name) == wanted.end()) continue;
    NamedTensor tensor{result.name, result.type, {}};
    const auto part = [&](int64_t micro) -> const std::vector<std::byte>& {
      for (const ResultTensor& each : given[static_cast<size_t>(micro)])
        if (each.name == result.name) return each.bytes;
      internal_error("Predictor::run", "no result '" + result.name + "'");
    };
    if (result.batch_dim < 0) {
      std::vector<int64_t> dims = result.type.shape.dims();
      if (batches != 1) dims.insert(dims.begin(), batches);
      tensor.type.shape = Shape(std::move(dims));
      for (int64_t micro = 0; micro < batches; ++micro)
        tensor.bytes.insert(tensor.bytes.end(), part(micro).begin(), part(micro).end());
    } else {
      const Rows from(result.type, result.batch_dim);
      const int64_t each = from.extent / batch;
      tensor.type = with_extent(result.type, result.batch_dim, samples * each);
      tensor.bytes.resize(static_cast<size_t>(tensor.type.bytes()));
      for (int64_t outer = 0; outer < from.outer; ++outer)
        for (int64_t sample = 0; sample < samples; ++sample)
          std::memcpy(tensor.bytes.data() + (outer * samples + sample) * each * from.inner,
                      part(sample / batch).data() + (outer * from.extent + sample % batch * each) * from.inner,
                      static_cast<size_t>(each * from.inner));
    }
    results.push_back(std::move(tensor));
  }
  return results;
}

}  // namespace ramet::train
