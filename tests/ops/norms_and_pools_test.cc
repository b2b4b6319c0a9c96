// Norms over channels and pooling as functions: values and gradients by PyTorch, accuracy, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "ops/op_cases.h"
#include "ramet/base/error.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/build.h"
#include "ramet/ops/build_norm.h"
#include "ramet/ops/build_pooling.h"
#include "ramet/transform/differentiate.h"
#include "ramet/transform/fuse.h"
#include "ramet/transform/simplify.h"
#include "support/errors.h"

namespace ramet::tests {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16;

struct Peer {
  std::string name;
  std::vector<std::vector<double>> expected;  ///< the result, and gradients by a, gain and bias
};

/// By PyTorch 2.15 in f64, on a [2,4,3] with element i ((37 i) mod 101) / 8 - 6, and gain and bias below; the gradient
/// of the result's element i is ((29 i) mod 53) / 16 - 1.5.
std::vector<Peer> peers() {
  return {
      {"batch_norm",
       {{-1.16090104,  0.138767138, 1.43843532,    -1.70545052,  -1.05561643, -0.405782342, 1.05817578,   0.0834246465,
         -0.891326487, 2.50803106,  5.30846962,    0.464467793,  0.244145639, 1.54381382,   -0.704260869, -1.00292718,
         -0.353093092, -1.47713043, 0.00439077087, -0.970360362, 0.715695652, 5.53553221,   0.691530378,  3.49196894},
        {-0.402737314, 0.194455611,  -0.139194889, 0.148594816,  -0.126239069, 0.0643487595, 0.302052986,  -0.145841708,
         0.104396167,  1.09265901,   -0.290853291, -0.377028889, 0.219142762,  -0.114507738, 0.242841568,  -0.12265295,
         0.0679348783, -0.031986435, -0.164357071, 0.0858808032, -0.182131176, -0.29154428,  -0.377719878, 0.244487324},
        {-1.44346592, 2.10537463, -1.44346592, 3.36336455},
        {-2.4375, 0.375, 3.1875, -0.625}}},
      {"batch_norm_plain",
       {{-1.41090104,    -0.111232862, 1.18843532,   -1.41090104,    -0.111232862, 1.18843532,
         -1.41090104,    -0.111232862, 1.18843532,   -0.245984468,   1.15423481,   -1.2677661,
         -0.00585436116, 1.29381382,   -0.954260869, -0.00585436116, 1.29381382,   -0.954260869,
         -0.00585436116, 1.29381382,   -0.954260869, 1.2677661,      -1.15423481,  0.245984468},
        {-0.402737314, 0.194455611,  -0.139194889, 0.297189631,  -0.252478137, 0.128697519,
         -0.402737314, 0.194455611,  -0.139194889, 0.546329507,  -0.145426645, -0.188514444,
         0.219142762,  -0.114507738, 0.242841568,  -0.245305899, 0.135869757,  -0.06397287,
         0.219142762,  -0.114507738, 0.242841568,  -0.14577214,  -0.188859939, 0.122243662}}},
      {"batch_norm_apply",
       {{-4.34504546, -1.07549388, 2.19405769,   -4.1788033,  -0.911699908, 2.35540348, 2.75475786,  -0.0765210517,
         -2.90779996, -1.49775169, 7.74762678,   -8.24437922, -0.810395106, 2.45915647, -3.19628409, -0.646799633,
         2.62030376,  -3.03090211, -0.306084207, -3.13736312, 1.75998419,   8.49725206, -7.49475393, 1.75062453},
        {-1.06039511, 0.220915647,  -0.839479459, 0.441500458, -0.618100642, 0.662250687, 0.344344733, -0.765210517,
         0.153042103, 3.12343867,   0.124937547,  -2.87356358, 0.265098777,  -0.79529633, 0.486014424, -0.573950596,
         0.706400733, -0.353200367, -0.803471043, 0.114781578, -0.994773672, 0.249875094, -2.74862603, 0.874562828},
        {-1.08248667, 10.8609113, -2.83765567, 12.0018131},
        {-2.4375, 0.375, 3.1875, -0.625}}},
      {"group_norm",
       {{-1.12159187,  0.0867152531, 1.29502238,   -1.52251119, -0.918357627,  -0.314204063, 0.615479831,  -0.289397802,
         -1.19427543,  2.01088451,   4.42389153,   0.250041548, -0.0620370231, 1.32340736,   -1.07303698,  -0.968796298,
         -0.276074106, -1.47429628,  -0.221513041, -1.18574628, 0.482116618,   4.28564432,   -0.161990074, 2.40929856},
        {-0.243098214, 0.177271525,  -0.267767895,  0.216061058,  -0.0330366652, 0.15057019,
         0.1824841,    -0.281614961, -0.0976259884, 0.858045989,  -0.034035737,  -0.627253402,
         0.103026195,  -0.256492891, 0.131097189,   -0.106727457, 0.25455898,    -0.125462016,
         -0.170732567, -0.153742457, -0.0200774362, 0.0924673188, -0.229923921,  0.482009063},
        {-1.46878783, 2.36129629, -0.407527023, 3.37328778},
        {-2.4375, 0.375, 3.1875, -0.625}}},
      {"instance_norm",
       {{-0.974744442, 0.25,        1.47474444,   -1.61237222,  -1,          -0.387627779, 0.918558331,  -6.9388939e-18,
         -0.918558331, 2.74587687,  5.5666436,    0.687479531,  0.122938436, 1.5333218,    -0.906260235, -1.06353078,
         -0.358339101, -1.57813012, 0.0952961732, -0.962491349, 0.867195176, 5.31252047,   0.433356402,  3.25412313},
        {-0.146197001,  0.292393943,  -0.146196943,  0.0730984713,  -0.146196972, 0.0730985003,
         0.109647751,   -0.219295458, 0.109647707,   0.954721766,   -0.402772886, -0.55194888,
         0.0911791106,  -0.038466453, -0.0527126575, -0.0953146473, 0.040210981,  0.0551036663,
         -0.0683843329, 0.0288498398, 0.0395344931,  -0.220414665,  -0.160843924, 0.381258589},
        {-1.90358138, 2.34742208, -1.90358138, 3.50848744},
        {-2.4375, 0.375, 3.1875, -0.625}}},
      {"local_response_norm",
       {{-0.976079979, -0.878333707, 0.786107992, -0.681952085, -0.0735369034, 0.691658989, -0.72588263,  0.54109099,
         0.73046239,   -0.74246224,  1.14314468,  -0.857277722, -0.678553379,  0.787984338, -1.09788886,  0.145812167,
         0.677061467,  -0.733738224, 0.635023031, 0.754778836,  -0.691829587,  1.16710854,  -0.797086136, -0.351879041},
        {-0.0970469895, 0.158617137,  -0.216302231, 0.265607471,  -0.510520945, 0.255425645,
         -0.332305168,  0.513026442,  -0.235951213, 0.394992954,  -0.137254582, -0.0944046112,
         0.202092778,   -0.183676237, 0.0999746349, -0.477357319, 0.231321688,  -0.401657662,
         0.460492693,   -0.220313492, 0.451485317,  -0.161087044, -0.103639611, 0.188645217}}},
      {"local_response_norm_even",
       {{-1.02863021, -0.826064842, 1.11965426,  -0.58986598, -0.0749854668, 0.85164975,  -0.613081398, 0.717865462,
         0.760944822, -0.599840624, 0.986526038, -0.65251209, -0.657236181,  1.12043307,  -1.10215074,  0.163217288,
         0.822487288, -0.615485207, 0.866637563, 0.737446549, -0.576361385,  0.980905757, -0.606599887, -0.316586978},
        {0.0220815845, 0.137382664,   -0.123486845, 0.0971335785, -0.500234988,  0.0526767798,
         -0.265239308, 0.58160117,    -0.119845069, 0.28086818,   0.00894184586, -0.0548166234,
         0.165484131,  -0.0938729854, 0.0332606367, -0.574728797, 0.0435671514,  -0.284846852,
         0.43297653,   -0.111505283,  0.323572237,  0.012600568,  -0.0664612601, 0.208502986}}},
      {"lp_pool",
       {{6.02397453, 3.33005102, 4.75002885, 4.50003215, 3.53832249, 5.76431923, 2.91569412, 5.76273171, 3.65019116,
         5.0835946, 4.87521914, 5.27014183, 6.15484188, 6.18301804, 5.49034117, 5.25295091},
        {1.4880842,    0.0248715525,  0.297656224, 1.18748557,     0.000340112234, 0.62499107,
         0.856148927,  -0.0527449495, 0.932848071, 0.334968247,    -0.160905911,   -1.19096299,
         0.0187632813, 0.547939354,   -1.157269,   0.000164350773, -1.16752651,    0.505432648,
         0.0222730651, -0.732613866,  0.103455608, 0.172480271,    0.182960952,    0.0115020889}}},
      {"lp_pool_ceil",
       {{6.15553613, 4.59619408, 4.75164445, 6.36396103, 3.67636029, 8.13172798, 3.27156308, 7.95495129, 3.76040224,
         6.18718434, 4.88140605, 4.41941738, 6.30599913, 2.65165043, 5.9266348, 0.883883476},
        {1.46209848,  0.335064234, 0.441941738,  1.18708903,  0.031239185,  0.883883476,  0.833024991,  -0.267758033,
         1.32582521,  0.386856364, -0.408348385, -1.76776695, 0.0664822495, -0.240998155, -2.20970869,  0.003200922,
         0.062417979, 2.032932,    0.0892007735, 0.364236492, 1.59099026,   0.319004809,  -0.609009181, 1.14904852}}},
      {"adaptive_average_pool",
       {{-1.375, -0.125, 1.125, -1.83333333, -0.583333333, 0.666666667, 1.91666667, -1.04166667},
        {-0.5,         -0.5,        -0.5,        0.104166667, 0.104166667,  0.104166667,  -0.395833333, -0.395833333,
         -0.395833333, 0.208333333, 0.208333333, 0.208333333, -0.291666667, -0.291666667, -0.291666667, 0.3125,
         0.3125,       0.3125,      -0.1875,     -0.1875,     -0.1875,      0.416666667,  0.416666667,  0.416666667}}},
      {"adaptive_max_pool",
       {{-1.375, 3.25, -0.125, 4.5, 1.125, 5.75, 2.375, 2.375, 3.625, 3.625, 4.875, 4.875, 6.125, 6.125, 2.75, -0.625},
        {0, -1.5,   0.3125, 0, -1.1875, 0.625, 0, -0.875, 0.9375, 0,      0.6875, 0,
         0, 1.3125, 0,      0, -1.375,  0,     0, -0.75,  0,      0.6875, 0,      -0.8125}}},
      {"max_pool",
       {{-6,    -1.375, 3.25,  3.25,  -4.75,  -0.125, 4.5,   4.5,   -3.5,   1.125, 5.75,
         5.75,  -2.25,  2.375, 2.375, -5.625, -1,     3.625, 3.625, -4.375, 0.25,  4.875,
         4.875, -3.125, 1.5,   6.125, 6.125,  -1.875, 2.75,  2.75,  -0.625, -0.625},
        {-1.5, 0.3125, -0.5625, -0.875, 0.9375, 0.6875, -0.25,   1.5625, -1.375, 0.375,  -0.4375, -0.8125,
         1,    0.8125, -0.1875, 1.625,  -1.25,  0.4375, -1.0625, 0,      1.0625, 0.9375, 0,       1.5625}}},
      {"average_pool",
       {{-6,    -3.6875, 0.9375, 3.25,   -4.75,  -2.4375, 2.1875, 4.5,    -3.5,    -1.1875, 3.4375,
         5.75,  -2.25,   0.0625, -1.625, -5.625, -1,      1.3125, -0.375, -4.375,  0.25,    2.5625,
         0.875, -3.125,  1.5,    3.8125, 2.125,  -1.875,  2.75,   -1.25,  -2.9375, -0.625},
        {-1.34375, -0.4375, 0.03125, -0.40625, 0.1875, 0.96875, 0.53125, 0.8125, -1.40625, -0.1875, -0.21875, -0.46875,
         0.75,     0.40625, 0.46875, 1.6875,   -0.625, -0.25,   -0.6875, 0,      0.6875,   0.25,    0.625,    1.625}}},
  };
}
const std::vector<double> kGain{1, 0.5, -0.75, 2}, kBias{0.25, -1, 0, 3};

/// The function of a peer on a [2,4,3], or [2,3,4] with channels last.
Tensor apply(const std::string& name, Tensor a, Tensor gain, Tensor bias, bool last) {
  const auto vector = [&](std::vector<double> values) {
    return constant(*a.builder, TensorData(HostTensor::of(kF32, {4}, values)));
  };
  PoolOptions pairs{.taps = {2}, .strides = {1}, .channels_last = last}, padded = pairs, ceiling = pairs;
  padded.low = padded.high = {1};
  padded.count_padding = false;
  ceiling.strides = {2};
  ceiling.ceil_mode = true;
  if (name == "batch_norm") return batch_norm(a, gain, bias, 1e-5, last).output;
  if (name == "batch_norm_plain") return batch_norm(a, {}, {}, 1e-5, last).output;
  if (name == "batch_norm_apply")
    return batch_norm_apply(a, gain, bias, vector({0.5, -0.25, 1, 0}), vector({2, 0.5, 1.5, 1}), 1e-3, last);
  if (name == "group_norm") return group_norm(a, gain, bias, 2, 1e-5, last);
  if (name == "instance_norm") return instance_norm(a, gain, bias, 1e-5, last);
  if (name == "local_response_norm") return local_response_norm(a, 3, 0.5, 0.75, 1.5, last);
  if (name == "local_response_norm_even") return local_response_norm(a, 2, 0.5, 0.75, 1.5, last);
  if (name == "lp_pool") return lp_pool(a, pairs, 3);
  if (name == "lp_pool_ceil") return lp_pool(a, ceiling, 2, true);
  if (name == "adaptive_average_pool") return adaptive_average_pool(a, {1}, last);
  if (name == "adaptive_max_pool") return adaptive_max_pool(a, {2}, last);
  if (name == "max_pool") return max_pool(a, padded);
  return average_pool(a, padded);
}

std::vector<double> numbers(int64_t count, int64_t step, int64_t period, double scale, double shift) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * step % period) * scale + shift);
  return values;
}

/// Dimensions 1 and 2 of a [n0, n1, n2] exchanged.
HostTensor turned(const HostTensor& a) {
  const Shape& shape = a.type.shape;
  HostTensor made({a.type.dtype, Shape{shape[0], shape[2], shape[1]}});
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < shape[1]; ++j)
      for (int64_t k = 0; k < shape[2]; ++k)
        made.set((i * shape[2] + k) * shape[1] + j, a.get((i * shape[1] + j) * shape[2] + k));
  return made;
}

void expect_near(const HostTensor& found, const std::vector<double>& wanted, const std::string& what) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size())) << what;
  for (int64_t i = 0; i < found.elements(); ++i)
    EXPECT_NEAR(found.get(i), wanted[static_cast<size_t>(i)], 3e-5 * std::max(1.0, std::fabs(found.get(i))))
        << what << ", element " << i;
}

/// Forward and backward of a function, as training compiles them; results: the function's, then gradients.
Graph graph_of(const std::string& name, bool last) {
  Graph forward("forward");
  GraphBuilder build(forward);
  const Tensor a = build.state("a", kF32, last ? Shape{2, 3, 4} : Shape{2, 4, 3});
  const Tensor gain = build.state("gain", kF32, {4}), bias = build.state("bias", kF32, {4});
  const Tensor y = apply(name, a, gain, bias, last);
  build.output("y", y);
  build.output("loss", reduce_sum(multiply(y, build.input("slope", kF32, y.shape()))));
  return transform::fuse(transform::simplify(transform::differentiate(forward, "loss", {"a", "gain", "bias"})));
}

TEST(NormsAndPools, HaveThePeersValuesAndGradients) {
  for (const Peer& peer : peers())
    for (const bool last : {false, true})
      for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
        SCOPED_TRACE(peer.name + (last ? " channels last" : ""));
        const Graph graph = graph_of(peer.name, last);
        const Shape shape = graph.type(graph.find_output("y")->value).shape;
        const Shape first = last ? Shape{2, shape[2], shape[1]} : shape;
        HostTensor a = HostTensor::of(kF32, {2, 4, 3}, numbers(24, 37, 101, 0.125, -6));
        HostTensor slope = HostTensor::of(kF32, first, numbers(first.elements(), 29, 53, 0.0625, -1.5));
        if (peer.name == "lp_pool")  // which takes no powers of negative numbers there
          for (int64_t i = 0; i < a.elements(); ++i) a.set(i, std::fabs(a.get(i)));
        std::vector<double> signs(24, 1.0);
        if (peer.name == "lp_pool")
          for (size_t i = 0; i < 24; ++i) signs[i] = static_cast<double>(i * 37 % 101) * 0.125 - 6 < 0 ? -1 : 1;
        if (last) a = turned(a), slope = turned(slope);
        auto results = interpret(graph, *backend,
                                 {{"a", a},
                                  {"gain", HostTensor::of(kF32, {4}, kGain)},
                                  {"bias", HostTensor::of(kF32, {4}, kBias)},
                                  {"slope", slope}});
        const auto result = [&](const std::string& name) {
          for (size_t i = 0; i < results.size(); ++i)
            if (graph.outputs()[i].name == name) return results[i];
          ADD_FAILURE() << name;
          return results[0];
        };
        const auto of_input = [&](const std::string& name) { return last ? turned(result(name)) : result(name); };
        expect_near(of_input("y"), peer.expected[0], "result");
        HostTensor by_a = of_input("grad.a");
        for (int64_t i = 0; i < 24; ++i) by_a.set(i, by_a.get(i) * signs[static_cast<size_t>(i)]);
        expect_near(by_a, peer.expected[1], "gradient by a");
        if (peer.expected.size() == 2) continue;
        expect_near(result("grad.gain"), peer.expected[2], "gradient by gain");
        expect_near(result("grad.bias"), peer.expected[3], "gradient by bias");
      }
}

/// The normalising map takes in what stands around it, forward and backward; the backward pass reads `a`, the
/// result of the relu, and no other large value of the forward pass.
TEST(NormsAndPools, ABatchNormAndWhatFollowsAreOneMap) {
  Graph forward("forward");
  GraphBuilder build(forward);
  const Tensor a = build.state("a", kBF16, {8, 16, 16, 32}), skip = build.state("skip", kBF16, {8, 16, 16, 32});
  const Tensor normal =
      batch_norm(a, build.state("gain", kF32, {32}), build.state("bias", kF32, {32}), 1e-5, true).output;
  const Tensor y = relu(add(normal, skip));
  build.output("loss", reduce_sum(multiply(cast(y, kF32), build.input("slope", kF32, y.shape()))));
  const Graph graph =
      transform::fuse(transform::simplify(transform::differentiate(forward, "loss", {"a", "skip", "gain", "bias"})));
  const auto is_large = [&](ValueId value) { return graph.type(value).shape == y.shape(); };
  int forward_maps = 0, backward_maps = 0;
  std::set<ValueId> kept;
  for (const Node& node : graph.nodes()) {
    EXPECT_NE(node.op->name, "normalize_channels") << "a map that stands alone";
    const bool normalizes = node.op->name == "map" && is_large(node.outputs[0]) &&
                            node.attributes.get_string("program").find("subtract") != std::string::npos;
    (node.pass == NodePass::kForward ? forward_maps : backward_maps) += normalizes;
    if (node.pass == NodePass::kForward) continue;
    for (ValueId input : node.inputs) {
      const NodeId maker = graph.value(input).producer;
      if (is_large(input) && maker != kNoNode && graph.node(maker).pass == NodePass::kForward) kept.insert(input);
    }
  }
  EXPECT_EQ(forward_maps, 1);
  EXPECT_EQ(backward_maps, 1);
  EXPECT_EQ(kept.size(), 1u) << print(graph);
}

/// A mean a thousand times the deviation, which sums of squares would not survive.
TEST(NormsAndPools, MomentsOfNumbersFarFromZero) {
  for (const bool last : {false, true})
    for (const int64_t groups : {0, 2}) {
      const Shape shape = last ? Shape{40, 25, 33, 4} : Shape{40, 4, 25, 33};
      OpCase large{.op = "channel_moments", .name = "large", .inputs = {{{kF32, shape}, 4095, 4097}}};
      if (last) large.attributes.set("channels_last", true);
      if (groups) large.attributes.set("groups", groups);
      const auto inputs = inputs_of(large);
      const auto exact = interpret_node(signature_of(large), reference_backend(), inputs);
      const auto found = interpret_node(signature_of(large), cpu_backend(), inputs, 1, "hwy");
      for (int64_t i = 0; i < exact[0].elements(); ++i) {
        EXPECT_NEAR(found[0].get(i), exact[0].get(i), 1e-3);
        EXPECT_NEAR(found[1].get(i), exact[1].get(i), 2e-6);
      }
    }
}

/// Values of `make`'s result on a tensor of these numbers.
std::vector<double> values_of(const Shape& shape, const std::vector<double>& numbers,
                              const std::function<Tensor(Tensor)>& make) {
  Graph graph("values");
  GraphBuilder build(graph);
  build.output("out", make(build.input("a", kF32, shape)));
  const std::map<std::string, HostTensor> feeds{{"a", HostTensor::of(kF32, shape, numbers)}};
  const HostTensor expected = interpret(graph, reference_backend(), feeds).at(0);
  const HostTensor found = interpret(graph, cpu_backend(), feeds).at(0);
  std::vector<double> values;
  for (int64_t i = 0; i < found.elements(); ++i) {
    const double value = found.get(i);
    EXPECT_TRUE(std::isnan(value) ? std::isnan(expected.get(i)) : std::abs(value - expected.get(i)) < 1e-6);
    values.push_back(value);
  }
  return values;
}

TEST(NormsAndPools, TakeAnyFiniteEpsilonAndDivisor) {
  // Mean 0, variance 4: without epsilon 1 at 2; with -3 it is 2; with 12 it is 0.5.
  const std::vector<double> numbers{-2, 2, 2, -2};
  const auto normed = [&](double epsilon) {
    return values_of({1, 1, 4}, numbers, [=](Tensor a) { return group_norm(a, {}, {}, 1, epsilon); });
  };
  EXPECT_EQ(normed(0), (std::vector<double>{-1, 1, 1, -1}));
  EXPECT_EQ(normed(-3), (std::vector<double>{-2, 2, 2, -2}));
  EXPECT_EQ(normed(12), (std::vector<double>{-0.5, 0.5, 0.5, -0.5}));
  EXPECT_TRUE(std::isnan(normed(-5)[0]));
  const auto rows = [&](double epsilon) {
    return values_of({1, 4}, numbers, [=](Tensor a) {
      GraphBuilder& build = *a.builder;
      return layer_norm(a, full(build, kF32, {4}, 1), full(build, kF32, {4}, 0), epsilon);
    });
  };
  EXPECT_EQ(rows(0), (std::vector<double>{-1, 1, 1, -1}));
  EXPECT_EQ(rows(-3), (std::vector<double>{-2, 2, 2, -2}));
  EXPECT_EQ(values_of({1, 1, 4}, {1, 2, 3, 4}, [](Tensor a) { return average_pool(a, {.taps = {2}}, -2); }),
            (std::vector<double>{-1.5, -3.5}));
}

TEST(NormsAndPools, TakeTensorsOfNothing) {
  EXPECT_EQ(values_of({0}, {}, [](Tensor a) { return batch_norm(a, {}, {}, 1e-5).output; }).size(), 0u);
  EXPECT_EQ(values_of({0, 3, 2}, {}, [](Tensor a) { return local_response_norm(a, 3, 1e-4, 0.75, 1); }).size(), 0u);
  EXPECT_EQ(values_of({2, 3, 0}, {}, [](Tensor a) { return local_response_norm(a, 3, 1e-4, 0.75, 1); }).size(), 0u);
}

TEST(NormsAndPools, SayWhatDoesNotFit) {
  const auto refusal = [](const auto& make) {
    return error_of([&] {
      Graph graph("refused");
      GraphBuilder build(graph);
      make(build);
    });
  };
  const auto pool = [&](Shape shape, const PoolOptions& options) {
    return refusal([&](GraphBuilder& build) { max_pool(build.input("a", kF32, shape), options); });
  };
  EXPECT_THAT(pool({2, 3, 4, 4}, {.taps = {2}}), HasSubstr("'taps' must have one number for each spatial dimension; "
                                                           "found 1; expected 2"));
  EXPECT_THAT(pool({2, 3, 4}, {.taps = {5}}), HasSubstr("the window is larger than the padded input in spatial "
                                                        "dimension 0; found 5; expected at most 4"));
  EXPECT_THAT(pool({2, 3, 4}, {.taps = {2}, .low = {2}}), HasSubstr("a window has no element of the input"));
  EXPECT_THAT(pool({2, 3, 4}, {.taps = {0}}), HasSubstr("a number of 'taps' is out of range"));
  EXPECT_THAT(pool({2, 3, 4}, {.taps = {2}, .strides = {int64_t{1} << 40}}), HasSubstr("expected 1 to 2^20"));
  EXPECT_THAT(pool({2, 3}, {.taps = {2}}), HasSubstr("wrong rank; found f32[2,3]; expected rank 3 to 5"));
  EXPECT_THAT(pool({2, 3, 0}, {.taps = {1}}), HasSubstr("extent out of range in spatial dimension 0"));
  EXPECT_THAT(refusal([](GraphBuilder& build) { batch_norm(build.input("a", DType::kF64, {2, 3}), {}, {}, 1e-5); }),
              HasSubstr("statistics of channels are f32; found f64[2,3]; expected f32, bf16 or f16"));
  const auto norm = [&](Shape shape, Shape gain) {
    return refusal([&](GraphBuilder& build) {
      batch_norm(build.input("a", kF32, shape), build.input("gain", kF32, gain), {}, 1e-5);
    });
  };
  EXPECT_THAT(norm({1, 3}, {3}), HasSubstr("a batch norm has one element in each channel to take statistics of; found "
                                           "f32[1,3]; expected 2 elements or more. Make the micro-batch larger"));
  EXPECT_THAT(norm({4, 3}, {4}), HasSubstr("a vector does not have one number for each channel"));
  EXPECT_THAT(refusal([&](GraphBuilder& build) { group_norm(build.input("a", kF32, {2, 6, 4}), {}, {}, 4, 1e-5); }),
              HasSubstr("the groups do not divide the channels; found 4 groups; expected a divisor of 6"));
  EXPECT_THAT(refusal([&](GraphBuilder& build) { instance_norm(build.input("a", kF32, {2, 6, 1}), {}, {}, 1e-5); }),
              HasSubstr("an instance norm has one element in each channel"));
}

}  // namespace
}  // namespace ramet::tests
