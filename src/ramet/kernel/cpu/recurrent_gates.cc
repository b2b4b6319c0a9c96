// Gates of recurrent layers: rows in f32, element by element, the same bits at every vector width.

#include "ramet/kernel/cpu/recurrent_gates.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/recurrent_gates.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"
#include "ramet/kernel/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using cpu::RecurrentLoops;
using cpu::RecurrentRow;

/// Calls `visit(unit, count)` for each vector of units [begin, end).
template <typename Visit>
HWY_INLINE void for_units(int64_t begin, int64_t end, const Visit& visit) {
  walk_vectors(end - begin, [&](int64_t i, int64_t count) HWY_ATTR { visit(begin + i, count); });
}

/// a (1 - a).
HWY_INLINE Vf sigmoid_slope(Vf a) { return hn::NegMulAdd(a, a, a); }
/// 1 - a^2.
HWY_INLINE Vf tanh_slope(Vf a) { return hn::NegMulAdd(a, a, hn::Set(Df(), 1.0f)); }

/// The loops of one type of row.
template <class T>
struct Loops {
  static HWY_INLINE Vf load(const void* row, int64_t at, int64_t count) {
    return load_part(static_cast<const T*>(row) + at, count);
  }
  static HWY_INLINE void store(Vf value, void* row, int64_t at, int64_t count) {
    store_part(value, static_cast<T*>(row) + at, count);
  }
  /// x + z of a gate.
  static HWY_INLINE Vf sum(const RecurrentRow& row, int64_t gate, int64_t i, int64_t count) {
    const int64_t at = gate * row.hidden + i;
    return hn::Add(load(row.x, at, count), load_part(row.z + at, count));
  }
  /// The gradient of the state from the steps behind this one. Where z is missing, `direct` is no -0, which 0 would
  /// turn into 0.
  static HWY_INLINE Vf later_gradient(const RecurrentRow& row, int64_t i, int64_t count) {
    const Vf direct = load_part(row.direct + i, count);
    return row.z ? hn::Add(direct, load_part(row.z + i, count)) : direct;
  }
  /// The gradient of the state from all sides.
  static HWY_INLINE Vf state_gradient(const RecurrentRow& row, int64_t i, int64_t count) {
    return hn::Add(later_gradient(row, i, count), load(row.dy, i, count));
  }
  static HWY_INLINE void put_state(const RecurrentRow& row, Vf value, int64_t i, int64_t count) {
    store(value, row.out, i, count);
    if (row.state) store(value, row.state, i, count);
  }

  static void lstm(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const auto peephole = [&](int64_t which, Vf cell, Vf to) HWY_ATTR {
        return row.peepholes ? hn::MulAdd(load_part(row.peepholes + which * h + i, count), cell, to) : to;
      };
      const Vf before = load_part(row.c + i, count);
      const Vf in = Sigmoid(d, peephole(0, before, sum(row, 0, i, count)));
      const Vf forget = Sigmoid(d, peephole(1, before, sum(row, 1, i, count)));
      const Vf cell = Tanh(d, sum(row, 2, i, count));
      const Vf after = hn::MulAdd(forget, before, hn::Mul(in, cell));
      const Vf out = Sigmoid(d, peephole(2, after, sum(row, 3, i, count)));
      store_part(after, row.c + i, count);
      store_part(after, row.cells + i, count);
      store(in, row.gates, i, count);
      store(forget, row.gates, h + i, count);
      store(cell, row.gates, 2 * h + i, count);
      store(out, row.gates, 3 * h + i, count);
      put_state(row, hn::Mul(out, Tanh(d, after)), i, count);
    });
  }

  /// dm is the gradient of m = o tanh(c).
  static void lstm_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const auto peephole = [&](int64_t which, Vf slope, Vf to) HWY_ATTR {
        return row.peepholes ? hn::MulAdd(load_part(row.peepholes + which * h + i, count), slope, to) : to;
      };
      const Vf in = load(row.gates, i, count), forget = load(row.gates, h + i, count),
               cell = load(row.gates, 2 * h + i, count), out = load(row.gates, 3 * h + i, count);
      const Vf t = Tanh(d, load_part(row.cells + i, count));
      const Vf dm = row.dm ? load_part(row.dm + i, count) : state_gradient(row, i, count);
      const Vf d_out = hn::Mul(hn::Mul(dm, t), sigmoid_slope(out));
      const Vf through = hn::MulAdd(hn::Mul(dm, out), tanh_slope(t), load_part(row.c + i, count));
      const Vf d_c = peephole(2, d_out, through);
      const Vf d_in = hn::Mul(hn::Mul(d_c, cell), sigmoid_slope(in));
      const Vf d_forget = hn::Mul(hn::Mul(d_c, load_part(row.c_before + i, count)), sigmoid_slope(forget));
      const Vf d_cell = hn::Mul(hn::Mul(d_c, in), tanh_slope(cell));
      store_part(peephole(0, d_in, peephole(1, d_forget, hn::Mul(d_c, forget))), row.c + i, count);
      store(d_in, row.dx, i, count);
      store(d_forget, row.dx, h + i, count);
      store(d_cell, row.dx, 2 * h + i, count);
      store(d_out, row.dx, 3 * h + i, count);
      if (row.dm)
        store(hn::Mul(out, t), row.extra, i, count);
      else
        store_part(hn::Zero(d), row.direct + i, count);
    });
  }

  /// h' = n + z (h - n).
  static HWY_INLINE Vf mixed(Vf update, Vf n, Vf before) { return hn::MulAdd(update, hn::Sub(before, n), n); }

  /// kOnlyN: z is the product of n alone.
  template <bool kOnlyN>
  static void gru(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const auto gate = [&](int64_t which)
                            HWY_ATTR { return kOnlyN ? load(row.x, which * h + i, count) : sum(row, which, i, count); };
      const Vf reset = Sigmoid(d, gate(0)), update = Sigmoid(d, gate(1));
      Vf inner = load_part(row.z + (kOnlyN ? 0 : 2 * h) + i, count);
      if (row.bias) inner = hn::Add(inner, load_part(row.bias + i, count));
      const Vf n = Tanh(d, hn::MulAdd(reset, inner, load(row.x, 2 * h + i, count)));
      store(reset, row.gates, i, count);
      store(update, row.gates, h + i, count);
      store(n, row.gates, 2 * h + i, count);
      store(inner, row.gates, 3 * h + i, count);
      put_state(row, mixed(update, n, load(row.h, i, count)), i, count);
    });
  }

  /// Gates r and z; z stays in the product's buffer, unrounded.
  static void gru_reset(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf reset = Sigmoid(d, sum(row, 0, i, count)), update = Sigmoid(d, sum(row, 1, i, count));
      store(reset, row.gates, i, count);
      store(update, row.gates, h + i, count);
      store_part(update, row.z + h + i, count);
      store(hn::Mul(reset, load(row.h, i, count)), row.operand, i, count);
    });
  }
  static void gru_candidate(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf n = Tanh(d, hn::Add(load(row.x, 2 * h + i, count), load_part(row.inner + i, count)));
      store(n, row.gates, 2 * h + i, count);
      put_state(row, mixed(load_part(row.z + h + i, count), n, load(row.h, i, count)), i, count);
    });
  }

  template <bool kOnlyN>
  static void gru_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    const int64_t h = row.hidden;
    const Vf one = hn::Set(Df(), 1.0f);
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf reset = load(row.gates, i, count), update = load(row.gates, h + i, count),
               n = load(row.gates, 2 * h + i, count), inner = load(row.gates, 3 * h + i, count);
      const Vf dh = state_gradient(row, i, count);
      const Vf d_update = hn::Mul(hn::Mul(dh, hn::Sub(load(row.h, i, count), n)), sigmoid_slope(update));
      const Vf d_n = hn::Mul(hn::Mul(dh, hn::Sub(one, update)), tanh_slope(n));
      const Vf d_reset = hn::Mul(hn::Mul(d_n, inner), sigmoid_slope(reset));
      store(d_reset, row.dx, i, count);
      store(d_update, row.dx, h + i, count);
      store(d_n, row.dx, 2 * h + i, count);
      if (!kOnlyN) {
        store(d_reset, row.extra, i, count);
        store(d_update, row.extra, h + i, count);
      }
      store(hn::Mul(d_n, reset), row.extra, (kOnlyN ? 0 : 2 * h) + i, count);
      store_part(hn::Mul(dh, update), row.direct + i, count);
    });
  }

  /// dx of z and n; the gradient of the state waits in `direct`.
  static void gru_candidate_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    const int64_t h = row.hidden;
    const Vf one = hn::Set(Df(), 1.0f);
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf update = load(row.gates, h + i, count), n = load(row.gates, 2 * h + i, count);
      const Vf dh = state_gradient(row, i, count);
      const Vf d_n = hn::Mul(hn::Mul(dh, hn::Sub(one, update)), tanh_slope(n));
      store(hn::Mul(hn::Mul(dh, hn::Sub(load(row.h, i, count), n)), sigmoid_slope(update)), row.dx, h + i, count);
      store(d_n, row.dx, 2 * h + i, count);
      store(d_n, row.operand, i, count);
      store_part(dh, row.direct + i, count);
    });
  }
  /// `inner` is the gradient of r h.
  static void gru_reset_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    const int64_t h = row.hidden;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf reset = load(row.gates, i, count), update = load(row.gates, h + i, count);
      const Vf before = load(row.h, i, count), slope = load_part(row.inner + i, count);
      const Vf d_reset = hn::Mul(hn::Mul(slope, before), sigmoid_slope(reset));
      store(d_reset, row.dx, i, count);
      store(d_reset, row.operand, i, count);
      store(load(row.dx, h + i, count), row.operand, h + i, count);
      store(hn::Mul(reset, before), row.extra, i, count);
      store_part(hn::MulAdd(slope, reset, hn::Mul(load_part(row.direct + i, count), update)), row.direct + i, count);
    });
  }

  template <bool kRelu>
  static void rnn(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf z = sum(row, 0, i, count);
      if (kRelu)  // NaN stays
        put_state(row, hn::IfThenElse(hn::Lt(z, hn::Zero(d)), hn::Zero(d), z), i, count);
      else
        put_state(row, Tanh(d, z), i, count);
    });
  }
  template <bool kRelu>
  static void rnn_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    const Df d;
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      const Vf y = load(row.y, i, count), dh = state_gradient(row, i, count);
      if (kRelu)
        store(hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dh), row.dx, i, count);
      else
        store(hn::Mul(dh, tanh_slope(y)), row.dx, i, count);
      store_part(hn::Zero(d), row.direct + i, count);
    });
  }

  static void state_grad(const RecurrentRow& row, int64_t begin, int64_t end) {
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      store(state_gradient(row, i, count), row.extra, i, count);
      store_part(hn::Zero(Df()), row.direct + i, count);
    });
  }
  static void carry(const RecurrentRow& row, int64_t begin, int64_t end) {
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      store_part(later_gradient(row, i, count), row.direct + i, count);
    });
  }
  static void widen(const RecurrentRow& row, int64_t begin, int64_t end) {
    for_units(begin, end, [&](int64_t i, int64_t count) HWY_ATTR {
      store_part(hn::Add(load(row.dy, i, count), hn::Zero(Df())), row.direct + i, count);
    });
  }
  static void finish(const RecurrentRow& row, int64_t begin, int64_t end) {
    for_units(begin, end,
              [&](int64_t i, int64_t count) HWY_ATTR { store(later_gradient(row, i, count), row.out, i, count); });
  }

  static constexpr RecurrentLoops kTable{lstm,
                                         gru<false>,
                                         gru<true>,
                                         gru_reset,
                                         gru_candidate,
                                         rnn<false>,
                                         rnn<true>,
                                         lstm_grad,
                                         gru_grad<false>,
                                         gru_grad<true>,
                                         gru_candidate_grad,
                                         gru_reset_grad,
                                         rnn_grad<false>,
                                         rnn_grad<true>,
                                         state_grad,
                                         carry,
                                         widen,
                                         finish};
};

}  // namespace

const RecurrentLoops* GetRecurrentLoops(DType dtype) { return table_of<Loops>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetRecurrentLoops);

const cpu::RecurrentLoops& cpu::recurrent_loops(DType dtype) {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetRecurrentLoops)(dtype);
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
