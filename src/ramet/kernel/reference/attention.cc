#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ramet/kernel/reference/reference.h"
#include "ramet/ops/attention.h"
#include "ramet/ops/position.h"
#include "ramet/ops/random_bits.h"
#include "ramet/ops/rotary.h"

namespace ramet::kernel {
namespace {

/// The attention of one node: every number by its logical indices.
class ReferenceAttention {
 public:
  ReferenceAttention(const ReferenceOperands& operands, AttentionForm form)
      : operands_(operands), form_(std::move(form)) {
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

  /// Index of element d of part (0 q, 1 k, 2 v) of query head h at position s in its input.
  int64_t at(int part, int64_t b, int64_t h, int64_t s, int64_t d) const {
    const int64_t head = part == 0 ? h : h / form_.group(), size = part == 2 ? form_.value_size : form_.head_size;
    const int64_t positions = part == 0 ? form_.sequence : form_.keys;
    return (b * positions + s) * form_.position_stride(part) + form_.part_offset(part) + head * size + d;
  }
  int64_t at_out(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return ((b * form_.sequence + s) * form_.heads + h) * form_.value_size + d;
  }
  double part(int part, int64_t b, int64_t h, int64_t s, int64_t d) const {
    const int input = part == 0 ? form_.query : part == 1 ? form_.key : form_.value;
    return operands_.get(form_.joint ? 0 : input, at(part, b, h, s, d));
  }

  /// Probabilities of one query over all keys, 0 where hidden; the log-sum-exp, -inf when it sees none. `slopes` get
  /// the derivative of each score by scale q k^T, where a soft cap makes it less than 1.
  double probabilities(int64_t b, int64_t h, int64_t q, std::vector<double>& p,
                       std::vector<double>* slopes = nullptr) const {
    p.assign(static_cast<size_t>(form_.keys), 0);
    if (slopes) slopes->assign(p.size(), 1);
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < form_.keys; ++k) {
      double slope = 1;
      const double value = visible(b, h, q, k) ? score(b, h, q, k, &slope) : -INFINITY;
      p[static_cast<size_t>(k)] = value;
      if (slopes) (*slopes)[static_cast<size_t>(k)] = slope;
      most = std::fmax(most, value);
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
    return draw_ ? draw_->factor((form_.draws_as(b * form_.heads + h) * form_.sequence + q) * form_.keys + k - from)
                 : 1.0;
  }

 private:
  /// Position of a query among the keys, whose own run begins at 0.
  int64_t own(int64_t b, int64_t q) const {
    return q + (form_.first >= 0 ? operands_.get_int(form_.first, b) : form_.ahead);
  }

  bool visible(int64_t b, int64_t h, int64_t q, int64_t k) const {
    const int64_t position = own(b, q);
    if (k < form_.first_key(position) || k >= form_.end_key(position, form_.keys)) return false;
    if (form_.segments && run_of(b, q) != run_of(b, k)) return false;
    return form_.mask < 0 || operands_.get(form_.mask, form_.mask_strides.at(b, h, q, k)) != 0;
  }

  double score(int64_t b, int64_t h, int64_t q, int64_t k, double* slope) const {
    double value = 0;
    for (int64_t d = 0; d < form_.head_size; ++d) value += part(0, b, h, q, d) * part(1, b, h, k, d);
    value *= form_.scale;
    if (form_.soft_cap > 0) {
      const double turned = std::tanh(value / form_.soft_cap);
      value = form_.soft_cap * turned;
      *slope = 1 - turned * turned;
    }
    if (form_.bias >= 0) value += operands_.get(form_.bias, form_.bias_strides.at(b, h, q, k));
    if (form_.slopes >= 0) value -= operands_.get(form_.slopes, h) * static_cast<double>(std::abs(own(b, q) - k));
    return value;
  }

  int64_t run_of(int64_t b, int64_t s) const { return run_begin_[static_cast<size_t>(b * form_.sequence + s)]; }

  const ReferenceOperands& operands_;
  AttentionForm form_;
  std::optional<DropoutDraw> draw_;
  std::vector<int64_t> run_begin_;  // with segments: where the run of each position begins
};

void run_forward(const ReferenceOperands& operands, const ReferenceAttention& attention) {
  const AttentionForm& form = attention.form();
  std::vector<double> p;
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t q = 0; q < form.sequence; ++q) {
        const double lse = attention.probabilities(b, h, q, p);
        if (operands.outputs() > 1) operands.set(1, (b * form.heads + h) * form.sequence + q, lse);
        for (int64_t d = 0; d < form.value_size; ++d) {
          double sum = 0;
          // What a hidden key holds is not read: in a cache it may be no number.
          for (int64_t k = 0; k < form.keys; ++k)
            if (p[static_cast<size_t>(k)] != 0)
              sum += p[static_cast<size_t>(k)] * attention.kept(b, h, q, k) * attention.part(2, b, h, k, d);
          operands.set(0, attention.at_out(b, h, q, d), sum);
        }
      }
}

void run_attention(const ReferenceOperands& operands) {
  run_forward(operands, ReferenceAttention(operands, attention_form(operands.node())));
}

void run_cached_attention(const ReferenceOperands& operands) {
  run_forward(operands, ReferenceAttention(operands, cached_attention_form(operands.node())));
}

/// With P the probabilities, F the dropout factors and dO the gradient of the output: dV = (P F)^T dO, dP = F (dO V^T),
/// dS = P (dP - rowsum(P dP)), dbias = dS, and with C the slope of a soft cap: dQ = scale (C dS) K, dK = scale (C dS)^T
/// Q. All from the inputs: out and lse, which are there to spare faster kernels work, are not read.
void run_attention_grad(const ReferenceOperands& operands) {
  const ReferenceAttention attention(operands, attention_form(operands.node()));
  const AttentionForm& form = attention.form();
  std::vector<std::vector<double>> gradients;
  for (int output = 0; output < operands.outputs(); ++output)
    gradients.emplace_back(static_cast<size_t>(operands.output_type(output).elements()));
  const auto gradient = [&](int part, int64_t b, int64_t h, int64_t s, int64_t d) -> double& {
    return gradients[form.joint ? 0 : static_cast<size_t>(part)][static_cast<size_t>(attention.at(part, b, h, s, d))];
  };
  std::vector<double> p, slopes, dp(static_cast<size_t>(form.keys));
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t h = 0; h < form.heads; ++h)
      for (int64_t q = 0; q < form.sequence; ++q) {
        attention.probabilities(b, h, q, p, &slopes);
        double dot = 0;
        for (int64_t k = 0; k < form.keys; ++k) {
          const size_t i = static_cast<size_t>(k);
          const double kept = attention.kept(b, h, q, k);
          dp[i] = 0;
          for (int64_t d = 0; d < form.value_size; ++d) {
            const double dout = operands.get(form.dout, attention.at_out(b, h, q, d));
            dp[i] += kept * dout * attention.part(2, b, h, k, d);
            gradient(2, b, h, k, d) += p[i] * kept * dout;
          }
          dot += p[i] * dp[i];
        }
        for (int64_t k = 0; k < form.keys; ++k) {
          const size_t i = static_cast<size_t>(k);
          const double of_score = p[i] * (dp[i] - dot), ds = form.scale * slopes[i] * of_score;
          if (form.bias_gradient) gradients.back()[static_cast<size_t>(form.bias_strides.at(b, h, q, k))] += of_score;
          for (int64_t d = 0; d < form.head_size; ++d) {
            gradient(0, b, h, q, d) += ds * attention.part(1, b, h, k, d);
            gradient(1, b, h, k, d) += ds * attention.part(0, b, h, q, d);
          }
        }
      }
  for (size_t output = 0; output < gradients.size(); ++output)
    for (size_t i = 0; i < gradients[output].size(); ++i)
      operands.set(static_cast<int>(output), static_cast<int64_t>(i), gradients[output][i]);
}

void run_rotary(const ReferenceOperands& operands) {
  const RotaryForm form = rotary_form(operands.node());
  for (int64_t b = 0; b < form.batch; ++b)
    for (int64_t s = 0; s < form.sequence; ++s)
      for (int64_t h = 0; h < form.heads; ++h) {
        const int64_t from = ((b * form.sequence + s) * form.heads + h) * form.head_size;
        for (int64_t d = 2 * form.pairs; d < form.head_size; ++d) operands.set(0, from + d, operands.get(0, from + d));
        for (int64_t i = 0; i < form.pairs; ++i) {
          const int64_t angle = b * form.sample_stride + s * form.pairs + i;
          const int64_t at_x = from + (form.neighbours ? 2 * i : i), at_y = at_x + (form.neighbours ? 1 : form.pairs);
          const double x = operands.get(0, at_x), y = operands.get(0, at_y);
          const double cosine = operands.get(1, angle), sine = (form.back ? -1 : 1) * operands.get(2, angle);
          operands.set(0, at_x, x * cosine - y * sine);
          operands.set(0, at_y, y * cosine + x * sine);
        }
      }
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
  add_reference(backend, "cached_attention", run_cached_attention);
  add_reference(backend, "rotary", run_rotary);
  add_reference(backend, "dropout", run_dropout);
}

}  // namespace ramet::kernel
