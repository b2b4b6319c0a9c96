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
/// Of all graphs, nodes or edges: their numbers, and where their answers lie.
struct AnswerPlaces {
  NamedTensor numbers{};
  std::vector<AnswerPlace> in_order{};
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
void in_own_unit(const std::vector<double>& mean, const std::vector<double>& deviation, const NamedTensor& known,
                 NamedTensor& targets) {
  auto* const values = reinterpret_cast<float*>(targets.bytes.data());
  const auto* const is_known = reinterpret_cast<const float*>(known.bytes.data());
  const size_t columns = mean.size();
  for (size_t i = 0; i < targets.bytes.size() / sizeof(float); ++i)
    values[i] = is_known[i] > 0
                    ? static_cast<float>(static_cast<double>(values[i]) * deviation[i % columns] + mean[i % columns])
                    : std::numeric_limits<float>::quiet_NaN();
}

AnswerPlaces places_of(const graphs::GraphSource& source, Per per, int64_t packs) {
  std::map<int64_t, AnswerPlace> places;  // by number; what is in two packs counts in the first
  for (int64_t pack = 0; pack < packs; ++pack) {
    const graphs::PackContents contents = source.packs().contents(pack);
    const std::vector<int64_t>& members = per == Per::kGraph  ? contents.graphs
                                          : per == Per::kNode ? contents.nodes
                                                              : contents.edges;
    const int64_t count = per == Per::kNode && contents.seeds >= 0 ? contents.seeds : std::ssize(members);
    for (int64_t i = 0; i < count; ++i) places.try_emplace(members[static_cast<size_t>(i)], AnswerPlace{pack, i});
  }
  const char* const name = per == Per::kGraph ? "graph" : per == Per::kNode ? "node" : "edge";
  AnswerPlaces made{.numbers = {name, {DType::kI64, Shape{std::ssize(places)}}, {}}};
  made.numbers.bytes.resize(places.size() * sizeof(int64_t));
  for (const auto& [number, place] : places) {
    std::memcpy(made.numbers.bytes.data() + made.in_order.size() * sizeof(int64_t), &number, sizeof number);
    made.in_order.push_back(place);
  }
  return made;
}

/// Adds what there is of the tasks at one level.
void add_tasks(const OpenedGraphs& graphs, const graphs::GraphSource& source, Per per,
               const std::vector<NamedTensor>& answers, const Batch& labels, std::vector<NamedTensor>& results) {
  AnswerPlaces places;
  for (const GraphTarget& target : graphs.task.tasks) {
    if (target.per != per) continue;
    if (places.numbers.name.empty()) {
      places = places_of(source, per, labels.count);
      results.push_back(places.numbers);
    }
    const auto add = [&](const std::vector<NamedTensor>& from, const std::string& name, const std::string& as) {
      for (const NamedTensor& tensor : from)
        if (tensor.name == name) results.push_back(rows_at(tensor, places.in_order)), results.back().name = as;
    };
    for (const char* answer : {"logits", "classes", "probabilities", "values"}) {
      const std::string name = target.name + "_" + answer;
      add(answers, name, name);
    }
    for (const char* label : {"labels", "targets", "known"})
      add(labels.tensors, label + ("." + target.name), target.name + "_" + label);
    if (target.loss == "classes") continue;
    in_own_unit(target.mean, target.deviation, results.back(), results[results.size() - 2]);
    results.pop_back();
  }
}

}  // namespace

std::vector<NamedTensor> answers_by_number(const OpenedGraphs& graphs, const graphs::GraphSource& source,
                                           std::vector<NamedTensor> answers) {
  const int64_t packs = source.packs().epoch_packs(0);
  Batch labels = source.make(0, packs);
  if (!graphs.task.tasks.empty()) {
    std::vector<NamedTensor> results;
    for (const Per per : {Per::kGraph, Per::kNode, Per::kEdge})
      add_tasks(graphs, source, per, answers, labels, results);
    return results;
  }
  for (const char* name : {"labels", "targets", "known"})
    for (NamedTensor& tensor : labels.tensors)
      if (tensor.name == name) answers.push_back(std::move(tensor));
  const AnswerPlaces places = places_of(source, graphs.task.per_graph ? Per::kGraph : Per::kNode, packs);
  std::vector<NamedTensor> results{places.numbers};
  for (const NamedTensor& tensor : answers) results.push_back(rows_at(tensor, places.in_order));
  if (results.back().name == "known") {
    in_own_unit(graphs.task.target_mean, graphs.task.target_deviation, results.back(), results[results.size() - 2]);
    results.pop_back();
  }
  return results;
}

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
  return answers_by_number(graphs_, *source_, program.join(predictor_->run(kPredict, batches, packs, feed), packs));
}

}  // namespace ramet::recipe
