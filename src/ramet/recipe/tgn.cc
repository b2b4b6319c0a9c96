// Recipes of temporal graph networks.
#include "ramet/base/error.h"
#include "ramet/layout/layout.h"
#include "ramet/recipe/arrays.h"
#include "ramet/recipe/event_data.h"
#include "ramet/recipe/keys.h"
#include "ramet/recipe/kinds.h"
#include "ramet/recipe/lengths.h"
#include "ramet/recipe/link_scores.h"
#include "ramet/recipe/prepare.h"
#include "ramet/train/feeder.h"

namespace ramet::recipe {
namespace {

using graphs::EventGraph;
using graphs::EventRange;
using graphs::EventRoom;
using graphs::EventSource;

std::string note_of(const OpenedEvents& opened, const EventRoom& room) {
  return "batches of events: room for " + std::to_string(room.members) + " nodes of events, " +
         std::to_string(room.others) + " wrong destinations, " + std::to_string(room.neighbors) + " neighbours and " +
         std::to_string(room.edges) + " edges (" +
         (opened.exact ? "the exact maximum of the run" : "the most there can be: train.epochs would tell") + ")";
}

/// Numbers of the links of a part: each is the mean over its samples.
struct PartNumbers {
  double precision = 0, auc = 0, bank = 0, samples = 0;
};

/// Goes through the held-out events in order, and compares the scores of events and of their negatives.
class LinkEvaluator final : public Evaluator {
 public:
  explicit LinkEvaluator(std::shared_ptr<const EventSource> source) : source_(std::move(source)) {}
  std::string program() const override { return "score"; }
  bool finds_best() const override { return true; }

  Numbers evaluate(Cluster& cluster) override {
    const int64_t batches = source_->epoch_samples(0);
    Feeder feeder(source_, cluster, {.micro_batch = 1, .program = "score", .count = batches});
    feeder.begin(0);
    const std::vector<ResultTensors> answers = cluster.run("score", batches, feeder.feed());
    if (!cluster.leads()) return {};
    std::vector<std::pair<std::string, PartNumbers>> parts;
    for (int64_t i = 0; i < batches; ++i) {
      const EventRange events = source_->events_of(i);
      const EventGraph& graph = source_->graph();
      const bool test = graph.has_part("test") && events.begin >= graph.part("test").begin;
      const std::string part = test ? "test" : "validation";
      if (parts.empty() || parts.back().first != part) parts.emplace_back(part, PartNumbers{});
      add(parts.back().second, i, answers[static_cast<size_t>(i)]);
    }
    Numbers numbers;
    for (const auto& [part, sums] : parts) {
      const std::string prefix = parts.size() > 1 && part == "test" ? "test_" : "";
      numbers.emplace_back(prefix + "average_precision", sums.precision / sums.samples);
      numbers.emplace_back(prefix + "roc_auc", sums.auc / sums.samples);
      numbers.emplace_back(prefix + "edgebank_precision", sums.bank / sums.samples);
    }
    return numbers;
  }

 private:
  void add(PartNumbers& sums, int64_t sample, const ResultTensors& answers) const {
    const EventRange events = source_->events_of(sample);
    const std::vector<int32_t> negatives = source_->negatives_of(sample);
    const EventGraph& graph = source_->graph();
    LinkScores scores, bank;
    for (int64_t k = 0; k < events.size(); ++k) {
      for (const ResultTensor& each : answers)
        (each.name == "event_score" ? scores.right : scores.wrong).push_back(each.get(k));
      const int64_t e = events.begin + k;
      bank.right.push_back(graph.met(graph.source(e), graph.target(e), events.begin));
      bank.wrong.push_back(graph.met(graph.source(e), negatives[static_cast<size_t>(k)], events.begin));
    }
    sums.precision += average_precision(scores), sums.auc += roc_auc(scores);
    sums.bank += average_precision(bank), ++sums.samples;
  }

  const std::shared_ptr<const EventSource> source_;
};

/// Throws Error where the layout shares samples among replicas: each sample needs the memory that the one before it
/// left.
void check_replicas(const Recipe& recipe) {
  const std::string source = layout_source(recipe);
  if (const int r = parse_layout(recipe.layout, source).r; r > 1)
    throw Error(
        {.what = "replicas would break the chain of a temporal graph network from one batch of events to the next",
         .where = source + " r",
         .found = "r=" + std::to_string(r),
         .expected = "r=1",
         .remedy = "Cut the network instead: t, phases, offload and recompute keep the chain and its bits"});
}

/// Temporal graph networks, on events.
class TgnKind final : public RecipeKind {
 public:
  std::string title() const override { return "tgn"; }
  std::vector<std::string> model_kinds() const override { return {"tgn"}; }
  bool takes(const Recipe& recipe) const override { return recipe.model.kind == "tgn" && !recipe.is_task(); }
  std::vector<RecipeKey> keys() const override { return tgn_keys(); }
  bool keeps_its_keys() const override { return true; }
  bool reads_text() const override { return false; }
  std::vector<std::string> data_kinds() const override { return {"events"}; }
  bool has_presets() const override { return false; }
  bool takes_any_batch(const Recipe&) const override { return false; }
  std::vector<std::string> presets(const Recipe&) const override { return {}; }

  void check(const Recipe& recipe) const override {
    if (recipe.places.count("train.micro_batch") && recipe.train.micro_batch != 1)
      throw Error({.what = "samples of one micro-batch would break the chain from one batch of events to the next",
                   .where = recipe.where("train.micro_batch"),
                   .found = std::to_string(recipe.train.micro_batch),
                   .expected = "1",
                   .remedy = "Leave the key out, and set data.events.batch for more events in a batch"});
  }

  void complete(Recipe&, int64_t) const override {}

  OpenedData open(Recipe& recipe, Preparation&) const override {
    check_replicas(recipe);
    OpenedEvents opened = open_events(recipe);
    recipe.train.micro_batch = 1;
    return {.make_workload = [opened = std::move(opened)](Preparation& made) {
      Workload& workload = made.workload;
      workload.train = opened.train;
      workload.units = {.name = "events", .per_sample = made.recipe.data.events.batch};
      const TgnTask task = opened.task_of(made.recipe);
      workload.model =
          for_key(made.recipe, "model.tgn.heads", [&] { return build_tgn(tgn_config_of(made.recipe), task); });
      workload.notes.push_back(note_of(opened, task.room));
      if (opened.held_out) workload.evaluator = std::make_unique<LinkEvaluator>(opened.held_out);
      settle_epochs(made.recipe, *workload.train);
      workload.data_identity = workload.train->identity().hex();
    }};
  }

  Model build_model(const Recipe& recipe) const override {
    const OpenedEvents opened = open_events(recipe);
    return for_key(recipe, "model.tgn.heads", [&] { return build_tgn(tgn_config_of(recipe), opened.task_of(recipe)); });
  }

  Error without_samples(const Recipe& recipe, bool held_out) const override {
    if (!held_out) return RecipeKind::without_samples(recipe, held_out);
    return Error({.what = "no part of the events is held out for evaluation",
                  .where = recipe.where("data.events.split"),
                  .remedy = "Make the set with `--apply split-by-time=70:15:15`, and name its field edge.split"});
  }

  PublishedModel published(const Recipe& recipe, const Tokenizer*) const override {
    throw Error({.what = "no class of transformers has this network",
                 .where = recipe.where("model.kind"),
                 .found = recipe.model.kind,
                 .remedy = "Name FILE.safetensors for its weights, which have PyTorch Geometric's names"});
  }
};

}  // namespace

const RecipeKind& tgn_kind() {
  static const TgnKind kind;
  return kind;
}

}  // namespace ramet::recipe
