#include "ramet/layout/piece_kind.h"

#include <cstddef>

namespace ramet::layout {

std::string_view name_of(PieceKind kind) {
  static constexpr std::string_view names[] = {"forward", "backward", "weight_gradient",
                                               "prepare", "update",   "program"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace ramet::layout
