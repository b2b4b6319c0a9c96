#include "ramet/layout/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ramet/base/error.h"

namespace ramet::tests {
namespace {

using testing::ElementsAre;

TEST(Mesh, NumbersDevicesWithTheStageSlowest) {
  const Mesh mesh{.p = 2, .r = 3, .t1 = 2, .t2 = 2};
  EXPECT_EQ(mesh.devices(), 24);
  EXPECT_EQ(mesh.device({.stage = 1, .replica = 2, .tensor1 = 0, .tensor2 = 1}), (1 * 3 + 2) * 4 + 1);
  for (int device = 0; device < mesh.devices(); ++device) EXPECT_EQ(mesh.device(mesh.position(device)), device);
  EXPECT_EQ(mesh.coordinate(23, MeshAxis::kReplica), 2);
  EXPECT_EQ(mesh.extent(MeshAxis::kReplica), 3);
  EXPECT_EQ(name_of(MeshAxis::kTensor2), "t2");
}

TEST(Mesh, GroupsAreConsecutiveOrthogonalOrStrided) {
  const Mesh mesh{.p = 1, .r = 8, .t1 = 2, .t2 = 1};
  // Replica k with shard i is device 2 k + i.
  EXPECT_THAT(mesh.group(2 * 5 + 1, MeshAxis::kReplica, 1, 4), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(mesh.group(2 * 5 + 1, MeshAxis::kReplica, 4, 2), ElementsAre(3, 11));
  EXPECT_THAT(mesh.group(2 * 5 + 1, MeshAxis::kReplica, 2, 2), ElementsAre(2 * 5 + 1, 2 * 7 + 1));
  EXPECT_THAT(mesh.group(2 * 5 + 1, MeshAxis::kTensor1, 1, 2), ElementsAre(10, 11));
  EXPECT_THAT(mesh.group(3, MeshAxis::kStage, 1, 1), ElementsAre(3));
}

TEST(Mesh, GroupsOfOneKindPartitionTheDevices) {
  const Mesh mesh{.p = 3, .r = 4, .t1 = 2, .t2 = 2};
  for (const MeshAxis axis : kMeshAxes)
    for (int stride = 1; stride <= mesh.extent(axis); ++stride)
      for (int parts = 1; parts * stride <= mesh.extent(axis); ++parts) {
        if (mesh.extent(axis) % (stride * parts) != 0) continue;
        std::set<int> seen;
        for (int device = 0; device < mesh.devices(); ++device) {
          const auto members = mesh.group(device, axis, stride, parts);
          const auto index = static_cast<size_t>(mesh.index_in_group(device, axis, stride, parts));
          ASSERT_EQ(members.at(index), device);
          for (const int member : members) ASSERT_EQ(mesh.group(member, axis, stride, parts), members);
          seen.insert(members.begin(), members.end());
        }
        EXPECT_EQ(seen.size(), static_cast<size_t>(mesh.devices()));
      }
}

TEST(Mesh, RefusesGroupsThatDoNotFit) {
  const Mesh mesh{.p = 1, .r = 6, .t1 = 1, .t2 = 1};
  EXPECT_THROW(mesh.group(0, MeshAxis::kReplica, 1, 4), Error);
}

}  // namespace
}  // namespace ramet::tests
