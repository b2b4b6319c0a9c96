// A small convolutional network gives the bits of one device on every layout: tensor shards cut channels of filters and
// of depthwise groups, and sums over channels between their chunks.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "ramet/base/rng.h"
#include "ramet/model/blocks.h"
#include "ramet/ops/build_convolution.h"
#include "ramet/train/training.h"

namespace ramet::tests {
namespace {

constexpr int64_t kBatch = 2, kSize = 9, kStream = 8, kWide = 16, kClasses = 5, kLayers = 4;

/// Images to classes: a strided stem, four residual blocks (3 x 3 up, depthwise, 1 x 1 down), a mean over space.
class Network {
 public:
  Network(Graph& graph, Model* into) : model_(graph, into ? &into->weights : nullptr, 0.2, into != nullptr, 1) {}

  void write() {
    GraphBuilder& build = model_.build();
    const Tensor image = build.input("image", DType::kF32, {kBatch, 3, kSize, kSize}, {"batch", "", "", ""});
    const Tensor labels = build.input("label", DType::kI32, {kBatch}, {"batch"});
    Tensor x = filter(image, "stem", {kStream, 3, 3, 3}, {kEmbed, kNoAxis},
                      {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}});
    for (int64_t i = 0; i < kLayers; ++i) {
      PartScope layer(build, "layer", i);
      const std::string name = "layer." + std::to_string(i);
      const ConvolutionOptions same{.low = {1, 1}, .high = {1, 1}};
      Tensor wide = relu(filter(x, name + ".up", {kWide, kStream, 3, 3}, {kMlp, kEmbed}, same));
      ConvolutionOptions depthwise = same;
      depthwise.groups = kWide;
      wide = gelu(filter(wide, name + ".depthwise", {kWide, 1, 3, 3}, {kMlp, kNoAxis}, depthwise));
      x = add(x, filter(wide, name + ".down", {kStream, kWide, 1, 1}, {kEmbed, kMlp}, {}));
    }
    Scope head(build, "head");
    const Tensor logits = model_.dense(reduce_mean(x, {2, 3}), "head", kClasses, kNoAxis, kEmbed);
    const CrossEntropy measured = cross_entropy(logits, labels);
    build.output("loss", measured.loss);
    build.output("correct", measured.correct);
    build.output("counted", measured.count);
  }

 private:
  /// A convolution with a bias; axes of the filter's first two dimensions.
  Tensor filter(Tensor x, const std::string& name, Shape shape, std::vector<LogicalAxis> axes,
                const ConvolutionOptions& options) {
    const LogicalAxis out = axes[0];
    axes.resize(static_cast<size_t>(shape.rank()));
    const int64_t filters = shape[0];
    return convolution(x, model_.matrix(name + ".weight", std::move(shape), std::move(axes)),
                       model_.vector(name + ".bias", filters, out, 0.1), options);
  }

  ModelBuilder model_;
};

struct Images final : Source {
  Signature signature(int64_t count) const override {
    return {{"image", {DType::kF32, {count, 3, kSize, kSize}}}, {"label", {DType::kI32, {count}}}};
  }
  void fill(int64_t first, int64_t count, const Places& places) const override {
    constexpr int64_t kPixels = 3 * kSize * kSize;
    for (int64_t i = 0; i < count; ++i) {
      const RandomStream stream(7, RandomPurpose::kTest, static_cast<uint64_t>(first + i), 0);
      for (int64_t j = 0; j < kPixels; ++j)
        put(places, 0, i * kPixels + j, static_cast<float>(stream.normal(static_cast<uint64_t>(j))));
      put(places, 1, i, static_cast<int32_t>(stream.below(10000, kClasses)));
    }
  }
  Hash identity() const override { return hash_text("drawn images"); }
  int64_t epoch_of(int64_t) const override { return 0; }
  int64_t epoch_samples(int64_t) const override { return 0; }

 private:
  template <typename T>
  static void put(const Places& places, size_t tensor, int64_t element, T value) {
    std::memcpy(places.tensors[tensor] + element * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
};

Workload workload() {
  Workload made;
  made.model.name = "small convolutional network";
  Network(made.model.forward, &made.model).write();
  Network(made.model.evaluate, nullptr).write();
  made.model.metrics = {{.name = "loss", .numerator = "loss", .how = Metric::How::kMean},
                        share_metric("accuracy", "correct", "counted")};
  made.model.guards = {"loss"};
  made.train = made.held_out = std::make_shared<Images>();
  made.units = {.name = "images"};
  return made;
}

TrainOptions options(const std::string& precision) {
  TrainOptions made;
  made.steps = 2, made.micro_batch = kBatch, made.accumulation = 4, made.lanes = 4, made.chunks = 4;
  made.precision = precision;
  made.schedule.kind = "constant", made.schedule.learning_rate = 0.02;
  made.evaluation.batches = 2;
  return made;
}

struct Outcome {
  std::vector<double> losses, norms;
  Numbers evaluation;
  std::string hash;
};

Outcome outcome_of(const std::string& precision, const std::string& layout, int threads) {
  Training training(workload(), options(precision), parse_layout(layout), {.threads = threads});
  training.initialize();
  Outcome outcome;
  for (int64_t step = 0; step < training.options().steps; ++step) {
    const Numbers numbers = training.step();
    outcome.losses.push_back(number_of(numbers, "loss"));
    outcome.norms.push_back(number_of(numbers, "grad_norm"));
  }
  outcome.evaluation = training.evaluate();
  outcome.hash = training.weights_hash();
  return outcome;
}

TEST(ConvolutionLayouts, HaveTheBitsOfOneDevice) {
  for (const std::string precision : {"f32", "bf16"}) {
    const Outcome one = outcome_of(precision, "", 1);
    EXPECT_LT(one.losses.back(), one.losses.front()) << precision;
    for (const auto& [layout, threads] :
         std::vector<std::pair<std::string, int>>{{"", 3},
                                                  {"t=2", 1},
                                                  {"t=4", 1},
                                                  {"t=2x2", 1},
                                                  {"r=2", 1},
                                                  {"r=4 rts=weights,grads,optimizer", 1},
                                                  {"p=2", 1},
                                                  {"p=4 head=first", 1},
                                                  {"phases=2 offload=weights,optimizer,activations", 1},
                                                  {"p=2 t=2 r=2 rts=optimizer recompute=layer", 1},
                                                  {"recompute=all", 2}}) {
      SCOPED_TRACE(precision + " '" + layout + "'");
      const Outcome many = outcome_of(precision, layout, threads);
      EXPECT_EQ(many.losses, one.losses);
      EXPECT_EQ(many.norms, one.norms);
      EXPECT_EQ(many.evaluation, one.evaluation);
      EXPECT_EQ(many.hash, one.hash);
    }
  }
}

/// The network converts its images once: no other activation changes the order of its dimensions.
TEST(ConvolutionLayouts, ConvertOnce) {
  Training training(workload(), options("f32"), parse_layout(""), {.threads = 1});
  std::set<std::string> transposed;
  int convolutions = 0;
  for (const Executable& exe : training.cluster().stages())
    for (const Call& call : exe.calls) {
      const NodeSignature& node = call.node;
      if (node.op->name == "transpose" && node.inputs[0].shape.rank() == 4) transposed.insert(node.inputs[0].text());
      if (node.op->name != "convolution") continue;
      ++convolutions;
      EXPECT_TRUE(node.attributes.get_bool_or("channels_last", false)) << node.text();
    }
  EXPECT_EQ(convolutions, 5)
      << "stem, up, down, and depthwise with and without its activation, whose gradient reads the "
         "result: equal calls are one";
  EXPECT_EQ(transposed, std::set<std::string>{"f32[2,3,9,9]"}) << "the images alone";
}

}  // namespace
}  // namespace ramet::tests
