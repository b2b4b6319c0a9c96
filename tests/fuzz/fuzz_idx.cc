#include "fuzz/fuzz_target.h"
#include "ramet/base/error.h"
#include "ramet/data/images.h"

using namespace ramet::tests;

RAMET_FUZZ_TARGET(idx, std::string_view input) {
  const ArrayColumn column = parse_idx(std::string(input), "images", "input");
  if (column.shape.elements() > std::ssize(input)) internal_error("idx", "more elements than the file has bytes");
  if (column.shape.rank() < 3) return;
  const auto images = image_arrays({column}, ChannelAxis::kAuto, "input");
  if (images->rows() == 0) return;
  make_image_source(images, {.labels = false})->make(images->rows() - 1, 1);
}

RAMET_FUZZ_SEEDS(idx) {
  const auto file = [](std::string head, size_t bytes) { return head + std::string(bytes, 'x'); };
  return {.inputs = {file(std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16), 12),
                     file(std::string("\0\0\x08\x01\0\0\0\x05", 8), 5),
                     file(std::string("\0\0\x08\x04\0\0\0\x01\0\0\0\x03\0\0\0\x02\0\0\0\x02", 20), 12)},
          .words = {std::string("\0\0\x08", 3), std::string("\0\0\0\x01", 4), "\xff\xff\xff\xff"}};
}
