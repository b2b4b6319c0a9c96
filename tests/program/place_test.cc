#include "ramet/program/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

/// The most bytes at one instant, counted instant by instant.
int64_t plain_bound(const std::vector<PlaceItem>& items) {
  std::map<int32_t, int64_t> live;
  for (const PlaceItem& item : items)
    for (int32_t t = item.first; t <= item.last; ++t) live[t] += (item.bytes + 63) / 64 * 64;
  int64_t most = 0;
  for (const auto& [when, bytes] : live) most = std::max(most, bytes);
  return most;
}

/// Every pair, straight from the definition.
void expect_sound(const std::vector<PlaceItem>& items, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(placement.offsets[i] % 64, 0) << i;
    ASSERT_GE(placement.offsets[i], 0) << i;
    ASSERT_LE(placement.offsets[i] + items[i].bytes, placement.height) << i;
    for (size_t j = i + 1; j < items.size(); ++j) {
      if (items[i].last < items[j].first || items[j].last < items[i].first) continue;
      if (items[i].bytes == 0 || items[j].bytes == 0) continue;
      ASSERT_TRUE(placement.offsets[i] + items[i].bytes <= placement.offsets[j] ||
                  placement.offsets[j] + items[j].bytes <= placement.offsets[i])
          << "items " << i << " and " << j << " overlap";
    }
  }
  EXPECT_EQ(placement.bound, plain_bound(items));
  EXPECT_GE(placement.height, placement.bound);
}

std::vector<PlaceItem> random_items(uint32_t seed, int count, int length, int long_share) {
  std::mt19937 random(seed);
  std::vector<PlaceItem> items;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<int32_t>(random() % static_cast<uint32_t>(length));
    const int32_t width = random() % 100 < static_cast<uint32_t>(long_share)
                              ? static_cast<int32_t>(random() % static_cast<uint32_t>(length))
                              : static_cast<int32_t>(random() % 6);
    items.push_back({static_cast<int64_t>(random() % 5000), first, first + width});
  }
  return items;
}

TEST(Place, NothingIsNothing) {
  const Placement placement = place({});
  EXPECT_EQ(placement.height, 0);
  EXPECT_EQ(placement.gap(), 0);
}

TEST(Place, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  try {
    place({}, {.alignment = 48});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "alignment of a placement; found 48; expected a power of two");
  }
}

TEST(Place, ReusesBytesOfTheDead) {
  const std::vector<PlaceItem> items = {{1000, 0, 1}, {1000, 2, 3}, {1000, 4, 5}};
  const Placement placement = place(items);
  expect_sound(items, placement);
  EXPECT_EQ(placement.height, 1024);
}

TEST(Place, EmptyBuffersTakeNoRoom) {
  const std::vector<PlaceItem> items = {{0, 0, 5}, {64, 0, 5}, {0, 2, 3}};
  const Placement placement = place(items);
  EXPECT_EQ(placement.height, 64);
}

TEST(Place, RandomProgramsNeverOverlap) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::vector<PlaceItem> items = random_items(
        seed, 20 + static_cast<int>(seed) * 5, 10 + static_cast<int>(seed) * 3, 10 + static_cast<int>(seed) % 40);
    const Placement placement = place(items, {.search_work = 200'000});
    expect_sound(items, placement);
    EXPECT_LT(placement.gap(), 0.25) << "seed " << seed;
  }
}

TEST(Place, SameItemsSameAddresses) {
  const std::vector<PlaceItem> items = random_items(7, 300, 200, 30);
  const Placement a = place(items, {.search_work = 2'000'000}), b = place(items, {.search_work = 2'000'000});
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.work, b.work);
}

/// A forward and backward pass: activations die in the reverse of the order in which they came, with short-lived
/// values of several sizes between.
std::vector<PlaceItem> training_trace(int layers, int per_layer, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<PlaceItem> items;
  const int32_t end = 2 * layers * per_layer;
  for (int layer = 0; layer < layers; ++layer)
    for (int i = 0; i < per_layer; ++i) {
      const int32_t now = layer * per_layer + i;
      const int64_t bytes = 64 << (random() % 5 + 8);
      items.push_back({bytes, now, end - now});    // kept for the backward pass
      items.push_back({bytes * 3, now, now + 1});  // passes by
      items.push_back({bytes * 2 + 640, end - now, end - now + 1 + static_cast<int32_t>(random() % 3)});  // gradients
    }
  return items;
}

TEST(Place, TrainingStepsComeWithinOnePercentOfTheBound) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const std::vector<PlaceItem> items = training_trace(4 + static_cast<int>(seed) * 6, 9, seed);
    const Placement placement = place(items);
    expect_sound(items, placement);
    EXPECT_LE(placement.gap(), 0.01) << "seed " << seed;
  }
}

/// Cuts a full rectangle of time and address into pieces: the bound can be met, but only just.
std::vector<PlaceItem> guillotine(int pieces, uint32_t seed) {
  struct Piece {
    int32_t first, last;
    int64_t low, high;
  };
  std::mt19937 random(seed);
  std::vector<Piece> all = {{0, 255, 0, 256}};
  while (static_cast<int>(all.size()) < pieces) {
    const size_t pick = random() % all.size();
    Piece& piece = all[pick];
    Piece other = piece;
    if (random() % 2 && piece.last - piece.first >= 2) {
      const int32_t cut =
          piece.first + static_cast<int32_t>(random() % static_cast<uint32_t>(piece.last - piece.first));
      piece.last = cut;
      other.first = cut + 1;
    } else if (piece.high - piece.low >= 2) {
      const int64_t cut =
          piece.low + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(piece.high - piece.low - 1));
      piece.high = cut;
      other.low = cut;
    } else {
      continue;
    }
    all.push_back(other);
  }
  std::vector<PlaceItem> items;
  for (const Piece& piece : all) items.push_back({(piece.high - piece.low) * 64, piece.first, piece.last});
  std::shuffle(items.begin(), items.end(), random);
  return items;
}

TEST(Place, PerfectPackingsAreSound) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const std::vector<PlaceItem> items = guillotine(20 + static_cast<int>(seed) * 12, seed);
    const Placement placement = place(items, {.search_work = 20'000'000});
    expect_sound(items, placement);
    EXPECT_EQ(placement.bound, 256 * 64);
    EXPECT_LE(placement.gap(), 0.15) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ramet::tests
