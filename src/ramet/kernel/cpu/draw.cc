// Random numbers of a micro-batch, drawn by logical element: a block of four at a time.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/map_steps.h"
#include "ramet/ops/draw.h"
#include "ramet/ops/position.h"

namespace ramet::kernel {
namespace {

constexpr int64_t kRoom = 256;

void run_draw(const DrawForm& form, const TensorType& type, const Position& position, const KernelContext& context) {
  const Drawing drawing(form, static_cast<const int64_t*>(context.inputs[0]), position.logical_elements());
  const auto size = static_cast<int64_t>(size_of(type.dtype));
  auto* out = static_cast<char*>(context.outputs[0]);
  const int64_t elements = type.elements();
  if (position.flat()) std::memset(out, 0, static_cast<size_t>(elements * size));  // padding is in no run
  context.team.split(elements, kRoom, [&](int64_t begin, int64_t end, int rank) {
    position.for_each_run(begin, end - begin, [&](const Position::Run& run) {
      float* room = static_cast<float*>(context.scratch) + rank * kRoom;
      for (int64_t i = 0; i < run.length; i += kRoom) {
        const int64_t count = std::min(kRoom, run.length - i);
        char* to = out + (run.local + i) * size;
        if (form.kind == DrawKind::kInteger) {
          for (int64_t j = 0; j < count; ++j) store_integer(to, type.dtype, j, drawing.integer(run.logical + i + j));
          continue;
        }
        drawing.fill(run.logical + i, count, room);
        cpu::map_steps().store(type.dtype)(room, count, to);
      }
    });
  });
}

}  // namespace

void add_cpu_draw(Backend& backend) {
  cpu::add_hwy(
      backend, "draw", {},
      [](const NodeSignature& node, int) {
        return [form = draw_form(node), type = node.outputs[0],
                position = Position(node)](const KernelContext& context) { run_draw(form, type, position, context); };
      },
      [](const NodeSignature&, int threads) { return threads * kRoom * 4; });
}

}  // namespace ramet::kernel
