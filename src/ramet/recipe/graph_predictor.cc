#include "ramet/recipe/graph_predictor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "ramet/recipe/kinds.h"

namespace ramet::recipe {
namespace {

const char* const kPredict = "predict";

/// Where one answer lies: the pack, and the place in it.
struct AnswerPlace {
  int64_t pack, place;
};

/// Rows of a tensor [packs, items, ...] at some places: [places, ...].
NamedTensor rows_at(const NamedTensor& from, const std::vector<AnswerPlace>& places) {
  std::vector<int64_t> dims = from.type.shape.dims();
  const int64_t items = dims[1];
  dims.erase(dims.begin());
  dims[0] = std::ssize(places);
  NamedTensor rows{from.name, {from.type.dtype, Shape(dims)}, {}};
  const size_t bytes = from.bytes.size() / static_cast<size_t>(std::max<int64_t>(1, from.type.shape[0] * items));
  rows.bytes.resize(bytes * places.size());
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(rows.bytes.data() + i * bytes,
                from.bytes.data() + static_cast<size_t>(places[i].pack * items + places[i].place) * bytes, bytes);
  return rows;
}

/// Targets in their own unit; NaN where they are not known.
void in_own_unit(const GraphTask& task, const NamedTensor& known, NamedTensor& targets) {
  auto* const values = reinterpret_cast<float*>(targets.bytes.data());
  const auto* const is_known = reinterpret_cast<const float*>(known.bytes.data());
  const auto columns = static_cast<size_t>(task.targets());
  for (size_t i = 0; i < targets.bytes.size() / sizeof(float); ++i)
    values[i] = is_known[i] > 0
                    ? static_cast<float>(static_cast<double>(values[i]) * task.target_deviation[i % columns] +
                                         task.target_mean[i % columns])
                    : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

GraphPredictor::GraphPredictor(const Recipe& complete, const Layout& layout, const Where& where)
    : graphs_(open_graphs(complete)), source_(graphs_.held_out ? graphs_.held_out : graphs_.train) {
  predictor_ = std::make_unique<Predictor>(build_graph_net(graph_config_of(complete), graphs_.task), complete.train,
                                           layout, where, std::vector<std::string>{kPredict});
}

std::vector<NamedTensor> GraphPredictor::predict(const RequestProgress& progress) {
  const SampleProgram& program = predictor_->program(kPredict);
  const int64_t packs = source_->packs().epoch_packs(0), batches = program.batches_of(packs);
  Feeder feeder(source_, predictor_->cluster(),
                {.micro_batch = program.batch(), .program = kPredict, .count = batches});
  feeder.begin(0);
  const ClusterFeed feed = feed_with_progress(feeder.feed(), program.batch(), packs, progress);
  std::vector<NamedTensor> all = program.join(predictor_->run(kPredict, batches, packs, feed), packs);
  const bool of_graphs = graphs_.task.per_graph;
  std::map<int64_t, AnswerPlace> places;  // by number; a node or a graph that is in two packs counts in the first
  for (int64_t pack = 0; pack < packs; ++pack) {
    const graphs::PackContents contents = source_->packs().contents(pack);
    const std::vector<int64_t>& members = of_graphs ? contents.graphs : contents.nodes;
    const int64_t count = of_graphs || contents.seeds < 0 ? std::ssize(members) : contents.seeds;
    for (int64_t i = 0; i < count; ++i) places.try_emplace(members[static_cast<size_t>(i)], AnswerPlace{pack, i});
  }
  NamedTensor numbers{of_graphs ? "graph" : "node", {DType::kI64, Shape{std::ssize(places)}}, {}};
  numbers.bytes.resize(places.size() * sizeof(int64_t));
  std::vector<AnswerPlace> in_order;
  for (const auto& [number, place] : places) {
    std::memcpy(numbers.bytes.data() + in_order.size() * sizeof(int64_t), &number, sizeof number);
    in_order.push_back(place);
  }
  Batch labels = source_->make(0, packs);
  for (const char* name : {"labels", "targets", "known"})
    for (NamedTensor& tensor : labels.tensors)
      if (tensor.name == name) all.push_back(std::move(tensor));
  std::vector<NamedTensor> results{std::move(numbers)};
  for (const NamedTensor& tensor : all) results.push_back(rows_at(tensor, in_order));
  if (results.back().name == "known") {
    in_own_unit(graphs_.task, results.back(), results[results.size() - 2]);
    results.pop_back();
  }
  return results;
}

}  // namespace ramet::recipe
