#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/ops/recurrent.h"

namespace ramet::tests {
namespace {

constexpr DType kF32 = DType::kF32, kI32 = DType::kI32;

CaseInput f32(Shape shape, double low = -1, double high = 1) { return {{kF32, std::move(shape)}, low, high}; }
CaseInput lengths_of(std::vector<double> lengths) {
  const auto samples = static_cast<int64_t>(lengths.size());
  return {{kI32, Shape{samples}}, 0, 0, std::move(lengths)};
}

/// Multiples of 1/64 in (-1, 1): ((37 i + 101 seed) mod 127 - 63) / 64 for element i.
CaseInput grid(const Shape& shape, int64_t seed) {
  CaseInput input{{kF32, shape}};
  for (int64_t i = 0; i < shape.elements(); ++i)
    input.values.push_back((static_cast<double>((i * 37 + seed * 101) % 127) - 63) / 64);
  return input;
}

using Expected = std::vector<std::vector<double>>;

/// Values that torch.nn.LSTM, GRU and RNN give in float64, with the inputs' weight the identity. The ragged cases are
/// the reverse direction of a bidirectional module on a packed sequence of lengths 3 and 1.
void add_peers(std::vector<OpCase>& cases) {
  const Shape state{2, 2};
  const auto add = [&](const std::string& op, const std::string& name, std::vector<CaseInput> inputs,
                       Attributes attributes, const Expected& expected) {
    cases.push_back({.op = op,
                     .name = "peer_" + name,
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .expected = expected,
                     .gradient_outputs = op == "lstm" ? std::vector{0, 1, 2} : std::vector{0, 1},
                     .gradient_tolerance = name.starts_with("relu") ? 0 : 1e-3});
  };
  const auto add_both = [&](const std::string& op, const std::string& name, const std::vector<CaseInput>& inputs,
                            const Attributes& attributes, const Expected& forward, const Expected& ragged) {
    add(op, name, inputs, attributes, forward);
    std::vector<CaseInput> more = inputs;
    more.push_back(lengths_of({3, 1}));
    Attributes reverse = attributes;
    reverse.set("reverse", true).set("ragged", true);
    add(op, name + "_reverse_ragged", more, reverse, ragged);
  };
  add_both("lstm", "lstm", {grid({3, 2, 8}, 1), grid({8, 2}, 2), grid(state, 3), grid(state, 4)}, {},
           {{0.0699007914783, -0.0844615041167, 0.275056983262, -0.0634387520077, 0.0692504973241, 0.164335997964,
             0.313786146309, -0.159398478847, -0.0232006523129, 0.133317882952, 0.148967154044, 0.124289536525},
            {-0.0232006523129, 0.133317882952, 0.148967154044, 0.124289536525},
            {-0.0354540115905, 0.368147068144, 0.528562347233, 0.261360851606}},
           {{0.180245370442, 0.148461216319, 0.275056983262, -0.0634387520077, -0.0724999900839, 0.232978037976, 0, 0,
             -0.352655991356, 0.0533425703017, 0, 0},
            {0.180245370442, 0.148461216319, 0.275056983262, -0.0634387520077},
            {0.358232403627, 0.214401708816, 0.582390957244, -0.202649358377}});
  add_both("gru", "gru", {grid({3, 2, 6}, 1), grid({6, 2}, 2), grid(state, 3), grid({2}, 5)}, {{"biased", true}},
           {{0.498009132812, 0.0319709080166, 0.91167245835, -0.729604197208, 0.488738353301, 0.21279621078,
             0.702896554632, -0.532322418374, 0.737702609716, -0.111351462515, 0.770843374699, 0.123304313598},
            {0.737702609716, -0.111351462515, 0.770843374699, 0.123304313598}},
           {{0.737081982996, -0.106045389566, 0.91167245835, -0.729604197208, 0.489444281628, 0.209402673567, 0, 0,
             0.498841050507, 0.0246634536466, 0, 0},
            {0.737081982996, -0.106045389566, 0.91167245835, -0.729604197208}});
  add_both("rnn", "tanh", {grid({3, 2, 2}, 1), grid({2, 2}, 2), grid(state, 3)}, {},
           {{0.679336486949, -0.60107222454, -0.394805742036, -0.223691846217, 0.529215375146, -0.707423806893,
             -0.150390693524, 0.734660380299, -0.826429903948, -0.422773724217, 0.742555133762, -0.732428924478},
            {-0.826429903948, -0.422773724217, 0.742555133762, -0.732428924478}},
           {{0.521364634681, -0.842126866288, -0.394805742036, -0.223691846217, 0.667196514662, -0.183689640468, 0, 0,
             -0.462309139438, -0.0385550976993, 0, 0},
            {0.521364634681, -0.842126866288, -0.394805742036, -0.223691846217}});
  add_both("rnn", "relu", {grid({3, 2, 2}, 1), grid({2, 2}, 2), grid(state, 3)}, {{"activation", "relu"}},
           {{0.827880859375, 0, 0, 0, 1.07710266113, 0, 0.09375, 0.671875, 0, 0, 0.953857421875, 0},
            {0, 0, 0.953857421875, 0}},
           {{0.7666015625, 0, 0, 0, 0.921875, 0, 0, 0, 0, 0, 0, 0}, {0.7666015625, 0, 0, 0}});
  add("lstm", "projection", {grid({3, 2, 8}, 1), grid({8, 1}, 2), grid({2, 1}, 3), grid(state, 4), grid({1, 2}, 6)},
      {{"projected", true}},
      {{0.095347136991, 0.170936888067, -0.116638624601, 0.348890532969, -0.113846878999, -0.0138005671706},
       {-0.113846878999, -0.0138005671706},
       {-0.0328813465872, 0.373251538074, 0.333550889088, 0.162932652274}});
}

/// Values of ONNX's reference implementation (onnx 1.23 in float64): GRU with linear_before_reset = 0, and LSTM with
/// peepholes; ONNX orders the gates otherwise.
void add_onnx_peers(std::vector<OpCase>& cases) {
  cases.push_back(
      {.op = "gru",
       .name = "peer_reset_before",
       .inputs = {grid({3, 2, 6}, 1), grid({6, 2}, 2), grid({2, 2}, 3)},
       .attributes = {{"reset_after", false}},
       .expected = {{0.33602131592, 0.0765442238464, 0.844378895972, -0.686249855476, 0.242501053064, 0.35051707909,
                     0.599556456646, -0.456784798077, 0.55752270189, 0.0332467730681, 0.628542560539, 0.246849770442},
                    {0.55752270189, 0.0332467730681, 0.628542560539, 0.246849770442}},
       .gradient_outputs = {0, 1}});
  cases.push_back({.op = "lstm",
                   .name = "peer_peepholes",
                   .inputs = {grid({3, 2, 8}, 1), grid({8, 2}, 2), grid({2, 2}, 3), grid({2, 2}, 4), grid({3, 2}, 5)},
                   .attributes = {{"peepholes", true}},
                   .expected = {{0.0382780732727, -0.0854584304176, 0.235572649627, -0.0449861122372, 0.0573756329129,
                                 0.164821765522, 0.23401470201, -0.14130582796, -0.0454589068779, 0.134539829808,
                                 0.132813999394, 0.140074676721},
                                {-0.0454589068779, 0.134539829808, 0.132813999394, 0.140074676721},
                                {-0.0682046273687, 0.385359999879, 0.665739378038, 0.304500388121}},
                   .gradient_outputs = {0, 1, 2}});
}

/// GRU of one step with the weight of gate n alone: narrow, and wider than vectors.
void add_only_n(std::vector<OpCase>& cases) {
  for (const int64_t hidden : {3, 33}) {
    const CaseInput x = f32({1, 4, 3 * hidden}, -2, 2), weight = f32({hidden, hidden}, -0.2, 0.2),
                    state = f32({4, hidden}), bias = f32({hidden}), gates = f32({1, 4, 4 * hidden}, 0.1, 0.9),
                    sequence = f32({1, 4, hidden});
    const double tolerance = hidden > 16 ? 0 : 1e-3;
    const std::string name = "only_n_" + std::to_string(hidden);
    const auto add = [&](const std::string& op, const std::string& suffix, std::vector<CaseInput> inputs,
                         const Attributes& more, std::vector<int> outputs) {
      Attributes attributes = more;
      attributes.set("only_n", true);
      cases.push_back({.op = op,
                       .name = name + suffix,
                       .inputs = std::move(inputs),
                       .attributes = attributes,
                       .gradient_outputs = std::move(outputs),
                       .gradient_tolerance = tolerance});
    };
    add("gru", "", {x, weight, state}, {}, {0, 1});
    add("gru", "_biased_ragged", {x, weight, state, bias, lengths_of({1, 0, 1, 2})},
        {{"biased", true}, {"ragged", true}}, {0, 1});
    add("gru_grad", "", {weight, state, sequence, gates, sequence, state}, {}, {});
    add("gru_grad", "_ragged", {weight, state, sequence, gates, sequence, state, lengths_of({1, 0, 1, 2})},
        {{"ragged", true}, {"first_state", false}}, {});
  }
}

/// A case drawn from numbers of a stream.
class Draw {
 public:
  explicit Draw(uint64_t index) : index_(index), stream_(2024, RandomPurpose::kTest, index, 7) {
    const bool wide = index % 3 == 2;  // wider than vectors, not differentiated
    steps_ = wide ? pick({1, 4}) : pick({1, 2, 3, 4, 0});
    batch_ = wide ? pick({2, 5, 16, 19}) : pick({1, 2, 3, 4, 0});
    hidden_ = wide ? pick({16, 33, 70, 129}) : pick({1, 2, 3, 4, 5});
    state_ = hidden_;
    attributes_ = {};
    wide_ = wide;
  }

  void add(std::vector<OpCase>& cases) {
    if (chance()) attributes_.set("reverse", true), name_ += "_reverse";
    ragged_ = chance();
    if (ragged_) attributes_.set("ragged", true), name_ += "_ragged";
    switch (index_ % 4) {
      case 0:
      case 1: return lstm(cases);
      case 2: return gru(cases);
      default: return rnn(cases);
    }
  }

 private:
  int64_t pick(const std::vector<int64_t>& from) {
    return from[stream_.below(next_++, static_cast<uint32_t>(from.size()))];
  }
  bool chance() { return stream_.below(next_++, 2) == 0; }

  CaseInput weight(int64_t rows, int64_t columns) const {
    const double most = wide_ ? 0.15 : 0.6;
    return f32({rows, columns}, -most, most);
  }
  CaseInput sequence(int64_t width, double low = -1, double high = 1) const {
    return f32({steps_, batch_, width}, low, high);
  }
  CaseInput rows(int64_t width) const { return f32({batch_, width}); }

  void lstm(std::vector<OpCase>& cases) {
    const bool projected = chance(), peepholes = index_ % 8 < 4 && chance();
    if (projected) state_ = pick({1, 2, hidden_});
    if (projected) attributes_.set("projected", true), name_ += "_projected";
    if (peepholes) attributes_.set("peepholes", true), name_ += "_peepholes";
    std::vector<CaseInput> optional;
    if (peepholes) optional.push_back(f32({3, hidden_}));
    if (projected) optional.push_back(weight(state_, hidden_));
    put(cases, "lstm", {sequence(4 * hidden_, -2, 2), weight(4 * hidden_, state_), rows(state_), rows(hidden_)},
        optional, {0, 1, 2});
    put(cases, "lstm_grad",
        {weight(4 * hidden_, state_), rows(state_), rows(hidden_), sequence(state_), sequence(4 * hidden_, 0.1, 0.9),
         sequence(hidden_), sequence(state_), rows(state_), rows(hidden_)},
        optional, {});
  }

  void gru(std::vector<OpCase>& cases) {
    const bool after = chance(), biased = after && chance();
    if (!after) attributes_.set("reset_after", false), name_ += "_reset_before";
    const Attributes shared = attributes_;
    std::vector<CaseInput> optional;
    if (biased) attributes_.set("biased", true), optional.push_back(f32({hidden_}));
    put(cases, "gru", {sequence(3 * hidden_, -2, 2), weight(3 * hidden_, hidden_), rows(hidden_)}, optional, {0, 1});
    attributes_ = shared;
    put(cases, "gru_grad",
        {weight(3 * hidden_, hidden_), rows(hidden_), sequence(hidden_), sequence((after ? 4 : 3) * hidden_, 0.1, 0.9),
         sequence(hidden_), rows(hidden_)},
        {}, {});
  }

  void rnn(std::vector<OpCase>& cases) {
    const bool relu = chance();
    if (relu) attributes_.set("activation", std::string("relu")), name_ += "_relu";
    smooth_ = !relu;
    put(cases, "rnn", {sequence(hidden_, -2, 2), weight(hidden_, hidden_), rows(hidden_)}, {}, {0, 1});
    put(cases, "rnn_grad",
        {weight(hidden_, hidden_), rows(hidden_), sequence(hidden_), sequence(hidden_), rows(hidden_)}, {}, {});
  }

  void put(std::vector<OpCase>& cases, const std::string& op, std::vector<CaseInput> inputs,
           const std::vector<CaseInput>& optional, std::vector<int> gradient_outputs) {
    inputs.insert(inputs.end(), optional.begin(), optional.end());
    if (ragged_) {
      std::vector<double> lengths;
      for (int64_t sample = 0; sample < batch_; ++sample)
        lengths.push_back(static_cast<double>(stream_.below(next_++, static_cast<uint32_t>(steps_ + 2))));
      inputs.push_back(lengths_of(std::move(lengths)));
    }
    Attributes attributes = attributes_;
    // Some backward passes give no gradient of the first state.
    const bool without = op.ends_with("_grad") && index_ % 3 == 0;
    if (without) attributes.set("first_state", false);
    cases.push_back({.op = op,
                     .name = "drawn_" + std::to_string(index_) + name_ + (without ? "_no_first_state" : ""),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .gradient_outputs = std::move(gradient_outputs),
                     .gradient_tolerance = wide_ || !smooth_ ? 0 : 1e-3,
                     // A state that a kernel rounds the other way, one in some thousands, shows in all later steps.
                     .low_types = !wide_ || steps_ == 1});
  }

  uint64_t index_, next_ = 0;
  RandomStream stream_;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0, state_ = 0;
  bool wide_ = false, ragged_ = false, smooth_ = true;
  Attributes attributes_;
  std::string name_;
};

}  // namespace

void add_recurrent_cases(std::vector<OpCase>& cases) {
  add_peers(cases);
  add_onnx_peers(cases);
  add_only_n(cases);
  for (uint64_t index = 0; index < 48; ++index) Draw(index).add(cases);
}

}  // namespace ramet::tests
