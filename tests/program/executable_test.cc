#include "ramet/program/executable.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ramet/base/error.h"

namespace ramet {
namespace {

/// The tree by its definition: a range of lanes splits at the largest power of two below its length.
std::string tree(int64_t first, int64_t count) {
  if (count == 1) return std::to_string(first);
  int64_t left = 1;
  while (left * 2 < count) left *= 2;
  return "(" + tree(first, left) + "+" + tree(first + left, count - left) + ")";
}

TEST(Lanes, AreCombinedByTheTreeInFewSlots) {
  for (int64_t lanes = 1; lanes <= 70; ++lanes) {
    const auto combines = lane_combines(lanes);
    const auto slot_of = lane_slot_of(lanes);
    const int slots = lane_slots(lanes);
    int bits = 0;
    while (int64_t{1} << bits < lanes) ++bits;
    EXPECT_LE(slots, bits + 1) << lanes;
    std::vector<std::string> slot(static_cast<size_t>(slots));
    ASSERT_EQ(combines.size(), static_cast<size_t>(lanes));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      std::string& mine = slot.at(static_cast<size_t>(slot_of[static_cast<size_t>(lane)]));
      EXPECT_EQ(mine, "") << "a lane writes over a sum that waits";
      mine = std::to_string(lane);
      for (const auto& [into, from] : combines[static_cast<size_t>(lane)]) {
        slot.at(static_cast<size_t>(into)) = "(" + slot.at(static_cast<size_t>(into)) + "+" + slot.at(static_cast<size_t>(from)) + ")";
        slot.at(static_cast<size_t>(from)).clear();
      }
    }
    EXPECT_EQ(slot[0], tree(0, lanes));
  }
}

}  // namespace
}  // namespace ramet
