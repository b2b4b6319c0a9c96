#include "ramet/train/sample_program.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/transform/data_axes.h"

namespace ramet::train {
namespace {

/// A tensor as runs of bytes along one dimension: `outer` of them, each `extent` x `inner` bytes.
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

template <typename List>
std::string names_text(const List& list) {
  std::string text;
  for (const auto& each : list) text += (text.empty() ? "" : ", ") + each.name;
  return text;
}

}  // namespace

SampleProgram::SampleProgram(const Graph& graph, std::string name, const std::vector<InputSpec>& limits)
    : name_(std::move(name)) {
  const std::vector<int> along = dims_along(graph, "batch");
  const bool declares = declares_axes(graph);
  for (const GraphInput& input : graph.inputs()) {
    if (input.role != InputRole::kData) continue;
    const Value& value = graph.value(input.value);
    const int first = value.type.shape.rank() > 0 ? 0 : -1;
    Operand operand{value.name, value.type, declares ? along[static_cast<size_t>(input.value)] : first};
    for (const InputSpec& spec : limits)
      if (spec.name == value.name && spec.type == value.type)
        operand.limits = {spec.name, spec.type, spec.low, spec.high};
    inputs_.push_back(std::move(operand));
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (output.role != OutputRole::kResult) continue;
    const TensorType& type = graph.type(output.value);
    int dim = declares ? along[static_cast<size_t>(output.value)] : -1;
    // Without axes: rows as many as samples are taken for samples.
    if (!declares && type.shape.rank() > 0 && batch() > 0 && type.shape[0] == batch()) dim = 0;
    // A dimension of one sample is lost where shapes change; such a batch is that sample.
    if (dim < 0 && batch() == 1 && type.shape.rank() > 0 && type.shape[0] == 1) dim = 0;
    results_.push_back({output.name, type, dim});
  }
}

Signature SampleProgram::inputs() const {
  Signature signature;
  for (const Operand& input : inputs_) signature.emplace_back(input.name, input.type);
  return signature;
}

std::vector<std::string> SampleProgram::results() const {
  std::vector<std::string> names;
  for (const Operand& result : results_) names.push_back(result.name);
  return names;
}

bool SampleProgram::is_by_sample(const std::string& result) const {
  const Operand* found = find(results_, result);
  return found && found->batch_dim >= 0;
}

int64_t SampleProgram::batch() const {
  int64_t least = 0;
  for (const Operand& input : inputs_)
    if (input.batch_dim >= 0) least = least == 0 ? input.batch() : std::min(least, input.batch());
  return least;
}

const SampleProgram::Operand* SampleProgram::find(const std::vector<Operand>& operands, std::string_view wanted) const {
  for (const Operand& operand : operands)
    if (operand.name == wanted) return &operand;
  return nullptr;
}

int64_t SampleProgram::samples_of(std::span<const TensorView> given) const {
  std::string missing;
  for (const Operand& input : inputs_) {
    const bool found =
        std::any_of(given.begin(), given.end(), [&](const auto& each) { return each.name == input.name; });
    if (!found) missing += (missing.empty() ? "" : ", ") + input.name + " " + input.type.text();
  }
  if (!missing.empty()) refuse(name_, "inputs are missing", "", missing);
  int64_t samples = -1;  // not known yet
  for (const TensorView& tensor : given) {
    const std::string named(tensor.name);
    const TensorType& type = *tensor.type;
    const Operand* input = find(inputs_, named);
    if (!input) refuse(name_, "the program has no such input", "'" + named + "'", names_text(inputs_));
    if (input->batch_dim < 0) {
      if (type != input->type) refuse(name_, "input '" + named + "' has another type", type.text(), input->type.text());
      continue;
    }
    const int64_t rows = type.shape.rank() == input->type.shape.rank() ? type.shape[input->batch_dim] : -1;
    const int64_t each = input->batch() / batch();  // rows of a sample
    if (rows < 0 || rows % each != 0 || type != with_extent(input->type, input->batch_dim, rows))
      refuse(name_, "input '" + named + "' has another type", type.text(),
             with_extent(input->type, input->batch_dim, each).text() + " for each sample");
    if (samples >= 0 && rows / each != samples)
      refuse(name_, "the inputs have different numbers of samples", "'" + named + "' " + std::to_string(rows / each),
             std::to_string(samples));
    samples = rows / each;
    const bool one_behind_another = input->batch_dim == 0 && samples > 0;
    check_values(input->limits, type, tensor.data, one_behind_another ? samples : 1, [&](int64_t sample) {
      return one_behind_another ? "sample " + std::to_string(sample) : std::string("the samples");
    });
  }
  return std::max<int64_t>(samples, 0);
}

ClusterFeed SampleProgram::feed_of(std::span<const TensorView> inputs, int64_t samples) const {
  return [this, inputs, samples](int64_t micro, const Executable&, FeedSink& sink) {
    std::vector<std::byte> piece;
    for (const TensorView& tensor : inputs) {
      if (!sink.takes(tensor.name)) continue;
      const Operand& input = *find(inputs_, tensor.name);
      if (input.batch_dim < 0) {
        sink.set(tensor.name, *tensor.type, tensor.data);
        continue;
      }
      const Rows from(*tensor.type, input.batch_dim), to(input.type, input.batch_dim);
      const int64_t each = to.extent / batch(), first = micro * batch();
      if (from.outer == 1 && first + batch() <= samples) {
        sink.set(tensor.name, input.type, tensor.data + first * each * to.inner);
        continue;
      }
      piece.resize(static_cast<size_t>(input.type.bytes()));
      for (int64_t outer = 0; outer < from.outer; ++outer)
        for (int64_t sample = 0; sample < batch(); ++sample) {
          const int64_t taken = std::min(first + sample, samples - 1);
          std::memcpy(piece.data() + (outer * to.extent + sample * each) * to.inner,
                      tensor.data + (outer * from.extent + taken * each) * from.inner,
                      static_cast<size_t>(each * to.inner));
        }
      sink.set(tensor.name, input.type, piece.data());
    }
  };
}

void SampleProgram::check_wanted(const std::vector<std::string>& wanted, int64_t samples) const {
  const int64_t each = batch();
  for (const std::string& name : wanted)
    if (each > 0 && samples % each != 0 && !is_by_sample(name))
      refuse(name_, "result '" + name + "' belongs to a whole batch", std::to_string(samples) + " samples",
             "a multiple of " + std::to_string(each) + ", or other results (`wanted`)");
}

NamedTensor SampleProgram::join_samples(const Operand& result, const std::vector<const ResultTensor*>& parts,
                                        int64_t samples) const {
  NamedTensor joined{result.name, parts.empty() ? result.type : parts[0]->type, {}};
  const Rows from(joined.type, result.batch_dim);
  const int64_t each = from.extent / batch();
  joined.type = with_extent(joined.type, result.batch_dim, samples * each);
  joined.bytes.resize(static_cast<size_t>(joined.type.bytes()));
  for (int64_t outer = 0; outer < from.outer; ++outer)
    for (int64_t first = 0; first < samples; first += batch()) {
      const int64_t rows = std::min(batch(), samples - first) * each;
      std::memcpy(joined.bytes.data() + (outer * samples + first) * each * from.inner,
                  parts[static_cast<size_t>(first / batch())]->bytes.data() + outer * from.extent * from.inner,
                  static_cast<size_t>(rows * from.inner));
    }
  return joined;
}

std::vector<NamedTensor> SampleProgram::join(const std::vector<ResultTensors>& batches, int64_t samples) const {
  const auto whole = static_cast<size_t>(batch() == 0 ? std::ssize(batches) : samples / batch());
  std::vector<NamedTensor> joined;
  for (const Operand& result : results_) {
    std::vector<const ResultTensor*> parts;
    for (const ResultTensors& given : batches)
      for (const ResultTensor& each : given)
        if (each.name == result.name) parts.push_back(&each);
    if (parts.size() != batches.size()) continue;  // not wanted
    if (result.batch_dim >= 0) {
      joined.push_back(join_samples(result, parts, samples));
      continue;
    }
    NamedTensor tensor{result.name, parts.empty() ? result.type : parts[0]->type, {}};
    std::vector<int64_t> dims = tensor.type.shape.dims();
    dims.insert(dims.begin(), static_cast<int64_t>(whole));
    tensor.type.shape = Shape(std::move(dims));
    for (size_t i = 0; i < whole; ++i)
      tensor.bytes.insert(tensor.bytes.end(), parts[i]->bytes.begin(), parts[i]->bytes.end());
    joined.push_back(std::move(tensor));
  }
  return joined;
}

std::vector<NamedTensor> SampleProgram::run(std::span<const TensorView> inputs, std::vector<std::string> wanted,
                                            const Run& run) const {
  for (const std::string& name : wanted)
    if (!find(results_, name)) refuse(name_, "the program has no such result", "'" + name + "'", names_text(results_));
  if (wanted.empty()) wanted = results();
  const int64_t samples = samples_of(inputs), batches = batches_of(samples);
  check_wanted(wanted, samples);
  std::vector<ResultTensors> given;
  if (batches > 0) given = run(batches, samples, feed_of(inputs, samples), {.names = wanted, .everywhere = true});
  std::vector<NamedTensor> joined = join(given, samples);
  std::erase_if(joined, [&](const NamedTensor& each) {
    return std::find(wanted.begin(), wanted.end(), each.name) == wanted.end();
  });
  for (NamedTensor& each : joined)
    if (batches == 1 && !is_by_sample(each.name)) {
      const std::vector<int64_t>& dims = each.type.shape.dims();
      each.type.shape = Shape(std::vector<int64_t>(dims.begin() + 1, dims.end()));
    }
  return joined;
}

std::vector<TensorView> views_of(std::span<const NamedTensor> tensors) {
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : tensors) {
    if (std::ssize(tensor.bytes) != tensor.type.bytes())
      throw Error({.what = "a tensor has another number of bytes than its type",
                   .where = "'" + tensor.name + "' " + tensor.type.text(),
                   .found = std::to_string(tensor.bytes.size()),
                   .expected = std::to_string(tensor.type.bytes())});
    views.push_back({tensor.name, &tensor.type, tensor.bytes.data()});
  }
  return views;
}

}  // namespace ramet::train
