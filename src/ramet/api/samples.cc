#include "ramet/api/samples.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error_types.h"

namespace ramet::api {

Inputs inputs_of(const model::Model& model) {
  Inputs inputs;
  for (const auto& input : model.inputs) inputs.emplace_back(input.name, input.type);
  return inputs;
}

Inputs inputs_of(const Graph& graph) {
  Inputs inputs;
  for (const GraphInput& input : graph.inputs())
    if (input.role == InputRole::kData) inputs.emplace_back(graph.value(input.value).name, graph.type(input.value));
  return inputs;
}

TensorType of_samples(const TensorType& micro_batch, int64_t samples) {
  std::vector<int64_t> dims = micro_batch.shape.dims();
  dims.at(0) = samples;
  return {micro_batch.dtype, Shape(std::move(dims))};
}

int64_t check_views(const Inputs& inputs, const v0::NamedViews& views, const std::string& where) {
  std::string found, expected;
  const auto wrong = [&](const std::string& text) { found += (found.empty() ? "" : "; ") + text; };
  int64_t samples = -1;
  for (const auto& [name, type] : inputs) {
    expected += (expected.empty() ? "" : ", ") + name + " " + of_samples(type, 1).text();
    const auto view = std::find_if(views.begin(), views.end(), [&](const auto& each) { return each.first == name; });
    if (view == views.end()) {
      wrong("'" + name + "' is missing");
      continue;
    }
    const int64_t each = of_samples(type, 1).elements(), elements = view->second.elements();
    if (view->second.dtype() != type.dtype)
      wrong("'" + name + "' has numbers of " + std::string(name_of(view->second.dtype())));
    else if (elements == 0 || each == 0 || elements % each != 0)
      wrong("'" + name + "' has " + std::to_string(elements) + " numbers");
    else if (samples >= 0 && elements / each != samples)
      wrong("'" + name + "' has " + std::to_string(elements / each) + " samples, others " + std::to_string(samples));
    else
      samples = elements / each;
  }
  for (const auto& [name, view] : views)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.first == name; }))
      wrong("'" + name + "' is no input");
  if (!found.empty())
    throw ShapeError({.what = "arrays that are not what the model reads",
                      .where = where,
                      .found = found,
                      .expected = "for each sample " + expected});
  return samples;
}

ViewSource::ViewSource(Inputs inputs, const v0::NamedViews& views, int64_t first, int64_t samples)
    : inputs_(std::move(inputs)), first_(first), samples_(samples) {
  for (const auto& [name, type] : inputs_)
    for (const auto& view : views)
      if (view.first == name) data_.push_back(view.second.data());
}

Signature ViewSource::signature(int64_t count) const {
  Signature signature;
  for (const auto& [name, type] : inputs_) signature.emplace_back(name, of_samples(type, count));
  return signature;
}

void ViewSource::fill(int64_t first, int64_t count, const Places& places) const {
  const int64_t from = std::clamp<int64_t>(first - first_, 0, samples_), there = std::min(count, samples_ - from);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto bytes = static_cast<size_t>(of_samples(inputs_[i].second, 1).bytes());
    std::byte* const to = places.tensors[i];
    std::memcpy(to, data_[i] + static_cast<size_t>(from) * bytes, static_cast<size_t>(there) * bytes);
    for (int64_t behind = there; behind < count; ++behind)
      std::memcpy(to + static_cast<size_t>(behind) * bytes, data_[i] + static_cast<size_t>(samples_ - 1) * bytes,
                  bytes);
  }
}

StepSource::Guard::Guard(StepSource& source, const v0::NamedViews& views, int64_t first, int64_t samples)
    : source_(source) {
  const std::lock_guard lock(source.mutex_);
  source.now_ = std::make_unique<ViewSource>(source.inputs_, views, first, samples);
  source.first_ = first, source.samples_ = samples;
}

StepSource::Guard::~Guard() {
  std::unique_lock lock(source_.mutex_);
  source_.samples_ = 0;  // a thread that still fills a batch of a failed step finds no samples
  source_.changed_.wait(lock, [&] { return source_.readers_ == 0; });
  source_.now_.reset();
}

Signature StepSource::signature(int64_t count) const {
  Signature signature;
  for (const auto& [name, type] : inputs_) signature.emplace_back(name, of_samples(type, count));
  return signature;
}

void StepSource::fill(int64_t first, int64_t count, const Places& places) const {
  std::unique_lock lock(mutex_);
  if (first < first_ || first + count > first_ + samples_)
    throw Error({.what = "samples that are not there any more", .found = "from sample " + std::to_string(first)});
  ++readers_;
  lock.unlock();
  now_->fill(first, count, places);
  lock.lock();
  --readers_;
  changed_.notify_all();
}

}  // namespace ramet::api
