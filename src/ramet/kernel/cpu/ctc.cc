// Connectionist temporal classification: forward and backward over the extended target in logarithms, vectors along
// its symbols. A sample is one thread's.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/ctc.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/targets.h"
#include "ramet/ops/ctc.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ramet/kernel/cpu/ctc.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ramet/kernel/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ramet::kernel {
namespace HWY_NAMESPACE {
namespace {

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;

/// log(e^a + e^b + e^c); -infinity of nothing but such.
HWY_INLINE Vf log_sum(Df d, Vf a, Vf b, Vf c) {
  const Vf most = hn::Max(hn::Max(a, b), c), none = hn::Neg(hn::Inf(d));
  const Vf shift = hn::IfThenZeroElse(hn::Eq(most, none), most);
  const Vf sum = hn::Add(hn::Add(ExpNegative(d, hn::Sub(a, shift)), ExpNegative(d, hn::Sub(b, shift))),
                         ExpNegative(d, hn::Sub(c, shift)));
  return hn::Add(shift, Log(d, sum));
}

/// to[i] = add[i] + log(e^from[i] + e^from[i + step] + e^(from[i + 2 step] + skip[i])), step 1 or -1.
void Advance(const float* from, const float* skip, const float* add, int64_t step, int64_t count, float* to) {
  const Df d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const Vf far = hn::Add(hn::LoadU(d, from + i + 2 * step), hn::LoadU(d, skip + i));
    const Vf sum = log_sum(d, hn::LoadU(d, from + i), hn::LoadU(d, from + i + step), far);
    hn::StoreU(hn::Add(sum, hn::LoadU(d, add + i)), d, to + i);
  }
}

/// to[i] = e^(a[i] + b[i] + c).
void Shares(const float* a, const float* b, float c, int64_t count, float* to) {
  const Df d;
  const Vf offset = hn::Set(d, c);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::StoreU(Exp(d, hn::Add(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), offset)), d, to + i);
}

float Join(float a, float b) {
  const Df d;
  return hn::GetLane(log_sum(d, hn::Set(d, a), hn::Set(d, b), hn::Neg(hn::Inf(d))));
}

}  // namespace

const cpu::CtcLoops* GetCtcLoops() {
  static constexpr cpu::CtcLoops kLoops{Advance, Shares, Join};
  return &kLoops;
}

}  // namespace HWY_NAMESPACE
}  // namespace ramet::kernel
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ramet::kernel {
HWY_EXPORT(GetCtcLoops);

const cpu::CtcLoops& cpu::ctc_loops() {
  cpu_level();
  return *HWY_DYNAMIC_DISPATCH(GetCtcLoops)();
}

namespace {

using cpu::ctc_loops;

constexpr float kNone = -INFINITY;
/// Symbols before and behind the extended target, all -infinity: neighbours by two, and whole vectors.
constexpr int64_t kMargin = 16;

/// Floats of a row of symbols.
int64_t row_floats(const CtcForm& form) {
  return 2 * kMargin + (2 * form.longest + 1 + kMargin - 1) / kMargin * kMargin;
}

/// One sample, with rows of symbols in scratch: emissions, skips forward and backward, two of logarithms; for the
/// gradient one for each time.
class CtcSample {
 public:
  CtcSample(const NodeSignature& node, const CtcForm& form, const KernelContext& context, int64_t sample, float* room)
      : form_(form), sample_(sample), row_(row_floats(form)), room_(room) {
    log_probs_ = static_cast<const float*>(context.inputs[0]);
    labels_ = static_cast<const int32_t*>(context.inputs[1]) + sample * form.longest;
    times_ = static_cast<const int32_t*>(context.inputs[2])[sample];
    const int64_t target = static_cast<const int32_t*>(context.inputs[3])[sample];
    check_ctc_sample(node, form, sample, labels_, times_, target);
    length_ = 2 * target + 1;
    std::fill_n(room_, kRows * row_, kNone);
    for (int64_t s = 0; s < length_; ++s)
      if (form.may_skip(labels_, s)) forward_skip()[s] = 0, backward_skip()[s - 2] = 0;
  }

  static constexpr int64_t kRows = 6;

  /// The loss. `history`: rows of all times, or null: two rows take turns.
  float forward(float* history) {
    if (times_ == 0) return length_ == 1 ? 0.0f : INFINITY;
    const auto row_at = [&](int64_t t) { return history ? history + t * row_ + kMargin : row(4 + t % 2); };
    if (history) std::fill_n(history, times_ * row_, kNone);
    for (int64_t t = 0; t < times_; ++t) {
      read_emissions(t);
      if (t == 0)
        for (int64_t s = 0; s < std::min<int64_t>(2, length_); ++s) row_at(0)[s] = emissions()[s];
      else
        ctc_loops().advance(row_at(t - 1), forward_skip(), emissions(), -1, length_, row_at(t));
    }
    const float* last = row_at(times_ - 1) + length_ - 1;
    return -ctc_loops().join(last[0], length_ > 1 ? last[-1] : kNone);
  }

  /// Adds the gradient by the log-probabilities, for `slope` of the loss.
  void backward(const float* history, float loss, float slope, float* gradient) {
    float *now = row(4), *before = row(5);
    for (int64_t t = times_; t-- > 0;) {
      // The log-probability of the rest of the paths, from behind time t on.
      if (t + 1 == times_) {
        std::fill_n(now - kMargin, row_, kNone);
        for (int64_t s = std::max<int64_t>(0, length_ - 2); s < length_; ++s) now[s] = 0;
      } else {
        read_emissions(t + 1);
        for (int64_t s = 0; s < length_; ++s) now[s] += emissions()[s];
        ctc_loops().advance(now, backward_skip(), zeros(), 1, length_, before);
        std::fill(before + length_, before + row_ - kMargin, kNone);  // what the next step reads behind the target
        std::swap(now, before);
      }
      ctc_loops().shares(history + t * row_ + kMargin, now, loss, length_, emissions());
      float* at = gradient + (t * form_.samples + sample_) * form_.classes;
      for (int64_t s = 0; s < length_; ++s) at[form_.symbol(labels_, s)] -= slope * emissions()[s];
    }
  }

 private:
  float* row(int64_t index) { return room_ + index * row_ + kMargin; }
  float* emissions() { return row(0); }
  float* forward_skip() { return row(1); }
  float* backward_skip() { return row(2); }
  float* zeros() {
    std::fill_n(row(3) - kMargin, row_, 0.0f);
    return row(3);
  }
  void read_emissions(int64_t t) {
    const float* at = log_probs_ + (t * form_.samples + sample_) * form_.classes;
    for (int64_t s = 0; s < length_; ++s) emissions()[s] = at[form_.symbol(labels_, s)];
    std::fill(emissions() + length_, emissions() + row_ - kMargin, kNone);
  }

  const CtcForm& form_;
  int64_t sample_, row_;
  float* room_;
  const float* log_probs_ = nullptr;
  const int32_t* labels_ = nullptr;
  int64_t times_ = 0, length_ = 0;
};

int64_t thread_floats(const CtcForm& form, bool gradient) {
  return (CtcSample::kRows + (gradient ? form.times : 0)) * row_floats(form);
}

void run_ctc(const NodeSignature& node, const CtcForm& form, const KernelContext& context, bool gradient) {
  const int64_t each = thread_floats(form, gradient);
  auto* out = static_cast<float*>(context.outputs[0]);
  if (gradient) std::memset(out, 0, static_cast<size_t>(node.outputs[0].bytes()));
  context.team.split(form.samples, 1, [&](int64_t begin, int64_t end, int rank) {
    float* room = static_cast<float*>(context.scratch) + rank * each;
    float* history = gradient ? room + CtcSample::kRows * row_floats(form) : nullptr;
    for (int64_t i = begin; i < end; ++i) {
      CtcSample sample(node, form, context, i, room);
      const float loss = sample.forward(history);
      const bool none = form.zero_infinity && loss == INFINITY;
      if (!gradient)
        out[i] = none ? 0.0f : loss;
      else if (!none)
        sample.backward(history, loss, static_cast<const float*>(context.inputs[4])[i], out);
    }
  });
}

std::string refuse(const NodeSignature& node) {
  return node.inputs[0].dtype == DType::kF32 ? "" : "log-probabilities are not f32";
}

}  // namespace

void add_cpu_ctc(Backend& backend) {
  for (const bool gradient : {false, true})
    cpu::add_hwy(
        backend, gradient ? "ctc_loss_grad" : "ctc_loss", refuse,
        [gradient](const NodeSignature& node, int) {
          return [node, gradient, form = ctc_form(node)](const KernelContext& context) {
            run_ctc(node, form, context, gradient);
          };
        },
        [gradient](const NodeSignature& node, int threads) {
          return threads * thread_floats(ctc_form(node), gradient) * 4;
        });
}

}  // namespace ramet::kernel
#endif  // HWY_ONCE
