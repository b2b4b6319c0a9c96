#pragma once

#include <cstdint>
#include <utility>

namespace ramet::kernel {

/// Of the functions Loops::run<1>, Loops::run<2>, ... Loops::run<kMost> the one of `count`.
template <class Loops, int kMost>
auto loop_of(int64_t count) {
  return [count]<int... kBefore>(std::integer_sequence<int, kBefore...>) {
    static constexpr decltype(&Loops::template run<1>) kTable[] = {Loops::template run<kBefore + 1>...};
    return kTable[count - 1];
  }(std::make_integer_sequence<int, kMost>());
}

}  // namespace ramet::kernel
