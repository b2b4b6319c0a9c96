// messages [LAYOUT [STEPS]]: a network on graphs with a message of its own. Each node learns how many of its neighbours
// are of another colour. Every layout prints the same lines.
#include <ramet/ramet.h>

#include <cstdio>
#include <random>
#include <string>

using namespace ramet;

namespace {

constexpr int64_t kColours = 3, kWidth = 32, kLayers = 2, kGraphs = 64;
const GraphEdgesOptions kSizes{.nodes = 50, .edges = 300, .samples = 4};

/// The message of an edge is the ReLU of a layer on both of its nodes; a node sums its messages.
Tensor layer(ModelBuilder& m, const GraphEdges& graph, const Tensor& x, const std::string& name) {
  const int64_t width = x.dim(-1);
  const Tensor to = m.weight(name + ".target", {kWidth, width}, Init::fan_in());
  const Tensor of = m.weight(name + ".source", {kWidth, width}, Init::fan_in());
  const Tensor targets = linear(x, to, m.weight(name + ".bias", {kWidth}));
  const Tensor message = relu(graph.of_targets(targets) + graph.of_sources(matmul(x, of, false, true)));
  return graph.sum(message);
}

Model build() {
  ModelBuilder m("colours");
  const GraphEdges graph(m, kSizes);
  const Tensor colours =
      m.input("colours", DType::kI32, {kSizes.samples, kSizes.nodes}, {.low = 0, .high = kColours - 1});
  const Tensor wanted = m.input("wanted", DType::kF32, {kSizes.samples, kSizes.nodes, 1});
  Tensor x = one_hot(colours, kColours);
  for (int64_t i = 0; i < kLayers; ++i) {
    const PartScope part(m, "layer", i);
    x = layer(m, graph, x, "layer." + std::to_string(i));
  }
  const Tensor found = linear(x, m.weight("out", {1, kWidth}, Init::fan_in()), m.weight("out.bias", {1}));
  m.loss(mse_loss(found, wanted));
  return m.build();
}

/// Random graphs: a sample is a graph.
struct Graphs {
  EdgeLists edges{kSizes};
  std::vector<int32_t> colours;
  std::vector<float> wanted;

  Graphs() {
    std::mt19937 random(1);
    const auto below = [&](int64_t bound) { return static_cast<int32_t>(random() % static_cast<uint64_t>(bound)); };
    for (int64_t g = 0; g < kGraphs; ++g) {
      std::vector<int32_t> source(static_cast<size_t>(100 + below(200))), target(source.size()), own(kSizes.nodes);
      for (int32_t& colour : own) colour = below(kColours);
      std::vector<float> others(kSizes.nodes);
      for (size_t e = 0; e < source.size(); ++e) {
        source[e] = below(kSizes.nodes), target[e] = below(kSizes.nodes);
        const auto from = static_cast<size_t>(source[e]), to = static_cast<size_t>(target[e]);
        others[to] += own[from] != own[to];
      }
      edges.add(source, target);
      colours.insert(colours.end(), own.begin(), own.end());
      wanted.insert(wanted.end(), others.begin(), others.end());
    }
  }
  NamedViews views() const {
    NamedViews all = edges.views();
    all.emplace_back("colours", colours), all.emplace_back("wanted", wanted);
    return all;
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Graphs graphs;
  Training training(build(),
                    {.schedule = {.learning_rate = 5e-3},
                     .micro_batches = 4,
                     .lanes = 2,
                     .chunks = 2,
                     .layout = argc > 1 ? argv[1] : ""},
                    Data::arrays(graphs.views()));
  const int64_t steps = argc > 2 ? std::stoll(argv[2]) : 300;
  while (training.steps_done() < steps) {
    const StepResult step = training.step();
    if (step.step % 20 == 0) std::printf("step %lld: loss %.9g\n", static_cast<long long>(step.step), step.loss);
  }
  std::printf("weights %s\n", training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
