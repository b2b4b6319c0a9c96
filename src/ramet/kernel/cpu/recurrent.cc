// Recurrent layers: a loop over time in which each step is a product with the weight, blocked once a call, and the
// gates of all units.

#include "ramet/ops/recurrent.h"

#include <algorithm>
#include <cstring>

#include "ramet/base/error.h"
#include "ramet/kernel/cpu/cpu_features.h"
#include "ramet/kernel/cpu/families.h"
#include "ramet/kernel/cpu/kept_answers.h"
#include "ramet/kernel/cpu/prepared_matmul.h"
#include "ramet/kernel/cpu/recurrent_gates.h"

namespace ramet::kernel {
namespace {

using cpu::RecurrentLoops;
using cpu::RecurrentRow;

constexpr int64_t kUnits = 256;  // of a row that one thread takes at a time

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// What scratch memory a call has, piece after piece.
class Scratch {
 public:
  int64_t take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += aligned(bytes);
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

/// rows [B, k] x part of a weight [k, n] -> f32[B, n] (or of the node's type), the weight blocked once a call.
struct StepProduct {
  std::unique_ptr<PreparedMatmul> prepared;
  BlockedMatrix blocked;
  int input = -1;         ///< the weight
  int64_t first_row = 0;  ///< of the weight, where the part begins
  DType source = DType::kF32, logical = DType::kF32;
  int64_t at = 0, scratch_at = 0;  ///< in scratch: the blocked weight, the product's own
};

/// A node's operands by their numbers.
struct Operands {
  const KernelContext& context;
  const char* in(int input) const { return static_cast<const char*>(context.inputs[static_cast<size_t>(input)]); }
  char* out(int output) const { return static_cast<char*>(context.outputs[static_cast<size_t>(output)]); }
  char* scratch(int64_t at) const { return static_cast<char*>(context.scratch) + at; }
  const float* floats(int input) const { return reinterpret_cast<const float*>(in(input)); }
  float* out_floats(int output) const { return reinterpret_cast<float*>(out(output)); }
  float* scratch_floats(int64_t at) const { return reinterpret_cast<float*>(scratch(at)); }
};

/// What both passes share: products, buffers, rows of samples.
class RecurrentPlan {
 public:
  RecurrentPlan(const NodeSignature& node, int threads)
      : form_(recurrent_form(node)),
        node_(node),
        threads_(threads),
        size_(static_cast<int64_t>(size_of(form_.dtype))) {}
  virtual ~RecurrentPlan() = default;

  /// Whether the kernel takes the node; otherwise the reason is in `why`.
  bool prepare(std::string* why) {
    if (!cpu::has_vector_loads(form_.dtype)) return refused(why, "values are neither f32, bf16 nor f16");
    if (form_.steps == 0 || form_.batch == 0 || form_.hidden == 0 || form_.state == 0)
      return refused(why, "there is nothing to compute");
    if (form_.projection >= 0) {
      const DType projection = node_.inputs[static_cast<size_t>(form_.projection)].dtype;
      if (projection != DType::kF32 && projection != form_.dtype) return refused(why, "a projection of a third type");
    }
    return make_products(why);
  }
  int64_t scratch_bytes() const { return scratch_.bytes(); }
  /// The blocked layout of the weight that the kernel reads without further work, if the weight is one product's.
  std::optional<BlockedMatrix> weight_blocking() const {
    if (form_.gradient && !form_.first_state && form_.steps == 1) return {};  // it reads none
    if (first_.first_row != 0 || first_.blocked.k * first_.blocked.n != form_.weight_rows() * form_.state) return {};
    return first_.blocked;
  }
  virtual void run(const KernelContext& context) const = 0;

 protected:
  virtual bool make_products(std::string* why) = 0;

  static bool refused(std::string* why, const std::string& reason) {
    if (why) *why = reason;
    return false;
  }

  /// Rows [first, first + rows) of weight `input` [.., columns]: the product takes vectors of `columns` elements to
  /// `rows` ones (`forward`), or back.
  bool make(StepProduct& product, int input, int64_t first, int64_t rows, int64_t columns, bool forward, DType out,
            std::string* why) {
    product.input = input;
    product.first_row = first;
    MatmulForm form;
    form.m = form_.batch;
    form.k = forward ? columns : rows;
    form.n = forward ? rows : columns;
    form.transpose_b = forward;
    form.a_index = form.b_index = {0};
    form.blocked = true;
    form.a = {form_.dtype, Shape{form.m, form.k}};
    form.b = {form_.dtype, Shape{rows, columns}};
    form.output = {out, Shape{form.m, form.n}};
    for (const BlockProduct kind : {BlockProduct::kTiles, BlockProduct::kOnednn, BlockProduct::kPlain}) {
      const auto blocked = PreparedMatmul::preferred_blocking(kind, form);
      if (!blocked) continue;
      product.prepared = PreparedMatmul::make(kind, form, DType::kF32, blocked, threads_, why);
      if (!product.prepared) continue;
      product.blocked = *blocked;
      product.source = node_.inputs[static_cast<size_t>(input)].dtype;  // of no use if blocked
      product.logical = form_.dtype;
      if (is_blocked(product) && blocked->format() != form_.blocked)
        return refused(why, "the weight is blocked for another kernel; found " + form_.blocked + "; expected " +
                                blocked->format());
      product.at = scratch_.take(is_blocked(product) ? 0 : blocked->bytes());
      product.scratch_at = scratch_.take(product.prepared->scratch_bytes());
      return true;
    }
    return false;
  }

  /// Whether the caller has blocked the product's weight.
  bool is_blocked(const StepProduct& product) const { return !form_.blocked.empty() && product.input == form_.weight; }
  void block(const StepProduct& product, const Operands& at) const {
    if (!product.prepared || is_blocked(product)) return;
    const int64_t columns = product.blocked.transposed ? product.blocked.k : product.blocked.n;
    const char* source =
        at.in(product.input) + product.first_row * columns * static_cast<int64_t>(size_of(product.source));
    at.context.team.split(product.blocked.blocks(), 1, [&](int64_t begin, int64_t end, int) {
      fill_blocks(product.blocked, source, product.source, product.logical, {begin, end}, at.scratch(product.at));
    });
  }
  void multiply(const StepProduct& product, const void* rows, void* out, const Operands& at) const {
    const char* weight = is_blocked(product) ? at.in(product.input) : at.scratch(product.at);
    product.prepared->run(rows, weight, nullptr, out, at.scratch(product.scratch_at), at.context.team);
  }

  int64_t length(const Operands& at, int64_t sample) const {
    if (form_.lengths < 0) return form_.steps;
    const auto* lengths = reinterpret_cast<const int32_t*>(at.in(form_.lengths));
    return std::clamp<int64_t>(lengths[sample], 0, form_.steps);
  }
  int64_t step(int64_t index) const { return form_.reverse ? form_.steps - 1 - index : index; }
  /// The row of [T, B, ..] of a sample.
  int64_t row(int64_t step, int64_t sample) const { return step * form_.batch + sample; }
  /// The row of the step before `step` in the order of steps, or -1 if the sample begins with `step`.
  int64_t row_before(int64_t step, int64_t sample, int64_t length) const {
    if (form_.reverse) return step + 1 < length ? row(step + 1, sample) : -1;
    return step > 0 ? row(step - 1, sample) : -1;
  }
  /// Row `row` of a tensor of the node's type and `width`, in bytes behind its begin.
  int64_t offset(int64_t row, int64_t width) const { return row * width * size_; }

  /// Calls `visit(sample, begin, end)` for all samples and all units of `width`, threads sharing both.
  template <typename Visit>
  void for_rows(int64_t width, const Operands& at, const Visit& visit) const {
    const int64_t parts = (width + kUnits - 1) / kUnits;
    const int64_t each = (width + parts - 1) / parts;
    at.context.team.split(form_.batch * parts, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % parts * each;
        visit(task / parts, first, std::min(width, first + each));
      }
    });
  }
  /// Copies `bytes` of each sample, which lie together, threads sharing them.
  void copy_samples(const char* from, int64_t bytes, char* to, const Operands& at) const {
    at.context.team.split(form_.batch, 1, [&](int64_t begin, int64_t end, int) {
      copy(from + begin * bytes, (end - begin) * bytes, to + begin * bytes);
    });
  }
  static void clear(char* to, int64_t bytes) { std::memset(to, 0, static_cast<size_t>(bytes)); }
  static void copy(const char* from, int64_t bytes, char* to) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

  RecurrentForm form_;
  NodeSignature node_;
  int threads_;
  int64_t size_;
  Scratch scratch_;
  StepProduct first_, second_;  ///< with the weight; with its last third, or with the projection
};

class ForwardPlan : public RecurrentPlan {
 public:
  using RecurrentPlan::RecurrentPlan;

  void run(const KernelContext& context) const override {
    const Operands at{context};
    const RecurrentForm::Forward out = form_.forward();
    for (const StepProduct* product : {&first_, &second_}) block(*product, at);
    copy_samples(at.in(form_.h0), offset(1, form_.state), at.out(out.h), at);
    if (form_.lstm()) copy_samples(at.in(form_.c0), form_.hidden * 4, at.out(out.c), at);
    for (int64_t index = 0; index < form_.steps; ++index) take_step(step(index), at);
  }

 private:
  bool make_products(std::string* why) override {
    const int64_t h = form_.hidden;
    const bool before = form_.gru() && !form_.reset_after;
    if (!make(first_, form_.weight, 0, before ? 2 * h : form_.weight_rows(), form_.state, true, DType::kF32, why))
      return false;
    if (before && !make(second_, form_.weight, 2 * h, h, form_.state, true, DType::kF32, why)) return false;
    if (form_.projection >= 0 && !make(second_, form_.projection, 0, form_.state, h, true, form_.dtype, why))
      return false;
    z_ = scratch_.take(form_.batch * form_.weight_rows() * 4);
    if (before) inner_ = scratch_.take(form_.batch * h * 4);
    if (before || form_.projection >= 0) operand_ = scratch_.take(offset(form_.batch, h));
    if (form_.projection >= 0) projected_ = scratch_.take(offset(form_.batch, form_.state));
    return true;
  }

  /// The row of a sample at a step.
  RecurrentRow row_at(int64_t step, int64_t sample, const Operands& at) const {
    const RecurrentForm::Forward out = form_.forward();
    const int64_t h = form_.hidden, all = row(step, sample);
    RecurrentRow row;
    row.hidden = h;
    row.x = at.in(form_.x) + offset(all, form_.gate_width());
    if (form_.bias >= 0) row.bias = at.floats(form_.bias);
    if (form_.peepholes >= 0) row.peepholes = at.floats(form_.peepholes);
    const bool before = form_.gru() && !form_.reset_after;
    row.z = at.scratch_floats(z_) + sample * (before ? 2 * h : form_.weight_rows());
    if (before) row.inner = at.scratch_floats(inner_) + sample * h;
    if (operand_ >= 0) row.operand = at.scratch(operand_) + offset(sample, h);
    if (out.gates >= 0) row.gates = at.out(out.gates) + offset(all, form_.kept * h);
    if (out.cells >= 0) row.cells = at.out_floats(out.cells) + all * h;
    if (out.c >= 0) row.c = at.out_floats(out.c) + sample * h;
    row.h = at.out(out.h) + offset(sample, form_.state);
    if (form_.projection >= 0) {
      row.out = row.operand;
    } else {
      row.out = at.out(out.y) + offset(all, form_.state);
      row.state = at.out(out.h) + offset(sample, form_.state);
    }
    return row;
  }

  /// What a step behind the sample's length gives.
  void clear_row(const RecurrentRow& row) const {
    const int64_t h = form_.hidden;
    clear(static_cast<char*>(row.out), offset(1, form_.projection >= 0 ? h : form_.state));
    if (row.operand) clear(static_cast<char*>(row.operand), offset(1, h));
    if (row.gates) clear(static_cast<char*>(row.gates), offset(1, form_.kept * h));
    if (row.cells) clear(reinterpret_cast<char*>(row.cells), h * 4);
  }

  void gates(RecurrentLoops::Loop loop, int64_t step, const Operands& at) const {
    for_rows(form_.hidden, at, [&](int64_t sample, int64_t begin, int64_t end) {
      const RecurrentRow row = row_at(step, sample, at);
      if (step < length(at, sample)) return loop(row, begin, end);
      if (begin == 0) clear_row(row);
    });
  }

  void take_step(int64_t step, const Operands& at) const {
    const RecurrentForm::Forward out = form_.forward();
    const RecurrentLoops& loops = cpu::recurrent_loops(form_.dtype);
    multiply(first_, at.out(out.h), at.scratch(z_), at);
    switch (form_.cell) {
      case RecurrentForm::Cell::kLstm: gates(loops.lstm, step, at); break;
      case RecurrentForm::Cell::kTanh: gates(loops.tanh, step, at); break;
      case RecurrentForm::Cell::kRelu: gates(loops.relu, step, at); break;
      case RecurrentForm::Cell::kGru:
        if (form_.reset_after) return gates(form_.only_n ? loops.gru_only_n : loops.gru, step, at);
        gates(loops.gru_reset, step, at);
        multiply(second_, at.scratch(operand_), at.scratch(inner_), at);
        gates(loops.gru_candidate, step, at);
        break;
    }
    if (form_.projection < 0) return;
    multiply(second_, at.scratch(operand_), at.scratch(projected_), at);
    const int64_t bytes = offset(1, form_.state);
    at.context.team.split(form_.batch, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t sample = begin; sample < end; ++sample) {
        const char* from = at.scratch(projected_) + sample * bytes;
        char* y = at.out(out.y) + row(step, sample) * bytes;
        if (step >= length(at, sample)) {
          clear(y, bytes);
          continue;
        }
        copy(from, bytes, y);
        copy(from, bytes, at.out(out.h) + sample * bytes);
      }
    });
  }

  int64_t z_ = -1, inner_ = -1, operand_ = -1, projected_ = -1;
};

class BackwardPlan : public RecurrentPlan {
 public:
  using RecurrentPlan::RecurrentPlan;

  void run(const KernelContext& context) const override {
    const Operands at{context};
    const RecurrentForm::Backward out = form_.backward();
    const RecurrentLoops& loops = cpu::recurrent_loops(form_.dtype);
    if (multiplies_states()) block(first_, at);
    block(second_, at);
    if (out.previous >= 0) copy_before(form_.h0, form_.y, size_, form_.state, out.previous, at);
    if (out.previous_cells >= 0) copy_before(form_.c0, form_.cells, 4, form_.hidden, out.previous_cells, at);
    if (form_.lstm()) copy_samples(at.in(form_.dc), form_.hidden * 4, at.out(out.dc0), at);
    for_rows(form_.state, at, [&](int64_t sample, int64_t begin, int64_t end) {
      RecurrentRow row;
      row.dy = at.in(form_.dh) + offset(sample, form_.state);
      row.direct = at.scratch_floats(direct_) + sample * form_.state;
      loops.widen(row, begin, end);
    });
    for (int64_t index = form_.steps; index-- > 0;) take_step(index, at);
    if (out.dh0 < 0) return;
    for_rows(form_.state, at, [&](int64_t sample, int64_t begin, int64_t end) {
      RecurrentRow row;
      row.direct = at.scratch_floats(direct_) + sample * form_.state;
      if (form_.steps > 0) row.z = at.scratch_floats(z_) + sample * form_.state;
      row.out = at.out(out.dh0) + offset(sample, form_.state);
      loops.finish(row, begin, end);
    });
  }

 private:
  bool before() const { return form_.gru() && !form_.reset_after; }
  /// Whether a step's gradients go on through the weight to a state before it: those of the first step may not.
  bool multiplies_states() const { return form_.first_state || form_.steps > 1; }

  bool make_products(std::string* why) override {
    const int64_t h = form_.hidden;
    if (!make(first_, form_.weight, 0, before() ? 2 * h : form_.weight_rows(), form_.state, false, DType::kF32, why))
      return false;
    if (before() && !make(second_, form_.weight, 2 * h, h, form_.state, false, DType::kF32, why)) return false;
    if (form_.projection >= 0 && !make(second_, form_.projection, 0, form_.state, h, false, DType::kF32, why))
      return false;
    z_ = scratch_.take(form_.batch * form_.state * 4);
    direct_ = scratch_.take(form_.batch * form_.state * 4);
    if (second_.prepared) inner_ = scratch_.take(form_.batch * h * 4);
    if (before()) {
      dn_ = scratch_.take(offset(form_.batch, h));
      pair_ = scratch_.take(offset(form_.batch, 2 * h));
    }
    return true;
  }

  /// out[t] = the row that step t read: that of the step before it in `rows`, or the sample's of `first`.
  void copy_before(int first, int rows, int64_t size, int64_t width, int output, const Operands& at) const {
    const int64_t bytes = width * size;
    at.context.team.split(form_.steps * form_.batch, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t all = begin; all < end; ++all) {
        const int64_t step = all / form_.batch, sample = all % form_.batch;
        char* to = at.out(output) + all * bytes;
        const int64_t steps = length(at, sample), from = row_before(step, sample, steps);
        if (step >= steps)
          clear(to, bytes);
        else
          copy(from < 0 ? at.in(first) + sample * bytes : at.in(rows) + from * bytes, bytes, to);
      }
    });
  }

  RecurrentRow row_at(int64_t step, int64_t sample, const Operands& at) const {
    const RecurrentForm::Backward out = form_.backward();
    const int64_t h = form_.hidden, all = row(step, sample);
    RecurrentRow row;
    row.hidden = h;
    if (step != this->step(form_.steps - 1)) row.z = at.scratch_floats(z_) + sample * form_.state;
    row.direct = at.scratch_floats(direct_) + sample * form_.state;
    row.dy = at.in(form_.dy) + offset(all, form_.state);
    row.y = at.in(form_.y) + offset(all, form_.state);
    row.h = out.previous >= 0 ? at.out(out.previous) + offset(all, form_.state)
                              : at.in(form_.h0) + offset(sample, form_.state);
    row.dx = at.out(out.dx) + offset(all, form_.gate_width());
    if (form_.kept > 0) row.gates = const_cast<char*>(at.in(form_.kept_gates)) + offset(all, form_.kept * h);
    if (form_.peepholes >= 0) row.peepholes = at.floats(form_.peepholes);
    if (form_.lstm()) {
      const int64_t from = row_before(step, sample, length(at, sample));
      row.c_before = from < 0 ? at.floats(form_.c0) + sample * h : at.floats(form_.cells) + from * h;
      row.cells = const_cast<float*>(at.floats(form_.cells)) + all * h;
      row.c = at.out_floats(out.dc0) + sample * h;
    }
    if (inner_ >= 0) row.inner = at.scratch_floats(inner_) + sample * h;
    if (form_.projection >= 0) row.dm = row.inner;
    if (out.unprojected >= 0) row.extra = at.out(out.unprojected) + offset(all, h);
    if (out.recurrent >= 0) row.extra = at.out(out.recurrent) + offset(all, form_.weight_rows());
    if (out.reset >= 0) row.extra = at.out(out.reset) + offset(all, h);
    return row;
  }

  void clear_row(const RecurrentRow& row, int64_t sample, const Operands& at) const {
    const int64_t h = form_.hidden;
    clear(static_cast<char*>(row.dx), offset(1, form_.gate_width()));
    if (row.extra) clear(static_cast<char*>(row.extra), offset(1, form_.gru() && !before() ? form_.weight_rows() : h));
    if (!before()) return;
    clear(at.scratch(dn_) + offset(sample, h), offset(1, h));
    clear(at.scratch(pair_) + offset(sample, 2 * h), offset(1, 2 * h));
  }

  /// Gates of all samples; `operand` is where the loop writes what the next product reads (-1: nowhere), of `width`.
  void gates(RecurrentLoops::Loop loop, int64_t step, const Operands& at, int64_t operand = -1,
             int64_t width = 0) const {
    for_rows(form_.hidden, at, [&](int64_t sample, int64_t begin, int64_t end) {
      RecurrentRow row = row_at(step, sample, at);
      if (operand >= 0) row.operand = at.scratch(operand) + offset(sample, width);
      if (step < length(at, sample)) return loop(row, begin, end);
      if (begin == 0) clear_row(row, sample, at);
    });
  }

  /// Samples that do not have the step keep the gradient of their state. The product of their rows is 0.
  void carry(int64_t step, const Operands& at) const {
    if (form_.lengths < 0) return;
    for_rows(form_.state, at, [&](int64_t sample, int64_t begin, int64_t end) {
      if (step >= length(at, sample)) cpu::recurrent_loops(form_.dtype).carry(row_at(step, sample, at), begin, end);
    });
  }

  /// The step at `index` of the order of steps.
  void take_step(int64_t index, const Operands& at) const {
    const int64_t step = this->step(index);
    const RecurrentForm::Backward out = form_.backward();
    const RecurrentLoops& loops = cpu::recurrent_loops(form_.dtype);
    carry(step, at);
    const void* operand = at.out(out.dx) + offset(row(step, 0), form_.gate_width());
    switch (form_.cell) {
      case RecurrentForm::Cell::kLstm:
        if (form_.projection >= 0) state_gradients(step, at);
        gates(loops.lstm_grad, step, at);
        break;
      case RecurrentForm::Cell::kTanh: gates(loops.tanh_grad, step, at); break;
      case RecurrentForm::Cell::kRelu: gates(loops.relu_grad, step, at); break;
      case RecurrentForm::Cell::kGru:
        if (form_.reset_after) {
          gates(form_.only_n ? loops.gru_only_n_grad : loops.gru_grad, step, at);
          operand = at.out(out.recurrent) + offset(row(step, 0), form_.weight_rows());
        } else {
          gates(loops.gru_candidate_grad, step, at, dn_, form_.hidden);
          multiply(second_, at.scratch(dn_), at.scratch(inner_), at);
          gates(loops.gru_reset_grad, step, at, pair_, 2 * form_.hidden);
          operand = at.scratch(pair_);
        }
        break;
    }
    if (index > 0 || form_.first_state) multiply(first_, operand, at.scratch(z_), at);
  }

  /// dstate of the step, and through the projection to dm.
  void state_gradients(int64_t step, const Operands& at) const {
    const RecurrentForm::Backward out = form_.backward();
    char* states = at.out(out.dstate) + offset(row(step, 0), form_.state);
    for_rows(form_.state, at, [&](int64_t sample, int64_t begin, int64_t end) {
      RecurrentRow row = row_at(step, sample, at);
      row.extra = states + offset(sample, form_.state);
      if (step < length(at, sample))
        cpu::recurrent_loops(form_.dtype).state_grad(row, begin, end);
      else
        clear(static_cast<char*>(row.extra) + offset(begin, 1), offset(end - begin, 1));
    });
    multiply(second_, states, at.scratch(inner_), at);
  }

  int64_t z_ = -1, direct_ = -1, inner_ = -1, dn_ = -1, pair_ = -1;
};

std::unique_ptr<RecurrentPlan> make_plan(const NodeSignature& node, int threads, std::string* why) {
  std::unique_ptr<RecurrentPlan> plan;
  if (recurrent_form(node).gradient)
    plan = std::make_unique<BackwardPlan>(node, threads);
  else
    plan = std::make_unique<ForwardPlan>(node, threads);
  return plan->prepare(why) ? std::move(plan) : nullptr;
}

cpu::KernelAnswer ask(const NodeSignature& node, int threads) {
  return cpu::kept_answer("recurrent", node, threads, [&] {
    cpu::KernelAnswer answer;
    if (const auto plan = make_plan(node, threads, &answer.refused)) {
      answer = {.scratch_bytes = plan->scratch_bytes()};
      if (const auto blocked = plan->weight_blocking()) answer.blocking = {blocked->format(), blocked->bytes()};
    }
    return answer;
  });
}

}  // namespace

void add_cpu_recurrent(Backend& backend) {
  for (const char* op : {"lstm", "lstm_grad", "gru", "gru_grad", "rnn", "rnn_grad"}) {
    KernelEntry entry;
    entry.op = op;
    entry.name = "hwy";
    entry.refuse = [](const NodeSignature& node) { return ask(node, 1).refused; };
    entry.make = [](const NodeSignature& node, int threads) -> std::unique_ptr<Kernel> {
      std::string why;
      std::shared_ptr<RecurrentPlan> plan = make_plan(node, threads, &why);
      if (!plan) internal_error("add_cpu_recurrent", "a node was taken and then refused: " + why);
      return std::make_unique<cpu::FunctionKernel>([plan](const KernelContext& context) { plan->run(context); });
    };
    entry.scratch = [](const NodeSignature& node, int threads) { return ask(node, threads).scratch_bytes; };
    entry.blocking = [](const NodeSignature& node, int input) -> std::optional<BlockedLayout> {
      const RecurrentForm form = recurrent_form(node);
      if (input != form.weight || !form.blocked.empty()) return std::nullopt;
      return ask(node, 1).blocking;
    };
    backend.add(std::move(entry));
  }
}

}  // namespace ramet::kernel
