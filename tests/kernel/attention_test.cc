#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/kernel_tools.h"
#include "ramet/kernel/cpu/attention.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/interpret.h"

namespace ramet::tests {
namespace {

struct Case {
  int64_t batch, sequence, heads, head_size;
  DType dtype = DType::kF32;
  bool packed = true, causal = false, masked = false;
  double dropout = 0;
  bool segments = false;  ///< with a mask that numbers sequences

  std::string text() const {
    return std::to_string(batch) + "x" + std::to_string(sequence) + "x" + std::to_string(heads) + "x" +
           std::to_string(head_size) + " " + std::string(name_of(dtype)) + (packed ? " packed" : "") +
           (causal ? " causal" : "") + (masked ? " masked" : "") + (segments ? " segments" : "") +
           (dropout > 0 ? " dropout" : "");
  }

  Attributes attributes() const {
    Attributes all{{"packed", packed}, {"scale", 1.0 / std::sqrt(static_cast<double>(head_size))}};
    if (causal) all.set("causal", true);
    if (masked || segments) all.set("masked", true);
    if (segments) all.set("segments", true);
    if (dropout > 0) all.set("dropout", dropout).set("seed", int64_t{5}).set("tensor", int64_t{77});
    return all;
  }

  /// Samples in turn: two long runs, several short ones, nothing but padding.
  double run_number(int64_t sample, int64_t position) const {
    if (sample % 3 == 2) return 0;
    if (sample % 3 == 0) return position < sequence / 3 ? 1 : position < sequence - 2 ? 2 : 0;
    const int64_t step = position % 13;
    return step < 5 ? 1 : step < 6 ? 0 : step < 12 ? 2 : 3;
  }

  std::vector<HostTensor> inputs() const {
    const Shape part{batch, sequence, heads, head_size};
    std::vector<HostTensor> all;
    if (packed)
      all.push_back(random_tensor(dtype, {batch, sequence, 3, heads, head_size}, 1));
    else
      for (uint64_t i = 0; i < 3; ++i) all.push_back(random_tensor(dtype, part, 1 + i));
    if (masked) {
      // Every third key hidden; the whole second sample, so that its queries see nothing.
      HostTensor mask(TensorType{DType::kI32, {batch, sequence}});
      for (int64_t i = 0; i < mask.elements(); ++i) mask.set(i, i / sequence == 1 || i % 3 == 1 ? 0 : 1);
      all.push_back(mask);
    }
    if (segments) {
      // Runs of many lengths, with padding between and behind; numbers come again, which are then other sequences.
      HostTensor mask(TensorType{DType::kI32, {batch, sequence}});
      for (int64_t i = 0; i < mask.elements(); ++i) mask.set(i, run_number(i / sequence, i % sequence));
      all.push_back(mask);
    }
    if (dropout > 0) all.push_back(HostTensor::of(DType::kI64, {2}, {3, 4}));
    return all;
  }
};

struct Results {
  std::vector<HostTensor> forward, gradients;
};

Results run(const Case& one, const std::string& kernel, int threads) {
  Results results;
  auto inputs = one.inputs();
  results.forward =
      interpret_node(node_of("attention", inputs, one.attributes()), cpu_backend(), inputs, threads, kernel);
  inputs.push_back(results.forward[0]);
  inputs.push_back(results.forward[1]);
  inputs.push_back(random_tensor(one.dtype, results.forward[0].type.shape, 9));
  results.gradients =
      interpret_node(node_of("attention_grad", inputs, one.attributes()), cpu_backend(), inputs, threads, kernel);
  return results;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (bool causal : {false, true})
      for (bool masked : {false, true})
        for (double dropout : {0.0, 0.25}) {
          all.push_back({2, 40, 2, 16, dtype, true, causal, masked, dropout});
          all.push_back({2, 37, 1, 5, dtype, false, causal, masked, dropout});
          all.push_back({1, 136, 2, 64, dtype, true, causal, masked, dropout});
        }
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (double dropout : {0.0, 0.25}) {
      all.push_back({3, 40, 2, 16, dtype, true, false, false, dropout, true});
      all.push_back({2, 37, 1, 5, dtype, false, true, false, dropout, true});
      all.push_back({2, 210, 1, 64, dtype, true, false, false, dropout, true});
    }
  all.push_back({1, 1, 1, 1, DType::kF32});
  all.push_back({1, 70, 1, 256, DType::kBF16, true, true});
  all.push_back({1, 67, 1, 200, DType::kF32, false, true});
  all.push_back({1, 259, 1, 80, DType::kBF16, true, true, false, 0.1});
  return all;
}

TEST(Attention, AgreesWithTheReferenceAndWithAnyTeam) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.text());
    const Results expected = run(one, "reference", 1), found = run(one, "tiles", 1);
    const double tolerance = one.dtype == DType::kF32 ? 2e-5 : one.dtype == DType::kF16 ? 4e-3 : 2.5e-2;
    EXPECT_EQ(compare(found.forward[0], expected.forward[0], tolerance), "");
    EXPECT_EQ(compare(found.forward[1], expected.forward[1], tolerance), "");
    for (size_t i = 0; i < found.gradients.size(); ++i)
      EXPECT_EQ(compare(found.gradients[i], expected.gradients[i], 2 * tolerance), "") << "gradient " << i;
    for (int threads : {2, 3}) {
      const Results again = run(one, "tiles", threads);
      EXPECT_EQ(found.forward, again.forward) << threads;
      EXPECT_EQ(found.gradients, again.gradients) << threads;
    }
  }
}

/// A sample and a head give the same bits alone as among others (but for dropout, whose draws they would shift).
TEST(Attention, SamplesAndHeadsAreIndependent) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Case whole{3, 150, 2, 64, dtype, false, true};
    const Results all = run(whole, "tiles", 2);
    Case part = whole;
    part.batch = 1;
    const auto inputs = whole.inputs();
    std::vector<HostTensor> some;
    for (const auto& input : inputs) {
      HostTensor cut(TensorType{dtype, {1, 150, 2, 64}});
      std::copy_n(input.data.begin() + static_cast<std::ptrdiff_t>(cut.data.size()), cut.data.size(), cut.data.begin());
      some.push_back(cut);
    }
    const auto found = interpret_node(node_of("attention", some, part.attributes()), cpu_backend(), some, 1, "tiles");
    EXPECT_TRUE(std::equal(found[0].data.begin(), found[0].data.end(),
                           all.forward[0].data.begin() + static_cast<std::ptrdiff_t>(found[0].data.size())));
  }
}

/// Positions [begin, begin + length) of a sample of a tensor [B,S,...] or, with `by_head`, [B,heads,S].
std::vector<double> part_of(const HostTensor& tensor, int64_t sample, int64_t begin, int64_t length, bool by_head) {
  const auto& dims = tensor.type.shape.dims();
  const int64_t heads = by_head ? dims[1] : 1, sequence = by_head ? dims[2] : dims[1];
  const int64_t width = tensor.elements() / (dims[0] * heads * sequence);
  std::vector<double> values;
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = begin * width; i < (begin + length) * width; ++i)
      values.push_back(tensor.get(((sample * heads + head) * sequence) * width + i));
  return values;
}

/// A sequence that shares its row has the bits of one that is alone in a row, padded, whatever the type.
TEST(Attention, SequencesOfARowHaveTheBitsOfThoseAlone) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (bool causal : {false, true}) {
      Case packed{2, 300, 2, 64, dtype, true, causal, false, 0, true};
      const Results all = run(packed, "tiles", 2);
      const auto inputs = packed.inputs();
      const HostTensor dout = random_tensor(dtype, all.forward[0].type.shape, 9);
      int runs = 0;
      for (int64_t b = 0; b < packed.batch; ++b)
        for (int64_t begin = 0, end; begin < packed.sequence; begin = end) {
          for (end = begin; end < packed.sequence && packed.run_number(b, end) == packed.run_number(b, begin);) ++end;
          if (packed.run_number(b, begin) == 0) {
            for (double value : part_of(all.gradients[0], b, begin, end - begin, false)) ASSERT_EQ(value, 0);
            continue;
          }
          // Alone, with garbage behind the end that the mask hides, and no gradient there.
          Case one{1, packed.sequence, 2, 64, dtype, true, causal, true};
          std::vector<HostTensor> values{random_tensor(dtype, {1, packed.sequence, 3, 2, 64}, 77),
                                         HostTensor(TensorType{DType::kI32, {1, packed.sequence}})};
          HostTensor slope(TensorType{dtype, {1, packed.sequence, 2, 64}});
          for (int64_t i = 0; i < end - begin; ++i) {
            values[1].set(i, 1);
            for (int64_t d = 0; d < 3 * 2 * 64; ++d)
              values[0].set(i * 384 + d, inputs[0].get((b * packed.sequence + begin + i) * 384 + d));
            for (int64_t d = 0; d < 2 * 64; ++d)
              slope.set(i * 128 + d, dout.get((b * packed.sequence + begin + i) * 128 + d));
          }
          const auto forward =
              interpret_node(node_of("attention", values, one.attributes()), cpu_backend(), values, 1, "tiles");
          values.insert(values.end(), {forward[0], forward[1], slope});
          const auto gradient =
              interpret_node(node_of("attention_grad", values, one.attributes()), cpu_backend(), values, 1, "tiles");
          const int64_t length = end - begin;
          ASSERT_EQ(part_of(forward[0], 0, 0, length, false), part_of(all.forward[0], b, begin, length, false));
          ASSERT_EQ(part_of(forward[1], 0, 0, length, true), part_of(all.forward[1], b, begin, length, true));
          ASSERT_EQ(part_of(gradient[0], 0, 0, length, false), part_of(all.gradients[0], b, begin, length, false));
          ++runs;
        }
      EXPECT_GT(runs, 60);
    }
}

TEST(Attention, NothingToAttend) {
  const Case one{0, 4, 2, 8, DType::kBF16};
  EXPECT_EQ(run(one, "tiles", 2).forward[0].elements(), 0);
}

/// Positions [first, first + count) of a tensor [B, S, ...], in a table of `room` positions that holds NaN elsewhere.
HostTensor some_positions(const HostTensor& all, int64_t first, int64_t count, int64_t room, int64_t at) {
  std::vector<int64_t> dims = all.type.shape.dims();
  const int64_t sequence = dims[1], row = all.elements() / (dims[0] * sequence);
  dims[1] = room;
  HostTensor result(TensorType{all.type.dtype, Shape(dims)});
  for (int64_t i = 0; i < result.elements(); ++i) result.set(i, NAN);
  for (int64_t b = 0; b < dims[0]; ++b)
    for (int64_t i = 0; i < count * row; ++i)
      result.set((b * room + at) * row + i, all.get((b * sequence + first) * row + i));
  return result;
}

TEST(CachedAttention, HasTheBitsOfAttentionOverTheWholeSequence) {
  struct Pieces {
    int64_t first, count;
  };
  for (const Case& one : {Case{2, 200, 2, 64, DType::kF32, false, true}, Case{2, 200, 2, 64, DType::kBF16, false, true},
                          Case{1, 131, 3, 20, DType::kF16, false, true}, Case{1, 70, 1, 5, DType::kF32, false, true}}) {
    SCOPED_TRACE(one.text());
    const std::vector<HostTensor> whole = one.inputs();
    const HostTensor expected =
        interpret_node(node_of("attention", whole, one.attributes()), cpu_backend(), whole, 1)[0];
    const Attributes attributes{{"scale", one.attributes().get_float("scale")}};
    const int64_t last = one.sequence - 1, room = one.sequence + 9;
    for (const Pieces& piece : {Pieces{0, 1}, Pieces{1, 1}, Pieces{63, 1}, Pieces{64, 1}, Pieces{last, 1},
                                Pieces{0, one.sequence}, Pieces{3, 66}, Pieces{60, one.sequence - 60}})
      for (int threads : {1, 3}) {
        SCOPED_TRACE(std::to_string(piece.first) + " " + std::to_string(piece.count));
        // What stands behind the last query's position is not read, even where it is no number.
        const int64_t seen = piece.first + piece.count;
        const std::vector<HostTensor> inputs = {
            some_positions(whole[0], piece.first, piece.count, piece.count, 0),
            some_positions(whole[1], 0, seen, room, 0), some_positions(whole[2], 0, seen, room, 0),
            HostTensor::of(DType::kI32, {one.batch},
                           std::vector<double>(static_cast<size_t>(one.batch), static_cast<double>(piece.first)))};
        const NodeSignature node = node_of("cached_attention", inputs, attributes);
        const HostTensor found = interpret_node(node, cpu_backend(), inputs, threads, "tiles")[0];
        EXPECT_EQ(found, some_positions(expected, piece.first, piece.count, piece.count, 0));
      }
  }
}

TEST(CachedAttention, OfSamplesOfDifferentLengthsAgreesWithTheReference) {
  const std::vector<HostTensor> inputs = {
      random_tensor(DType::kF32, {3, 2, 2, 16}, 1), random_tensor(DType::kF32, {3, 150, 2, 16}, 2),
      random_tensor(DType::kF32, {3, 150, 2, 16}, 3), HostTensor::of(DType::kI32, {3}, {0, 127, 149})};
  const NodeSignature node = node_of("cached_attention", inputs, {{"scale", 0.25}});
  EXPECT_EQ(compare(interpret_node(node, cpu_backend(), inputs, 2, "tiles")[0],
                    interpret_node(node, cpu_backend(), inputs, 1, "reference")[0], 2e-5),
            "");
}

TEST(WriteRows, ChangesNoOtherRowAndMayBeInPlace) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<HostTensor> inputs = {random_tensor(dtype, {3, 6, 2, 4}, 1),
                                            random_tensor(dtype, {3, 2, 2, 4}, 2),
                                            HostTensor::of(DType::kI32, {3}, {0, 5, -1})};
    const NodeSignature node = node_of("write_rows", inputs, {});
    EXPECT_EQ(interpret_node(node, cpu_backend(), inputs, 1, "hwy"),
              interpret_node(node, cpu_backend(), inputs, 1, "reference"));
    EXPECT_EQ(cpu_backend().choose(node, 1).may_alias, (std::vector<std::pair<int, int>>{{0, 0}}));
  }
}

}  // namespace
}  // namespace ramet::tests
