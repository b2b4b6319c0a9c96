#include "ramet/api/samples.h"

#include <cstring>

#include "ramet/base/error.h"
#include "ramet/data/arrays.h"
#include "ramet/model/array_file.h"
#include "ramet/train/inputs.h"

namespace ramet::v0 {

Array::Array(std::string name, TensorType type, std::vector<std::byte> bytes)
    : name_(std::move(name)), type_(std::move(type)), bytes_(std::move(bytes)) {
  if (std::ssize(bytes_) != type_.bytes())
    throw Error({.what = "an array with another number of bytes than its type has",
                 .where = "'" + name_ + "' " + type_.text(),
                 .found = std::to_string(bytes_.size()),
                 .expected = std::to_string(type_.bytes())});
}

double Array::at(int64_t index) const {
  if (index < 0 || index >= elements())
    throw Error({.what = "an array has no such element",
                 .where = "'" + name_ + "' " + type_.text(),
                 .found = std::to_string(index)});
  return load_element(bytes_.data(), type_.dtype, index);
}

std::vector<float> Array::floats() const {
  std::vector<float> numbers(static_cast<size_t>(elements()));
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(load_element(bytes_.data(), type_.dtype, static_cast<int64_t>(i)));
  return numbers;
}

std::vector<int64_t> Array::argmax() const {
  const int64_t width = shape().rank() > 0 ? shape().dim(-1) : 1;
  std::vector<int64_t> greatest;
  for (int64_t row = 0; width > 0 && row < elements() / width; ++row) {
    int64_t best = 0;
    for (int64_t i = 1; i < width; ++i)
      if (at(row * width + i) > at(row * width + best)) best = i;
    greatest.push_back(best);
  }
  return greatest;
}

const Array& Arrays::operator[](std::string_view name) const {
  std::string known;
  for (const Array& each : all_) {
    if (each.name() == name) return each;
    known += (known.empty() ? "" : ", ") + each.name();
  }
  throw Error({.what = "no array of this name", .found = "'" + std::string(name) + "'", .expected = known});
}

Source::~Source() = default;

namespace {

/// A source of the user's, for the engine.
class UsersSource final : public data::Source {
 public:
  UsersSource(std::shared_ptr<const v0::Source> source, api::Inputs inputs)
      : source_(std::move(source)), inputs_(std::move(inputs)) {}

  data::Signature signature(int64_t count) const override {
    data::Signature signature;
    for (const auto& [name, type] : inputs_) signature.emplace_back(name, api::of_samples(type, count));
    return signature;
  }
  void fill(int64_t first, int64_t count, const data::Places& places) const override {
    std::vector<Place> all;
    for (size_t i = 0; i < inputs_.size(); ++i)
      all.push_back({inputs_[i].first, api::of_samples(inputs_[i].second, count), places.tensors[i]});
    source_->fill(first, count, all);
  }
  int64_t epoch_of(int64_t index) const override { return source_->samples() > 0 ? index / source_->samples() : 0; }
  int64_t epoch_samples(int64_t) const override { return source_->samples(); }
  Hash identity() const override { return hash_text(source_->identity()); }

 private:
  const std::shared_ptr<const v0::Source> source_;
  const api::Inputs inputs_;
};

data::ArrayOptions engine_options(const ArrayOptions& options, bool held_out) {
  if (held_out && options.held_out == 0)
    throw Error({.what = "the data holds nothing out",
                 .where = "Data::held_out",
                 .found = "ArrayOptions::held_out of 0",
                 .expected = "the share of the samples to hold out, above 0 and below 1"});
  data::ArrayOptions made;
  made.shuffle = options.shuffle && !held_out;
  made.seed = options.seed;
  made.held_out = options.held_out;
  made.evaluation = held_out;
  return made;
}

}  // namespace

Data Data::arrays(const NamedViews& arrays, const ArrayOptions& options) {
  auto contents = std::make_shared<Contents>();
  contents->bind = [arrays, options](const Model::Contents& model, bool held_out) {
    const api::Inputs inputs = api::inputs_of(model.engine);
    const int64_t samples = api::check_views(inputs, arrays, "the data of model '" + model.engine.name + "'");
    std::vector<data::ArrayColumn> columns;
    for (const auto& [name, type] : inputs)
      for (const auto& [array, view] : arrays)
        if (array == name)
          columns.push_back({.name = name,
                             .stored = std::string(name_of(type.dtype)),
                             .shape = api::of_samples(type, samples).shape,
                             .data = view.data()});
    return data::make_array_source(std::move(columns), engine_options(options, held_out));
  };
  return Data(std::move(contents));
}

Data Data::file(const std::string& path, const ArrayOptions& options) {
  auto contents = std::make_shared<Contents>();
  contents->bind = [path, options](const Model::Contents& model, bool held_out) {
    return train::open_inputs(model::open_arrays(path), model.engine.inputs, engine_options(options, held_out),
                              model.micro_batch, path);
  };
  return Data(std::move(contents));
}

Data Data::source(std::shared_ptr<const Source> source) {
  if (!source) throw Error({.what = "there is no source", .where = "Data::source"});
  auto contents = std::make_shared<Contents>();
  contents->bind = [source](const Model::Contents& model, bool held_out) {
    if (held_out)
      throw Error({.what = "a source holds nothing out",
                   .where = "Data::held_out",
                   .remedy = "Make a second source of the samples that are held out"});
    return std::make_shared<const UsersSource>(source, api::inputs_of(model.engine));
  };
  return Data(std::move(contents));
}

Data Data::held_out() const {
  if (empty()) return {};
  auto contents = std::make_shared<Contents>(*contents_);
  contents->held_out = true;
  return Data(std::move(contents));
}

std::shared_ptr<const data::Source> Data::Contents::source_of(const Data& data, const Model::Contents& model) {
  return data.empty() ? nullptr : data.contents()->bind(model, data.contents()->held_out);
}

}  // namespace ramet::v0
