// encoder_decoder [LAYOUT [STEPS]]: trains an encoder and a decoder to reverse rows of digits. Shows two stacks of
// parts, attention from the decoder to the encoder, and samples that the program makes. Every layout prints the same
// lines.
#include <ramet/ramet.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>

using namespace ramet;

namespace {

constexpr int64_t kLength = 8, kDigits = 10, kBegin = 10, kVocabulary = 12, kWidth = 32, kHeads = 4, kInner = 64;

/// The model's blocks, for one builder.
struct Blocks {
  ModelBuilder& m;
  int64_t samples;

  Tensor dense(Tensor x, const std::string& name, int64_t out, const char* out_axis, const char* in_axis) const {
    return linear(x, m.weight(name + ".weight", {out, x.dim(-1)}, Init::fan_in(1), {.axes = {out_axis, in_axis}}),
                  m.weight(name + ".bias", {out}, Init::zeros(), {.axes = {out_axis}}));
  }
  Tensor norm(Tensor x, const std::string& name) const {
    return layer_norm(x, m.weight(name + ".gain", {kWidth}, Init::ones(), {.axes = {"embed"}}),
                      m.weight(name + ".bias", {kWidth}, Init::zeros(), {.axes = {"embed"}}));
  }
  Tensor embed(const std::string& input) const {
    const Tensor ids = m.input(input, DType::kI32, {samples, kLength},
                               {.axes = {"batch", "positions"}, .low = 0, .high = kVocabulary - 1});
    const Tensor words =
        m.weight(input + ".words", {kVocabulary, kWidth}, Init::normal(0.5), {.axes = {"vocab", "embed"}});
    return gather(words, ids) +
           m.weight(input + ".positions", {kLength, kWidth}, Init::normal(0.5), {.axes = {"", "embed"}});
  }
  /// Attention of `x` to `seen`, both [samples, kLength, kWidth]; the result has the same shape.
  Tensor attend(Tensor x, Tensor seen, const std::string& name, bool causal) const {
    const auto heads = [&](Tensor from, const char* part) {
      return reshape(dense(from, name + part, kWidth, "heads", "embed"), {samples, kLength, kHeads, kWidth / kHeads});
    };
    const Tensor mixed =
        attention(heads(x, ".query"), heads(seen, ".key"), heads(seen, ".value"), Tensor(), {.causal = causal});
    return dropout(dense(reshape(mixed, {samples, kLength, kWidth}), name + ".out", kWidth, "embed", "heads"), 0.05);
  }
  Tensor feed_forward(Tensor x, const std::string& name) const {
    return dense(gelu(dense(x, name + ".up", kInner, "mlp", "embed")), name + ".down", kWidth, "embed", "mlp");
  }
};

Model encoder_decoder(int64_t samples) {
  ModelBuilder m("encoder_decoder");
  m.axis_units("heads", kHeads);
  const Blocks b{m, samples};
  Tensor x = b.embed("digits");
  for (int i = 0; i < 2; ++i) {
    PartScope part(m, "encoder", i);
    const std::string name = "encoder." + std::to_string(i);
    const Tensor normed = b.norm(x, name + ".norm1");
    x = x + b.attend(normed, normed, name + ".self", false);
    x = x + b.feed_forward(b.norm(x, name + ".norm2"), name);
  }
  const Tensor seen = b.norm(x, "encoder.norm");
  Tensor y = b.embed("before");
  for (int i = 0; i < 2; ++i) {
    PartScope part(m, "decoder", i);
    const std::string name = "decoder." + std::to_string(i);
    const Tensor normed = b.norm(y, name + ".norm1");
    y = y + b.attend(normed, normed, name + ".self", true);
    y = y + b.attend(b.norm(y, name + ".norm2"), seen, name + ".cross", false);
    y = y + b.feed_forward(b.norm(y, name + ".norm3"), name);
  }
  Scope head(m, "head");
  const Tensor logits = b.dense(b.norm(y, "decoder.norm"), "head", kVocabulary, "vocab", "embed");
  const Tensor wanted = m.input("wanted", DType::kI32, {samples, kLength}, {.axes = {"batch", "positions"}});
  const CrossEntropy entropy =
      cross_entropy(reshape(logits, {samples * kLength, kVocabulary}), reshape(wanted, {samples * kLength}));
  m.loss(entropy.loss, entropy.count);
  m.metric("right", Ratio{entropy.correct, entropy.count});
  return m.build();
}

/// Samples [first, first + count): random digits, the digits in reverse order (`wanted`), and the decoder's input
/// (`before`): for each digit of `wanted` the one before it.
struct Samples {
  std::vector<int32_t> digits, before, wanted;
  Samples(int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      uint64_t state = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u + 1;
      for (int64_t at = 0; at < kLength; ++at) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        digits.push_back(static_cast<int32_t>((state >> 33) % kDigits));
      }
      for (int64_t at = 0; at < kLength; ++at) {
        wanted.push_back(digits[digits.size() - 1 - static_cast<size_t>(at)]);
        before.push_back(at == 0 ? kBegin : wanted[wanted.size() - 2]);
      }
    }
  }
  NamedViews views() const { return {{"digits", digits}, {"before", before}, {"wanted", wanted}}; }
};

}  // namespace

int main(int argc, char** argv) try {
  const int64_t steps = argc > 2 ? std::stoll(argv[2]) : 300;
  Training training(encoder_decoder(8), {.schedule = {.learning_rate = 3e-3, .warmup_steps = 20},
                                         .micro_batches = 4,
                                         .lanes = 2,
                                         .chunks = 2,
                                         .max_gradient_norm = 1,
                                         .layout = argc > 1 ? argv[1] : ""});
  const int64_t samples = training.samples_per_step();
  for (int64_t step = 0; step < steps; ++step) {
    const Samples made(step * samples, samples);
    const StepResult result = training.step(made.views());
    if (step % 25 == 0 || step + 1 == steps)
      std::printf("step %lld: loss %.9g, right %.9g, |g| %.9g\n", static_cast<long long>(step), result.loss,
                  result.metrics["right"], result.gradient_norm);
  }
  const Samples others(1'000'000, 64);
  std::printf("unseen: right %.9g\n", training.evaluate(others.views())["right"]);
  std::printf("weights %s\n", training.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
