#include <algorithm>
#include <cmath>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/ctc.h"

// Connectionist temporal classification, forward and backward over the extended target, in logarithms.

namespace ramet::kernel {
namespace {

double log_sum(std::initializer_list<double> terms) {
  double most = -INFINITY, sum = 0;
  for (double term : terms) most = std::max(most, term);
  if (most == -INFINITY) return most;
  for (double term : terms) sum += std::exp(term - most);
  return most + std::log(sum);
}

/// One sample.
class CtcOracle {
 public:
  CtcOracle(const ReferenceOperands& operands, const CtcForm& form, int64_t sample)
      : operands_(operands), form_(form), sample_(sample) {
    labels_ = static_cast<const int32_t*>(operands.input_bytes(1)) + sample * form.longest;
    times_ = operands.get_int(2, sample);
    const int64_t target = operands.get_int(3, sample);
    check_ctc_sample(operands.node(), form, sample, labels_, times_, target);
    length_ = 2 * target + 1;
    forward();
  }

  double loss() const { return loss_; }

  /// Subtracts the sample's part of the gradient from `sums`, one a log-probability.
  void add_gradient(double slope, std::vector<double>& sums) const {
    if (form_.zero_infinity && loss_ == INFINITY) return;
    std::vector<double> after(static_cast<size_t>(length_), -INFINITY);
    for (int64_t t = times_; t-- > 0;) {
      after = t + 1 == times_ ? ends() : before(after, t + 1);
      for (int64_t s = 0; s < length_; ++s) {
        const double share = std::exp(alpha_[index(t, s)] + after[static_cast<size_t>(s)] + loss_);
        sums[static_cast<size_t>(element(t, s))] -= slope * share;
      }
    }
  }

 private:
  size_t index(int64_t t, int64_t s) const { return static_cast<size_t>(t * length_ + s); }
  int64_t element(int64_t t, int64_t s) const {
    return (t * form_.samples + sample_) * form_.classes + form_.symbol(labels_, s);
  }
  double emission(int64_t t, int64_t s) const { return operands_.get(0, element(t, s)); }

  void forward() {
    alpha_.assign(static_cast<size_t>(times_ * length_), -INFINITY);
    for (int64_t t = 0; t < times_; ++t)
      for (int64_t s = 0; s < length_; ++s) {
        const auto from = [&](int64_t back) { return s < back ? -INFINITY : alpha_[index(t - 1, s - back)]; };
        double sum = s < 2 ? 0 : -INFINITY;
        if (t > 0) sum = log_sum({from(0), from(1), form_.may_skip(labels_, s) ? from(2) : -INFINITY});
        alpha_[index(t, s)] = sum + emission(t, s);
      }
    if (times_ == 0)
      loss_ = length_ == 1 ? 0 : INFINITY;
    else
      loss_ = -log_sum(
          {alpha_[index(times_ - 1, length_ - 1)], length_ > 1 ? alpha_[index(times_ - 1, length_ - 2)] : -INFINITY});
  }

  std::vector<double> ends() const {
    std::vector<double> result(static_cast<size_t>(length_), -INFINITY);
    for (int64_t s = std::max<int64_t>(0, length_ - 2); s < length_; ++s) result[static_cast<size_t>(s)] = 0;
    return result;
  }

  /// Of the paths from each symbol at time t - 1 on, for those from time t on.
  std::vector<double> before(const std::vector<double>& after, int64_t t) const {
    std::vector<double> result(static_cast<size_t>(length_));
    for (int64_t s = 0; s < length_; ++s) {
      const auto to = [&](int64_t ahead) {
        const int64_t next = s + ahead;
        if (next >= length_ || (ahead == 2 && !form_.may_skip(labels_, next))) return -INFINITY + 0.0;
        return after[static_cast<size_t>(next)] + emission(t, next);
      };
      result[static_cast<size_t>(s)] = log_sum({to(0), to(1), to(2)});
    }
    return result;
  }

  const ReferenceOperands& operands_;
  const CtcForm& form_;
  int64_t sample_;
  const int32_t* labels_;
  int64_t times_ = 0, length_ = 0;
  std::vector<double> alpha_;
  double loss_ = 0;
};

void run_ctc(const ReferenceOperands& operands) {
  const CtcForm form = ctc_form(operands.node());
  for (int64_t sample = 0; sample < form.samples; ++sample) {
    const double loss = CtcOracle(operands, form, sample).loss();
    operands.set(0, sample, form.zero_infinity && loss == INFINITY ? 0 : loss);
  }
}

void run_ctc_grad(const ReferenceOperands& operands) {
  const CtcForm form = ctc_form(operands.node());
  std::vector<double> sums(static_cast<size_t>(operands.output_type(0).elements()), 0.0);
  for (int64_t sample = 0; sample < form.samples; ++sample)
    CtcOracle(operands, form, sample).add_gradient(operands.get(4, sample), sums);
  for (size_t i = 0; i < sums.size(); ++i) operands.set(0, static_cast<int64_t>(i), sums[i]);
}

}  // namespace

void add_reference_ctc(Backend& backend) {
  add_reference(backend, "ctc_loss", run_ctc);
  add_reference(backend, "ctc_loss_grad", run_ctc_grad);
}

}  // namespace ramet::kernel
