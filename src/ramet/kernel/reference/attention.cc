#include <cmath>
#include <optional>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/position.h"
#include "ramet/ops/random_bits.h"

namespace ramet::kernel {
namespace {

/// The attention of one node: every number by its logical indices.
class ReferenceAttention {
 public:
  explicit ReferenceAttention(const ReferenceOperands& operands)
      : operands_(operands), form_(attention_form(operands.node())) {
    if (form_.counter >= 0) {
      const int64_t counter[2] = {operands.get_int(form_.counter, 0), operands.get_int(form_.counter, 1)};
      draw_.emplace(form_.dropout, form_.seed, form_.tensor, counter, form_.draws());
    }
    if (!form_.segments) return;
    for (int64_t i = 0; i < form_.batch * form_.sequence; ++i) {
      const bool joins =
          i % form_.sequence > 0 && operands.get_int(form_.mask, i) == operands.get_int(form_.mask, i - 1);
      run_begin_.push_back(joins ? run_begin_.back() : i % form_.sequence);
    }
  }

  const AttentionForm& form() const { return form_; }

  /// Index of element d of part (0 q, 1 k, 2 v) at position s in its input.
  int64_t at(int part, int64_t b, int64_t h, int64_t s, int64_t d) const {
    return (b * form_.sequence + s) * form_.position_stride() + form_.part_offset(part) + h * form_.head_size + d;
  }
  int64_t at_out(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return ((b * form_.sequence + s) * form_.heads + h) * form_.head_size + d;
  }
  double part(int part, int64_t b, int64_t h, int64_t s, int64_t d) const {
    const int input = part == 0 ? form_.query : part == 1 ? form_.key : form_.value;
    return operands_.get(form_.joint ? 0 : input, at(part, b, h, s, d));
  }

  /// Probabilities of one query over all keys, 0 where hidden; the log-sum-exp, -inf when it sees none.
  double probabilities(int64_t b, int64_t h, int64_t q, std::vector<double>& p) const {
    p.assign(static_cast<size_t>(form_.sequence), 0);
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < form_.sequence; ++k) {
      double score = -INFINITY;
      if (visible(b, q, k)) {
        score = 0;
        for (int64_t d = 0; d < form_.head_size; ++d) score += part(0, b, h, q, d) * part(1, b, h, k, d);
        score *= form_.scale;
      }
      p[static_cast<size_t>(k)] = score;
      most = std::fmax(most, score);
    }
    if (most == -INFINITY) {
      p.assign(p.size(), 0);
      return -INFINITY;
    }
    for (double& value : p) sum += value = std::exp(value - most);
    for (double& value : p) value /= sum;
    return most + std::log(sum);
  }

  /// What dropout multiplies a probability by.
  double kept(int64_t b, int64_t h, int64_t q, int64_t k) const {
    const int64_t from = form_.segments ? run_of(b, k) : 0;
    return draw_ ? draw_->factor((form_.draws_as(b * form_.heads + h) * form_.sequence + q) * form_.sequence + k - from)
                 : 1.0;
  }

 private:
  bool visible(int64_t b, int64_t q, int64_t k) const {
    if (form_.causal && k > q) return false;
    if (form_.segments && run_of(b, q) != run_of(b, k)) return false;
    return form_.mask < 0 || operands_.get(form_.mask, b * form_.sequence + k) != 0;
  }

  int64_t run_of(int64_t b, int64_t s) const { return run_begin_[static_cast<size_t>(b * form_.sequence + s)]; }

  const ReferenceOperands& operands_;
  AttentionForm form_;
  std::optional<DropoutDraw> draw_;
  std::vector<int64_t> run_begin_;  // with segments: where the run of each position begins
};

void run_attention(const ReferenceOperands& operands) {
  const ReferenceAttention attention(operands);
  const AttentionForm& form = attention.form();
  std::vector<double> p;
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t q = 0; q < form.sequence; ++q) {
        operands.set(1, (b * form.heads + h) * form.sequence + q, attention.probabilities(b, h, q, p));
        for (int64_t d = 0; d < form.head_size; ++d) {
          double sum = 0;
          for (int64_t k = 0; k < form.sequence; ++k)
            sum += p[static_cast<size_t>(k)] * attention.kept(b, h, q, k) * attention.part(2, b, h, k, d);
          operands.set(0, attention.at_out(b, h, q, d), sum);
        }
      }
}

/// With P the probabilities, F the dropout factors and dO the gradient of the output: dV = (P F)^T dO, dP = F (dO V^T),
/// dS = P (dP - rowsum(P dP)), dQ = scale dS K, dK = scale dS^T Q. All from the inputs: out and lse, which are there to
/// spare faster kernels work, are not read.
void run_attention_grad(const ReferenceOperands& operands) {
  const ReferenceAttention attention(operands);
  const AttentionForm& form = attention.form();
  const size_t elements = static_cast<size_t>(operands.input_type(0).elements());
  std::vector<std::vector<double>> gradients(form.joint ? 1 : 3, std::vector<double>(elements));
  const auto gradient = [&](int part, int64_t b, int64_t h, int64_t s, int64_t d) -> double& {
    return gradients[form.joint ? 0 : static_cast<size_t>(part)][static_cast<size_t>(attention.at(part, b, h, s, d))];
  };
  std::vector<double> p, dp(static_cast<size_t>(form.sequence));
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t q = 0; q < form.sequence; ++q) {
        attention.probabilities(b, h, q, p);
        double dot = 0;
        for (int64_t k = 0; k < form.sequence; ++k) {
          const size_t i = static_cast<size_t>(k);
          const double kept = attention.kept(b, h, q, k);
          dp[i] = 0;
          for (int64_t d = 0; d < form.head_size; ++d) {
            const double dout = operands.get(form.dout, attention.at_out(b, h, q, d));
            dp[i] += kept * dout * attention.part(2, b, h, k, d);
            gradient(2, b, h, k, d) += p[i] * kept * dout;
          }
          dot += p[i] * dp[i];
        }
        for (int64_t k = 0; k < form.sequence; ++k) {
          const double ds = form.scale * p[static_cast<size_t>(k)] * (dp[static_cast<size_t>(k)] - dot);
          for (int64_t d = 0; d < form.head_size; ++d) {
            gradient(0, b, h, q, d) += ds * attention.part(1, b, h, k, d);
            gradient(1, b, h, k, d) += ds * attention.part(0, b, h, q, d);
          }
        }
      }
  for (size_t output = 0; output < gradients.size(); ++output)
    for (size_t i = 0; i < elements; ++i)
      operands.set(static_cast<int>(output), static_cast<int64_t>(i), gradients[output][i]);
}

void run_dropout(const ReferenceOperands& operands) {
  const Attributes& attributes = operands.attributes();
  const int64_t elements = operands.input_type(0).elements();
  const Position position(operands.node());
  const int64_t counter[2] = {operands.get_int(1, 0), operands.get_int(1, 1)};
  const DropoutDraw draw(attributes.get_float("rate"), attributes.get_int("seed"), attributes.get_int("tensor"),
                         counter, position.logical_elements());
  for (int64_t i = 0; i < elements; ++i) {
    const double factor = draw.factor(position.index(i));
    operands.set(0, i, factor == 0 ? 0.0 : operands.get(0, i) * factor);
  }
}

}  // namespace

void add_reference_attention(Backend& backend) {
  add_reference(backend, "attention", run_attention);
  add_reference(backend, "attention_grad", run_attention_grad);
  add_reference(backend, "dropout", run_dropout);
}

}  // namespace ramet::kernel
