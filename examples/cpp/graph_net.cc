// graph_net [LAYOUT [STEPS [KIND]]]: a network of the library on graphs of one's own. Each graph is a ring, or a ring
// in which one edge has moved and made a shortcut; the network learns to tell them apart. Every layout prints the same
// lines.
#include <ramet/ramet.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

using namespace ramet;

namespace {

struct Rings {
  GraphLists lists{.node_ptr = {0}, .edge_ptr = {0}, .source = {}, .target = {}};
  std::vector<float> degree;
  std::vector<int32_t> shortcut, split;

  explicit Rings(int64_t count) {
    std::mt19937 random(1);
    for (int64_t g = 0; g < count; ++g) {
      const int32_t nodes = 6 + static_cast<int32_t>(random() % 8);
      const bool moved = g % 2 == 1;
      std::vector<float> edges(static_cast<size_t>(nodes));
      const auto connect = [&](int32_t a, int32_t b) {
        lists.source.insert(lists.source.end(), {a, b}), lists.target.insert(lists.target.end(), {b, a});
        ++edges[static_cast<size_t>(a)], ++edges[static_cast<size_t>(b)];
      };
      for (int32_t i = 0; i + 1 < nodes; ++i) connect(i, i + 1);
      connect(nodes - 1, moved ? 2 : 0);
      degree.insert(degree.end(), edges.begin(), edges.end());
      shortcut.push_back(moved), split.push_back(g % 10 >= 8);
      lists.node_ptr.push_back(lists.node_ptr.back() + nodes);
      lists.edge_ptr.push_back(static_cast<int64_t>(lists.source.size()));
    }
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Rings rings(400);
  const GraphSet set(rings.lists,
                     {{"node.degree", rings.degree}, {"graph.y", rings.shortcut}, {"graph.split", rings.split}});
  GraphNetOptions options{.kind = argc > 3 ? argv[3] : "gin", .features = {"node.degree"}, .label = "graph.y"};
  options.split = "graph.split", options.train = "0", options.held_out = "1";
  options.layers = 4, options.batch = "count:16", options.dropout = 0;

  const Data data = Data::graphs(options, set);
  Training training(graph_net(options, set),
                    {.schedule = {.learning_rate = 1e-2},
                     .micro_batches = 2,
                     .lanes = 2,
                     .chunks = 2,
                     .layout = argc > 1 ? argv[1] : ""},
                    data, data.held_out());
  const int64_t steps = argc > 2 ? std::stoll(argv[2]) : 100;
  while (training.steps_done() < steps) {
    const StepResult step = training.step();
    if (step.step % 10 == 0) std::printf("step %lld: loss %.9g\n", static_cast<long long>(step.step), step.loss);
  }
  std::printf("held out: accuracy %.2f%%\n", 100 * training.evaluate()["accuracy"]);
  const Arrays answers = graph_answers(training, options, set);
  std::printf("graph %g: class %g, %.6g sure\n", answers["graph"].at(0), answers["classes"].at(0),
              answers["probabilities"].at(static_cast<int64_t>(answers["classes"].at(0))));
  std::printf("weights %s\n", training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
