// Attention with biases, masks, windows, grouped heads; rotary positions. Expected values are
// torch.nn.functional.scaled_dot_product_attention's in double, of inputs sin(step i + offset) in their memory order.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/op_cases.h"
#include "ramet/base/rng.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr DType kF32 = DType::kF32, kI32 = DType::kI32, kI64 = DType::kI64;

CaseInput wave(Shape shape, double step, double offset = 0) {
  CaseInput input{{kF32, std::move(shape)}, 0, 0, {}};
  for (int64_t i = 0; i < input.type.elements(); ++i)
    input.values.push_back(std::sin(static_cast<double>(i) * step + offset));
  return input;
}
CaseInput fixed(CaseInput input) {
  input.differentiate = false;
  return input;
}

/// Sizes of an attention.
struct Sizes {
  int64_t batch, queries, keys, heads, key_heads, size, value_size;
};
std::vector<CaseInput> parts(const Sizes& s) {
  return {wave({s.batch, s.queries, s.heads, s.size}, 0.7), wave({s.batch, s.keys, s.key_heads, s.size}, 1.3, 0.5),
          wave({s.batch, s.keys, s.key_heads, s.value_size}, 0.9, 0.2)};
}

/// An attention of `sizes` with scale 0.5 and more inputs behind the value.
OpCase attention_case(const std::string& name, const Sizes& sizes, Attributes attributes, std::vector<CaseInput> more,
                      std::vector<double> expected) {
  OpCase made{.op = "attention", .name = name, .inputs = parts(sizes), .attributes = std::move(attributes)};
  made.attributes.set("packed", false);
  if (!made.attributes.has("scale")) made.attributes.set("scale", 0.5);
  made.inputs.insert(made.inputs.end(), more.begin(), more.end());
  made.expected = {std::move(expected)};
  made.gradient_outputs = {0};
  return made;
}

void add_peers(std::vector<OpCase>& cases) {
  const Sizes cross{2, 2, 3, 2, 2, 2, 2}, square{1, 4, 4, 2, 2, 2, 2};
  const Attributes biased{{"biased", true}}, masked{{"masked", true}}, causal{{"causal", true}};
  cases.push_back(attention_case("bias_of_heads", cross, biased, {wave({1, 2, 2, 3}, 0.4, 1)},
                                 {0.08205174769, 0.186297214, 0.0806916059, -0.1153588546, 0.114079692, 0.3153516552,
                                  0.3683648198, 0.05669413042, -0.2712521707, -0.09967059828, 0.1135762234,
                                  0.4646197418, -0.175806722, -0.02265443983, 0.3260738286, 0.3205741888}));
  cases.push_back(attention_case("bias_of_samples", cross, biased, {wave({2, 1, 1, 3}, 0.4, 1)},
                                 {0.08205174769, 0.186297214, 0.01947071114, -0.2047214649, 0.1846430468, 0.2790540711,
                                  0.3412031433, 0.0730268576, -0.3822180854, -0.2245764677, 0.09756123297, 0.4402273456,
                                  -0.175806722, -0.02265443983, 0.1618305269, 0.2161607723}));
  cases.push_back(attention_case("bias_of_all", cross, biased, {wave({2, 2, 2, 3}, 0.4, 1)},
                                 {0.08205174769, 0.186297214, 0.0806916059, -0.1153588546, 0.114079692, 0.3153516552,
                                  0.3683648198, 0.05669413042, -0.2609603411, -0.01242585086, 0.09527036622,
                                  0.4169967195, -0.1648681451, 0.09602252755, 0.1744899525, 0.2452346913}));
  // attn_mask = [[1, 0, 1], [0, 1, 1]]
  cases.push_back(attention_case("mask_of_scores", cross, masked,
                                 {{{DType::kBool, {1, 1, 2, 3}}, 0, 1, {1, 0, 1, 0, 1, 1}}},
                                 {0.4747278952, 0.895531166, 0.3909294628, -0.4134762975, 0.1825014728, 0.0003290213558,
                                  -0.2946145332, -0.1160276775, -0.8430698261, -0.2742524642, 0.4063909312,
                                  0.9011306688, 0.02959514286, 0.2303336802, 0.2774887472, 0.1140929989}));
  cases.push_back(attention_case("bias_that_hides", cross, biased,
                                 {fixed({{kF32, {1, 1, 2, 3}}, 0, 1, {0, -kInfinite, 0, -kInfinite, 0, 0}})},
                                 {0.4747278952, 0.895531166, 0.3909294628, -0.4134762975, 0.1825014728, 0.0003290213558,
                                  -0.2946145332, -0.1160276775, -0.8430698261, -0.2742524642, 0.4063909312,
                                  0.9011306688, 0.02959514286, 0.2303336802, 0.2774887472, 0.1140929989}));
  cases.push_back(
      attention_case("causal_top_left", cross, causal, {},
                     {0.1986693293, 0.8912073374, 0.9092974067, 0.2392493337, -0.1829208935, 0.0008770485725,
                      0.4173493371, 0.2315441136, -0.9999902248, -0.6181371212, 0.2315098196, 0.9059547186,
                      0.1806613463, -0.1043202176, -0.3133722647, -0.2881321656}));
  cases.push_back(
      attention_case("causal_bottom_right", cross, {{"causal", true}, {"bottom_right", true}}, {},
                     {-0.1859308558, -0.006145826993, -0.1402078778, 0.2228112791, 0.1881225096, 0.3100583767,
                      0.3839017646, 0.08420394608, -0.2020930558, -0.270894071, -0.06113740326, 0.2646302548,
                      -0.180185643, 0.05745547407, 0.2684654389, 0.2694948929}));
  cases.push_back(attention_case("grouped", {1, 2, 3, 4, 2, 2, 2}, {}, {},
                                 {0.09057585841, 0.2254113505, 0.06786422648, 0.3403792466, 0.161575883, -0.02367378056,
                                  0.3839017646, 0.08420394608, 0.1945397817, 0.2355583886, 0.05825130779, 0.2952519962,
                                  0.06375120715, -0.1236067285, 0.3064735364, 0.0581191458}));
  cases.push_back(
      attention_case("multi_query", {1, 2, 3, 3, 1, 2, 2}, {}, {},
                     {0.05540394648, 0.0479272778, 0.1048238682, 0.2399787002, 0.2627664064, 0.09814652312,
                      0.3215750771, -0.03254434908, 0.1086145128, -0.06236753645, 0.06677808158, 0.1860366194}));
  cases.push_back(
      attention_case("value_size", {1, 2, 3, 2, 2, 2, 3}, {}, {},
                     {-0.4003205713, 0.2674063351, 0.7327654556, 0.79750288, 0.4218494292, -0.2730512643, -0.4692123694,
                      0.1643319339, 0.673513102, 0.5292040488, -0.131999149, -0.6933080026}));
  // attn_mask = (k <= q) & (k >= q - 1), then (k <= q + 1) & (k >= q - 1)
  cases.push_back(
      attention_case("window", square, {{"causal", true}, {"window_left", int64_t{1}}}, {},
                     {0.1986693293, 0.8912073374, 0.9092974067, 0.2392493337, -0.1829208935, 0.0008770485725,
                      0.4173493371, 0.2315441136, 0.193142604, 0.01372826604, -0.1110518257, -0.2965890295,
                      -0.1268365986, 0.08100674516, 0.2274575997, 0.1862192079}));
  cases.push_back(
      attention_case("window_of_both_sides", square, {{"window_left", int64_t{1}}, {"window_right", int64_t{1}}}, {},
                     {-0.1859308558, -0.006145826993, -0.1402078778, 0.2228112791, 0.1881225096, 0.3100583767,
                      0.3839017646, 0.08420394608, -0.1695680469, -0.178357896, -0.0009451383359, 0.08993441922,
                      -0.1268365986, 0.08100674516, 0.2274575997, 0.1862192079}));
  // attn_mask = -slope |q - k|, -infinity where k > q
  cases.push_back(attention_case("alibi", square, {{"causal", true}, {"alibi", true}},
                                 {fixed({{kF32, {2}}, 0, 1, {0.25, 0.0625}})},
                                 {0.1986693293, 0.8912073374, 0.9092974067, 0.2392493337, -0.2335121729, -0.1171630525,
                                  0.3961888852, 0.2312126845, 0.2696529727, 0.2721914355, 0.05632071647, -0.2248117862,
                                  -0.2004428199, 0.02351727766, 0.2754174919, 0.2222663507}));
  // torch.softmax(1.5 tanh(2 q k^T / 1.5)) v
  cases.push_back(
      attention_case("soft_cap", square, {{"scale", 2.0}, {"soft_cap", 1.5}}, {},
                     {-0.09138738806, 0.1164912487, -0.007488752561, 0.06329565537, -0.3213197429, -0.05705215226,
                      0.6969415105, 0.2384960853, -0.01901508663, 0.01674763608, 0.05880218632, 0.09505101072,
                      0.03078701172, 0.5009210295, 0.5860123486, 0.230621725}));
}

/// Attention of random sizes and options.
void add_random(std::vector<OpCase>& cases) {
  const RandomStream random(20, RandomPurpose::kTest, 0, 0);
  uint64_t drawn = 0;
  const auto below = [&](int64_t count) {
    return static_cast<int64_t>(random.below(drawn++, static_cast<uint32_t>(count)));
  };
  const auto chance = [&](int64_t of) { return below(of) == 0; };
  for (int which = 0; which < 40; ++which) {
    const int64_t key_heads = 1 + below(3), group = 1 + below(3), size = 1 + below(5);
    Sizes s{below(4), 1 + below(5), 1 + below(6), key_heads * group, key_heads, size, chance(2) ? size : 1 + below(5)};
    if (chance(12)) s.queries = 0;
    if (chance(12)) s.keys = 0;
    Attributes attributes{{"scale", 0.25 * static_cast<double>(1 + below(4))}};
    if (chance(2)) attributes.set("causal", true);
    if (chance(3)) attributes.set("bottom_right", true);
    if (chance(3)) attributes.set("window_left", below(4));
    if (chance(4)) attributes.set("window_right", below(3));
    if (chance(4)) attributes.set("soft_cap", 1.5);
    std::vector<CaseInput> more;
    const auto broadcast = [&] {
      return Shape{chance(2) ? 1 : s.batch, chance(2) ? 1 : s.heads, chance(3) ? 1 : s.queries, chance(3) ? 1 : s.keys};
    };
    if (chance(2)) attributes.set("biased", true), more.push_back({{kF32, broadcast()}, -1, 1});
    if (chance(4)) attributes.set("alibi", true), more.push_back(fixed({{kF32, Shape{s.heads}}, 0, 0.5}));
    if (chance(3)) {
      const DType dtype = chance(2) ? kI32 : DType::kBool;
      attributes.set("masked", true);
      more.push_back({{dtype, chance(3) ? Shape{s.batch, s.keys} : broadcast()}, 0, 1});
    }
    if (chance(4)) {
      attributes.set("dropout", 0.3).set("seed", int64_t{7}).set("tensor", int64_t{99});
      more.push_back({{kI64, Shape{2}}, 0, 0, {3, 5}});
    }
    OpCase made = attention_case("random_" + std::to_string(which), s, std::move(attributes), std::move(more), {});
    made.expected.clear();
    for (size_t i = 0; i < 3; ++i) made.inputs[i] = {made.inputs[i].type, -1, 1};
    cases.push_back(std::move(made));
  }
}

/// The gradient of `forward` as a case of its own: its inputs are the forward pass's results.
OpCase gradient_case(const OpCase& forward, Attributes more) {
  std::vector<HostTensor> values = inputs_of(forward);
  for (HostTensor& result : interpret_node(signature_of(forward), reference_backend(), values))
    values.push_back(std::move(result));
  OpCase made{.op = "attention_grad", .name = forward.name, .inputs = {}, .attributes = forward.attributes};
  for (const HostTensor& value : values) made.inputs.push_back({.type = value.type, .values = value.values()});
  const Shape out = values[values.size() - 2].type.shape;
  made.inputs.push_back(wave(out, 0.3, 0.1));
  for (const auto& [name, value] : more) made.attributes.set(name, value);
  made.low_types = false;
  return made;
}

void add_gradients(std::vector<OpCase>& cases) {
  const Attributes biased{{"biased", true}};
  const Sizes grouped{2, 2, 3, 4, 2, 2, 3};
  // By torch's autograd, for the gradient sin(0.3 i + 0.1) of the output.
  OpCase peer = gradient_case(attention_case("peer", grouped, biased, {wave({1, 4, 2, 3}, 0.4, 1)}, {}),
                              {{"bias_gradient", true}});
  peer.expected = {
      {0.1227755955,  0.120576374,   0.2699681621,  0.1898108293,  0.1416855651,  0.341178496,    0.01046985163,
       0.00587847136, -0.2737707466, -0.2551251184, -0.3756021537, -0.3019754817, -0.06466497299, -0.158265805,
       0.08686062202, 0.1509839413,  0.2208234089,  0.2348926094,  0.2651551824,  0.3015672606,   0.02351362883,
       0.04342305896, -0.1094067099, -0.3461763068, -0.1821282026, -0.1622178836, -0.1854713645,  -0.2015038313,
       0.05211909733, 0.1610658242,  0.1584386292,  0.388766166},
      {0.1419415515,   -0.04132295013, 0.06072043023, 0.2006230032, -0.03877982679, -0.00603119447,
       -0.02516746493, -0.04184328387, -0.1031617247, 0.0473541446, -0.0355529653,  -0.1587797194,
       -0.05824167272, -0.1606247793,  0.2463353295,  0.2625229888, 0.03735148421,  0.0272023767,
       -0.06659655269, -0.02433494158, 0.02089018851, 0.1334224026, -0.1797387769,  -0.2381880472},
      {-0.08502550541, 0.02508730478,  0.1329590969,  0.3825992238, 0.3847127466,  0.3524610052,
       -0.2597679411,  -0.200613692,   -0.1235392335, 0.1769890742, 0.2202911512,  0.2439152587,
       -0.2374293281,  -0.2107522123,  -0.1652492334, 0.1327088403, 0.1853209243,  0.2213788243,
       -0.1434988764,  -0.03326345384, 0.07994331344, 0.4818438815, 0.4772852047,  0.430092068,
       0.09156087649,  0.1605018672,   0.2151057166,  0.1665960861, 0.1257245639,  0.07362244756,
       0.1541438725,   0.2103431914,   0.2477531846,  0.1190310926, 0.04625436771, -0.03065411625},
      {-0.1675825534, 0.0321816564,   0.135400897,  -0.07202696614, -0.120946882,   0.1929738481,
       0.04424163814, -0.2341104486,  0.1898688105, -0.2765630442,  0.1336533173,   0.142909727,
       -0.3079712619, -0.06529597858, 0.3732672404, 0.3518449064,   0.02348722093,  -0.3753321273,
       -0.4048037305, 0.008289802338, 0.3965139282, 0.2826307536,   -0.03415385421, -0.2484768994}};
  cases.push_back(std::move(peer));
  // Along every set of dimensions, with the sums over heads in chunks or not.
  int number = 0;
  for (const Shape& shape : {Shape{1, 4, 1, 3}, Shape{2, 1, 2, 3}, Shape{1, 1, 2, 3}, Shape{1, 1, 1, 1},
                             Shape{2, 4, 2, 1}, Shape{2, 4, 2, 3}, Shape{1, 1, 1, 3}})
    for (int64_t chunks : {1, 2}) {
      if (chunks > 1 && shape[1] != 1) continue;
      OpCase forward = attention_case("bias_" + std::to_string(number++), grouped, biased, {wave(shape, 0.4, 1)}, {});
      Attributes more{{"bias_gradient", true}};
      if (chunks > 1) more.set("chunks", chunks);
      cases.push_back(gradient_case(forward, more));
    }
  OpCase capped = attention_case("capped", grouped, {{"biased", true}, {"soft_cap", 0.75}, {"scale", 2.0}},
                                 {wave({1, 4, 2, 3}, 0.4, 1)}, {});
  cases.push_back(gradient_case(capped, {{"bias_gradient", true}}));
  OpCase windowed =
      attention_case("windowed", {2, 5, 5, 4, 2, 2, 2}, {{"causal", true}, {"window_left", int64_t{1}}}, {}, {});
  cases.push_back(gradient_case(windowed, {}));
}

void add_cached(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, Attributes attributes, std::vector<CaseInput> more) {
    attributes.set("scale", 0.5);
    OpCase made{.op = "cached_attention",
                .name = name,
                .inputs = {wave({2, 2, 4, 3}, 0.7),
                           wave({2, 6, 2, 3}, 1.3),
                           wave({2, 6, 2, 2}, 0.9),
                           {{kI32, Shape{2}}, 0, 0, {3, 0}}},
                .attributes = std::move(attributes)};
    made.inputs.insert(made.inputs.end(), more.begin(), more.end());
    cases.push_back(std::move(made));
  };
  add("grouped", {}, {});
  add("grouped_window", {{"window_left", int64_t{1}}}, {});
  add("grouped_bias", {{"biased", true}}, {wave({2, 4, 2, 6}, 0.4)});
  add("grouped_bias_of_keys", {{"biased", true}, {"soft_cap", 2.0}}, {wave({1, 4, 1, 6}, 0.4)});
  add("grouped_alibi", {{"alibi", true}}, {wave({4}, 0.4)});
}

void add_rotary(std::vector<OpCase>& cases) {
  const auto add = [&](const std::string& name, Shape shape, Shape angles, Attributes attributes) {
    cases.push_back({.op = "rotary",
                     .name = name,
                     .inputs = {{{kF32, std::move(shape)}}, fixed({{kF32, angles}}), fixed({{kF32, angles}})},
                     .attributes = std::move(attributes)});
  };
  for (bool neighbours : {false, true}) {
    const std::string suffix = neighbours ? "_neighbours" : "_halves";
    const Attributes attributes = neighbours ? Attributes{{"neighbours", true}} : Attributes{};
    add("whole" + suffix, {2, 4, 2, 6}, {4, 3}, attributes);
    add("part_of_samples" + suffix, {2, 4, 2, 7}, {2, 4, 2}, attributes);
    add("wide" + suffix, {1, 2, 3, 70}, {2, 33}, attributes);
    add("nothing" + suffix, {2, 0, 2, 6}, {0, 3}, attributes);
    add("no_pairs" + suffix, {2, 2, 2, 3}, {2, 0}, attributes);
    Attributes back = attributes;
    add("back" + suffix, {2, 3, 1, 8}, {3, 4}, back.set("back", true));
  }
  // apply_rotary_pos_emb of transformers' gpt_neox and gptj, with frequencies 1 and 0.01.
  for (bool neighbours : {false, true}) {
    CaseInput cosine{{kF32, {3, 2}}, 0, 0, {}}, sine = cosine;
    for (int position = 0; position < 3; ++position)
      for (double frequency : {1.0, 0.01}) {
        cosine.values.push_back(std::cos(position * frequency));
        sine.values.push_back(std::sin(position * frequency));
      }
    OpCase peer{.op = "rotary",
                .name = neighbours ? "peer_neighbours" : "peer_halves",
                .inputs = {wave({1, 3, 2, 4}, 0.7), fixed(cosine), fixed(sine)}};
    if (neighbours) peer.attributes.set("neighbours", true);
    if (neighbours)
      peer.expected = {{0,
                        0.64421767,
                        0.9854497313,
                        0.8632093668,
                        0.334988147,
                        -0.3507832289,
                        -0.8715757728,
                        -0.982452631,
                        -0.3552232378,
                        -0.5221079835,
                        0.6470722274,
                        0.994688588,
                        0.1932297397,
                        0.8915297371,
                        -0.3576639937,
                        -0.8833165189,
                        0.9695522016,
                        -0.6331279677,
                        0.02022581972,
                        0.670108297,
                        -1.181273531,
                        0.5488018807,
                        0.3106986452,
                        -0.3759330311}};
    else
      peer.expected = {{0,
                        0.64421767,
                        0.9854497313,
                        0.8632093668,
                        0.334988147,
                        -0.3507832289,
                        -0.8715757728,
                        -0.982452631,
                        -0.893909985,
                        0.006931541932,
                        -0.1762212009,
                        0.9882869678,
                        0.7701232986,
                        0.3278792097,
                        0.5211106428,
                        -0.8764608584,
                        0.3769083576,
                        -0.631404001,
                        -0.9043558999,
                        0.6570739626,
                        -0.6878628618,
                        0.8532185902,
                        0.7746150007,
                        -0.3650811853}};
    cases.push_back(std::move(peer));
  }
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases) {
  add_peers(cases);
  add_random(cases);
  add_gradients(cases);
  add_cached(cases);
  add_rotary(cases);
}

}  // namespace ramet::tests
