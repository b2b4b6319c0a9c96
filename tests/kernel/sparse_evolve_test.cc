// Patterns that change, against a plain reimplementation on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "kernel/kernel_tools.h"
#include "ramet/kernel/interpret.h"
#include "ramet/ops/sparse_evolve.h"

namespace ramet::tests {
namespace {

using Dims = std::vector<int64_t>;

/// A weight whose pattern changes, and how.
struct Case {
  int64_t cells_down = 1, cells_across = 1, blocks_down = 8, blocks_across = 8, slots = 16;
  double ratio = 0.5;
  std::string schedule = "constant";
  int64_t end = 1000, first = -1, last = -1, ramp_begin = 0, ramp_end = 0;
  bool regrow_pruned = false;
  int64_t seed = 5, tensor = 77;

  int64_t blocks() const { return blocks_down * blocks_across; }
  int64_t cells() const { return cells_down * cells_across; }
  Shape shape() const { return {cells_down, cells_across, slots}; }
  Attributes attributes() const {
    Attributes all{{"cell", Dims{blocks_down * 2, blocks_across * 3}},
                   {"block", Dims{2, 3}},
                   {"prune_ratio", ratio},
                   {"prune_schedule", schedule},
                   {"prune_end", end},
                   {"first", first < 0 ? slots : first},
                   {"last", last < 0 ? slots : last},
                   {"ramp_begin", ramp_begin},
                   {"ramp_end", ramp_end},
                   {"seed", seed},
                   {"tensor", tensor}};
    if (regrow_pruned) all.set("regrow_pruned", true);
    return all;
  }
};

/// One cell: blocks in ascending order, and of each the slot that it had, or -1.
struct Stored {
  std::vector<int64_t> blocks, source;
};

/// What the program shall do with a cell, by sorting everything.
Stored host_evolve(const Case& c, const std::vector<int64_t>& blocks, const std::vector<double>& scores, int64_t cell,
                   int64_t step, const std::vector<int64_t>* candidates = nullptr) {
  const auto used = static_cast<int64_t>(blocks.size());
  const double done = static_cast<double>(step + 1), x = done / static_cast<double>(c.end);
  double ratio = x > 1 ? 0 : c.ratio;
  if (c.schedule == "cosine") ratio *= (1 + std::cos(std::numbers::pi * x)) / 2;
  if (c.schedule == "linear") ratio *= 1 - x;
  const auto first = static_cast<double>(c.first < 0 ? c.slots : c.first);
  const auto last = static_cast<double>(c.last < 0 ? c.slots : c.last);
  double way = 1;
  if (step + 1 < c.ramp_end)
    way = 1 - std::pow(static_cast<double>(c.ramp_end - std::max(step + 1, c.ramp_begin)) /
                           static_cast<double>(c.ramp_end - c.ramp_begin),
                       3);
  const auto target = static_cast<int64_t>(std::floor(first + (last - first) * way + 0.5));
  auto dropped = static_cast<int64_t>(std::floor(ratio * static_cast<double>(used) + 0.5));
  dropped = std::max(dropped, used - target);
  if (!c.regrow_pruned) dropped = std::min(dropped, c.blocks() - target);

  std::vector<std::pair<double, int64_t>> order;
  for (int64_t slot = 0; slot < used; ++slot) order.emplace_back(scores[static_cast<size_t>(slot)], slot);
  std::sort(order.begin(), order.end());
  std::set<int64_t> kept;
  for (int64_t i = dropped; i < used; ++i)
    kept.insert(blocks[static_cast<size_t>(order[static_cast<size_t>(i)].second)]);
  std::set<int64_t> next = kept;
  if (candidates) {
    for (int64_t i = 0; static_cast<int64_t>(next.size()) < target; ++i)
      next.insert(candidates->at(static_cast<size_t>(i)));
  } else {
    const RandomStream random(static_cast<uint64_t>(c.seed), RandomPurpose::kDraw, static_cast<uint64_t>(step),
                              static_cast<uint64_t>(c.tensor));
    std::vector<std::pair<uint32_t, int64_t>> drawn;
    for (int64_t block = 0; block < c.blocks(); ++block)
      if (c.regrow_pruned ? !kept.count(block) : std::find(blocks.begin(), blocks.end(), block) == blocks.end())
        drawn.emplace_back(random.bits(static_cast<uint64_t>(cell * c.blocks() + block)), block);
    std::sort(drawn.begin(), drawn.end());
    for (size_t i = 0; static_cast<int64_t>(next.size()) < target; ++i) next.insert(drawn.at(i).second);
  }
  Stored result;
  for (const int64_t block : next) {
    const auto before = std::find(blocks.begin(), blocks.end(), block);
    result.blocks.push_back(block);
    result.source.push_back(before == blocks.end() ? -1 : before - blocks.begin());
  }
  return result;
}

/// A random pattern that uses `used` slots of each cell.
std::vector<std::vector<int64_t>> random_blocks(const Case& c, int64_t used, uint64_t which) {
  const RandomStream random(which, RandomPurpose::kTest, 1, 0);
  std::vector<std::vector<int64_t>> cells;
  uint64_t next = 0;
  for (int64_t cell = 0; cell < c.cells(); ++cell) {
    int64_t left = used;
    cells.emplace_back();
    for (int64_t block = 0; block < c.blocks(); ++block)
      if (static_cast<int64_t>(random.below(next++, static_cast<uint32_t>(c.blocks() - block))) < left)
        cells.back().push_back(block), --left;
  }
  return cells;
}

HostTensor index_of(const Case& c, const std::vector<std::vector<int64_t>>& cells) {
  HostTensor index(TensorType{DType::kI32, c.shape()});
  for (int64_t i = 0; i < index.elements(); ++i) {
    const auto& blocks = cells[static_cast<size_t>(i / c.slots)];
    const auto slot = static_cast<size_t>(i % c.slots);
    index.set(i, slot < blocks.size() ? static_cast<double>(blocks[slot]) : -1.0);
  }
  return index;
}

HostTensor counter_of(int64_t step) { return HostTensor::of(DType::kI64, {2}, {static_cast<double>(step), 0.0}); }

std::vector<HostTensor> evolve(const Case& c, const std::vector<HostTensor>& inputs, int threads,
                               const std::string& kernel = "hwy") {
  return interpret_node(node_of("sparse_evolve", inputs, c.attributes()), cpu_backend(), inputs, threads, kernel);
}

/// The kernels' next pattern, which is the host's. `spread`: distinct scores; else many are equal.
std::vector<std::vector<int64_t>> check(const Case& c, const std::vector<std::vector<int64_t>>& cells, int64_t step,
                                        bool spread = true) {
  HostTensor scores = random_tensor(DType::kF32, c.shape(), static_cast<uint64_t>(step) + 50);
  for (int64_t i = 0; i < scores.elements(); ++i)
    scores.set(i, spread ? std::fabs(scores.get(i)) : std::floor(std::fabs(scores.get(i)) * 3));
  const std::vector<HostTensor> inputs{index_of(c, cells), scores, counter_of(step)};
  std::vector<std::vector<int64_t>> next, sources;
  for (int64_t cell = 0; cell < c.cells(); ++cell) {
    std::vector<double> mine;
    for (int64_t slot = 0; slot < c.slots; ++slot) mine.push_back(scores.get(cell * c.slots + slot));
    Stored stored = host_evolve(c, cells[static_cast<size_t>(cell)], mine, cell, step);
    next.push_back(std::move(stored.blocks)), sources.push_back(std::move(stored.source));
  }
  for (const auto& [kernel, threads] : {std::pair{"hwy", 1}, {"hwy", 3}, {"reference", 1}}) {
    const std::vector<HostTensor> found = evolve(c, inputs, threads, kernel);
    EXPECT_EQ(found[0].data, index_of(c, next).data) << kernel << " " << threads << " step " << step;
    EXPECT_EQ(found[1].data, index_of(c, sources).data) << kernel << " " << threads << " step " << step;
  }
  return next;
}

TEST(SparseEvolve, DoesWhatTheHostDoes) {
  for (const bool regrow_pruned : {false, true})
    for (const std::string schedule : {"cosine", "linear", "constant"})
      for (const double ratio : {0.0, 0.3, 1.0})
        for (const int64_t slots : {1, 16, 60, 64}) {
          const Case c{.cells_down = 2,
                       .cells_across = 3,
                       .slots = slots,
                       .ratio = ratio,
                       .schedule = schedule,
                       .end = 10,
                       .regrow_pruned = regrow_pruned};
          auto cells = random_blocks(c, slots, 3);
          for (int64_t step = 1; step < 14; step += 4) cells = check(c, cells, step, step % 8 == 1);
        }
}

TEST(SparseEvolve, FollowsTheDensityUpAndDown) {
  for (const auto& [first, last] : {std::pair{64, 7}, {7, 64}, {7, 40}, {40, 7}})
    for (const double ratio : {0.0, 0.5}) {
      Case c{.cells_across = 2,
             .slots = std::max(first, last),
             .ratio = ratio,
             .schedule = "cosine",
             .end = 30,
             .first = first,
             .last = last,
             .ramp_begin = 4,
             .ramp_end = 20};
      auto cells = random_blocks(c, first, 4);
      for (int64_t step = 1; step < 32; step += 2) {
        cells = check(c, cells, step);
        if (step < 4) EXPECT_EQ(cells[0].size(), static_cast<size_t>(first));
        if (step >= 19) EXPECT_EQ(cells[1].size(), static_cast<size_t>(last));
      }
    }
}

TEST(SparseEvolve, PartsOfALargeCellAreDrawnApart) {
  const Case c{.blocks_down = 600, .blocks_across = 300, .slots = 18000};
  check(c, random_blocks(c, c.slots, 6), 9);
}

TEST(SparseEvolve, GrowsTheFirstCandidates) {
  const Case c{.slots = 6, .ratio = 0.5};
  const std::vector<int64_t> blocks{3, 9, 20, 33, 40, 63}, candidates{60, 2, 10, 11, 12, 13};
  const std::vector<double> scores{5, 1, 4, 2, 6, 3};
  const Stored expected = host_evolve(c, blocks, scores, 0, 3, &candidates);
  EXPECT_EQ(expected.blocks, (std::vector<int64_t>{2, 3, 10, 20, 40, 60}));
  const std::vector<HostTensor> inputs{index_of(c, {blocks}), HostTensor::of(DType::kF32, c.shape(), scores),
                                       counter_of(3), index_of(c, {candidates})};
  for (const std::string kernel : {"hwy", "reference"}) {
    const auto found = evolve(c, inputs, 2, kernel);
    EXPECT_EQ(found[0].data, index_of(c, {expected.blocks}).data) << kernel;
    EXPECT_EQ(found[1].data, index_of(c, {expected.source}).data) << kernel;
  }
}

TEST(SparseEvolve, EachBlockIsEquallyLikelyToGrow) {
  // 8 of 48 blocks grow each time. The keys of the least words are now and then looked for again.
  const Case c{.slots = 16, .end = 1 << 30};
  const auto cells = random_blocks(c, c.slots, 8);
  const HostTensor scores = random_tensor(DType::kF32, c.shape(), 9);
  std::vector<double> positive;
  HostTensor sizes = scores;
  for (int64_t i = 0; i < sizes.elements(); ++i)
    sizes.set(i, std::fabs(scores.get(i))), positive.push_back(sizes.get(i));
  std::vector<int64_t> grown(static_cast<size_t>(c.blocks()));
  constexpr int64_t kTimes = 12500;
  for (int64_t step = 0; step < kTimes; ++step) {
    const auto found = evolve(c, {index_of(c, cells), sizes, counter_of(step)}, 1);
    const Stored expected = host_evolve(c, cells[0], positive, 0, step);
    ASSERT_EQ(found[0].data, index_of(c, {expected.blocks}).data) << step;
    for (int64_t slot = 0; slot < c.slots; ++slot)
      if (found[1].get(slot) < 0) ++grown[static_cast<size_t>(found[0].get(slot))];
  }
  const double candidates = 48, each = 8 * kTimes / candidates;
  double chi_square = 0;
  int64_t all = 0;
  for (int64_t block = 0; block < c.blocks(); ++block) {
    const auto count = static_cast<double>(grown[static_cast<size_t>(block)]);
    all += grown[static_cast<size_t>(block)];
    if (std::find(cells[0].begin(), cells[0].end(), block) != cells[0].end())
      EXPECT_EQ(count, 0);
    else
      chi_square += (count - each) * (count - each) / each;
  }
  EXPECT_EQ(all, 8 * kTimes);
  // Drawn without replacement: the variance of a count is smaller by (1 - 8/48) / (1 - 1/48). 47 degrees of freedom.
  chi_square *= (1 - 1 / candidates) / (1 - 8 / candidates);
  EXPECT_GT(chi_square, 47 - 4 * std::sqrt(2 * 47.0));
  EXPECT_LT(chi_square, 47 + 4 * std::sqrt(2 * 47.0));
}

TEST(SparseEvolve, ExploresAsManyBlocksAsTheRecurrenceSays) {
  for (const auto& [updates, known] : {std::pair{40, 0.70}, {80, 0.90}, {160, 0.99}}) {
    const Case c{.blocks_down = 128, .blocks_across = 256, .slots = 3277, .schedule = "cosine", .end = updates};
    const Attributes grid{{"cell", Dims{256, 768}}, {"block", Dims{2, 3}}};
    HostTensor index = index_of(c, random_blocks(c, c.slots, 10));
    HostTensor explored(TensorType{DType::kI32, Shape{1, 1, c.blocks() / 32}});
    for (int64_t i = 0; i < explored.elements(); ++i) explored.set(i, 0.0);
    const auto look = [&] {
      const auto found = interpret_node(node_of("sparse_explore", {explored, index}, grid), cpu_backend(),
                                        {explored, index}, 1, "hwy");
      explored = found[0];
      return found[1].get(0) / static_cast<double>(c.blocks());
    };
    const double density = 3277.0 / 32768;
    double expected = look();
    EXPECT_NEAR(expected, density, 1e-9);
    for (int64_t step = 0; step < updates; ++step) {
      HostTensor scores = random_tensor(DType::kF32, c.shape(), static_cast<uint64_t>(step));
      for (int64_t i = 0; i < scores.elements(); ++i) scores.set(i, std::fabs(scores.get(i)));
      index = evolve(c, {index, scores, counter_of(step)}, 1)[0];
      const double x = static_cast<double>(step + 1) / updates;
      const double ratio = c.ratio * (1 + std::cos(std::numbers::pi * x)) / 2;
      expected += ratio * density * (1 - expected) / (1 - density);
      EXPECT_NEAR(look(), expected, 0.01) << updates << " updates, after " << step + 1;
    }
    EXPECT_NEAR(expected, known, 0.01);
  }
}

TEST(SparseEvolve, NumbersFollowTheirBlocks) {
  const Case c{.cells_down = 2, .slots = 12};
  const auto cells = random_blocks(c, c.slots, 11);
  const HostTensor index = index_of(c, cells), scores = random_tensor(DType::kF32, c.shape(), 12);
  HostTensor sizes = scores;
  for (int64_t i = 0; i < sizes.elements(); ++i) sizes.set(i, std::fabs(scores.get(i)));
  const auto found = evolve(c, {index, sizes, counter_of(2)}, 1);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kU16, DType::kI32}) {
    HostTensor tags(TensorType{dtype, Shape{2, 1, c.slots, 2, 3}});
    for (int64_t i = 0; i < tags.elements(); ++i) tags.set(i, index.get(i / 6) + 100);
    const HostTensor fresh = HostTensor::of(dtype, {}, {7});
    for (const std::string kernel : {"hwy", "reference"}) {
      const HostTensor carried = interpret_node(node_of("sparse_carry", {found[1], tags, fresh}, {}), cpu_backend(),
                                                {found[1], tags, fresh}, 2, kernel)[0];
      for (int64_t i = 0; i < carried.elements(); ++i)
        EXPECT_EQ(carried.get(i), found[1].get(i / 6) < 0 ? 7 : found[0].get(i / 6) + 100) << i;
    }
  }
}

}  // namespace
}  // namespace ramet::tests
