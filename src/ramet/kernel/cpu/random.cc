// Initial values, drawn by logical element: a block of four at a time, bit-equal to ops/random_fill.h.

#include <algorithm>
#include <cmath>

#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/random_fill.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kRoom = 256;

struct Draws {
  RandomKind kind;
  double a, b;
  uint64_t seed, tensor;

  void fill(int64_t first, int64_t count, float* to) const {
    const RandomStream stream(seed, RandomPurpose::kInit, 0, tensor);
    for (int64_t i = 0; i < count;) {
      const auto element = static_cast<uint64_t>(first + i);
      const int64_t run = std::min<int64_t>(4 - static_cast<int64_t>(element % 4), count - i);
      if (kind == RandomKind::kUniform) {
        to[i++] = random_initial_value(kind, a, b, seed, tensor, element);
        continue;
      }
      const auto normals = stream.normal_block(element / 4);
      for (int64_t j = 0; j < run; ++j, ++i) {
        const double draw = normals[(element + static_cast<uint64_t>(j)) % 4];
        const bool again = kind == RandomKind::kTruncatedNormal && std::fabs(draw) > 2;
        to[i] = again ? random_initial_value(kind, a, b, seed, tensor, element + static_cast<uint64_t>(j))
                      : static_cast<float>(a + b * draw);
      }
    }
  }
};

}  // namespace

void add_cpu_random(Backend& backend) {
  cpu::add_hwy(
      backend, "random", {},
      [](const NodeSignature& node, int) {
        const Draws draws{random_kind_from_name(node.attributes.get_string("kind")), node.attributes.get_float("a"),
                          node.attributes.get_float("b"), static_cast<uint64_t>(node.attributes.get_int("seed")),
                          static_cast<uint64_t>(node.attributes.get_int("tensor"))};
        return [draws, type = node.outputs[0]](const KernelContext& context) {
          auto* out = static_cast<char*>(context.outputs[0]);
          const cpu::StoreFunction store = cpu::map_steps().store(type.dtype);
          context.team.split(type.elements(), kRoom, [&](int64_t begin, int64_t end, int rank) {
            float* room = static_cast<float*>(context.scratch) + rank * kRoom;
            for (int64_t i = begin; i < end; i += kRoom) {
              const int64_t count = std::min(kRoom, end - i);
              draws.fill(i, count, room);
              store(room, count, out + i * static_cast<int64_t>(size_of(type.dtype)));
            }
          });
        };
      },
      [](const NodeSignature&, int threads) { return threads * kRoom * 4; });
}

}  // namespace ramet::kernel
