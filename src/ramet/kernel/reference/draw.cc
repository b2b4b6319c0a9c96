#include "ramet/ops/draw.h"
#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/position.h"

namespace ramet::kernel {
namespace {

void run_draw(const ReferenceOperands& operands) {
  const Position position(operands.node());
  const DrawForm form = draw_form(operands.node());
  const int64_t counter[2] = {operands.get_int(0, 0), operands.get_int(0, 1)};
  const Drawing drawing(form, counter, position.logical_elements());
  for (int64_t i = 0; i < operands.output_type(0).elements(); ++i) {
    if (form.kind == DrawKind::kInteger) {
      operands.set_int(0, i, drawing.integer(position.index(i)));
      continue;
    }
    float value;
    drawing.fill(position.index(i), 1, &value);
    operands.set(0, i, static_cast<double>(value));
  }
}

}  // namespace

void add_reference_draw(Backend& backend) { add_reference(backend, "draw", run_draw); }

}  // namespace ramet::kernel
