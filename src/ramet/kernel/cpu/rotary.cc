// Rotation of pairs in the heads of queries and keys: one pass, bound by memory.

#include <algorithm>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/rotary.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/rotary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/blocking-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::RotaryArguments;

/// Elements i and i + pairs of each head.
template <typename T>
void rotate_halves(const RotaryForm& form, const float* cosine, const float* sine, const T* a, T* out) {
  const int64_t step = vector_lanes();
  const Vf sign = hn::Set(Df(), form.back ? -1.0f : 1.0f);
  for (int64_t h = 0; h < form.heads; ++h, a += form.head_size, out += form.head_size)
    for (int64_t i = 0; i < form.pairs; i += step) {
      const int64_t count = std::min(step, form.pairs - i);
      const Vf c = load_part(cosine + i, count), s = hn::Mul(load_part(sine + i, count), sign);
      const Vf x = load_part(a + i, count), y = load_part(a + form.pairs + i, count);
      store_part(hn::NegMulAdd(y, s, hn::Mul(x, c)), out + i, count);
      store_part(hn::MulAdd(x, s, hn::Mul(y, c)), out + form.pairs + i, count);
    }
}

/// Elements 2i and 2i + 1 of each head; cosines twice, and sines twice, the first with the other sign.
template <typename T>
void rotate_neighbours(const RotaryForm& form, const float* cosines, const float* sines, const T* a, T* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t h = 0; h < form.heads; ++h, a += form.head_size, out += form.head_size)
    for (int64_t d = 0; d < 2 * form.pairs; d += 2) {
      const Vf x = load_part(a + d, 1), y = load_part(a + d + 1, 1);
      store_part(hn::MulAdd(y, load_part(sines + d, 1), hn::Mul(x, load_part(cosines + d, 1))), out + d, 1);
      store_part(hn::MulAdd(x, load_part(sines + d + 1, 1), hn::Mul(y, load_part(cosines + d + 1, 1))), out + d + 1, 1);
    }
#else
  const int64_t step = vector_lanes();
  for (int64_t h = 0; h < form.heads; ++h, a += form.head_size, out += form.head_size)
    for (int64_t d = 0; d < 2 * form.pairs; d += step) {
      const int64_t count = std::min(step, 2 * form.pairs - d);
      const Vf both = load_part(a + d, count), other = hn::Reverse2(Df(), both);
      store_part(hn::MulAdd(other, load_part(sines + d, count), hn::Mul(both, load_part(cosines + d, count))), out + d,
                 count);
    }
#endif
}

template <typename T>
void rotate(const RotaryArguments& call, int64_t begin, int64_t end) {
  const RotaryForm& form = call.form;
  const int64_t row = form.heads * form.head_size;
  for (int64_t position = begin; position < end; ++position) {
    const int64_t sample = position / form.sequence, s = position % form.sequence;
    const int64_t angle = sample * form.sample_stride + s * form.pairs;
    const float *cosine = call.cosine + angle, *sine = call.sine + angle;
    const T* a = static_cast<const T*>(call.a) + position * row;
    T* out = static_cast<T*>(call.out) + position * row;
    if (a != out && 2 * form.pairs < form.head_size)
      std::memcpy(static_cast<void*>(out), a, sizeof(T) * static_cast<size_t>(row));
    if (!form.neighbours) {
      rotate_halves(form, cosine, sine, a, out);
      continue;
    }
    float *cosines = call.doubled, *sines = cosines + 2 * form.pairs;
    for (int64_t i = 0; i < form.pairs; ++i) {
      cosines[2 * i] = cosines[2 * i + 1] = cosine[i];
      sines[2 * i] = form.back ? sine[i] : -sine[i];
      sines[2 * i + 1] = -sines[2 * i];
    }
    rotate_neighbours(form, cosines, sines, a, out);
  }
}

}  // namespace

void Rotate(const RotaryArguments& call, int64_t begin, int64_t end) {
  WithStorage(call.dtype, call.a,
              [&](auto* typed) { rotate<std::remove_cvref_t<decltype(*typed)>>(call, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(Rotate);

namespace {

void run_rotary(const NodeSignature& node, const RotaryForm& form, const KernelContext& context) {
  const int64_t positions = form.batch * form.sequence;
  context.team.split(positions, 8, [&](int64_t begin, int64_t end, int rank) {
    HWY_DYNAMIC_DISPATCH(Rotate)
    ({form, node.inputs[0].dtype, context.inputs[0], static_cast<const float*>(context.inputs[1]),
      static_cast<const float*>(context.inputs[2]), context.outputs[0],
      static_cast<float*>(context.scratch) + rank * 4 * form.pairs},
     begin, end);
  });
}

}  // namespace

void add_cpu_rotary(Backend& backend) {
  cpu::add_hwy(
      backend, "rotary",
      [](const NodeSignature& node) {
        return cpu::has_vector_loads(node.inputs[0].dtype) ? "" : "8-bit floating types are not for this kernel";
      },
      [](const NodeSignature& node, int) {
        cpu_level();
        return [node, form = rotary_form(node)](const KernelContext& context) { run_rotary(node, form, context); };
      },
      [](const NodeSignature& node, int threads) {
        return threads * 4 * rotary_form(node).pairs * static_cast<int64_t>(sizeof(float));
      },
      {{0, 0}});
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
