#pragma once

#include "ramet/base/house.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ramet/front/program.h"

namespace ramet::front {

/// A traced program with calls in place of groups of calls that compute the same: attention that is written out as
/// products and a softmax, heads of keys that are repeated for attention, rotary positions, norms and GELU that are
/// written out as element-wise calls, and log_softmax before nll_loss.
/// A group is replaced only where nothing else reads its inner values.
TracedProgram fuse_patterns(TracedProgram program);

/// A call that a pattern has made: before call `at` of the original program, or in its place.
struct MadeCall {
  size_t at = 0;
  bool replaces = false;
  TracedCall call{};
};

/// A program while patterns are sought in it: who makes each value, and how often it is read.
class PatternProgram {
 public:
  /// The elements of a value that no input decides; null where some input does.
  using Known = std::function<const TensorData*(const std::string&)>;
  explicit PatternProgram(TracedProgram program, Known known = {});

  const std::vector<TracedCall>& calls() const { return program_.calls; }
  const TensorType* type(const std::string& name) const;
  /// The call that makes a value, an inserted one too; null for an input.
  const TracedCall* maker(const std::string& value) const;
  /// The call of one of the operators that makes an argument's value, which nobody else reads; null for others.
  const TracedCall* inner(const TracedArgument* value, std::initializer_list<std::string_view> ops) const;
  /// How many arguments and outputs are this value.
  int reads(const std::string& value) const;
  bool read_once(const std::string& value) const { return reads(value) == 1; }
  bool unread(const std::string& value) const { return reads(value) == 0; }
  const TensorData* known(const std::string& value) const { return known_ ? known_(value) : nullptr; }
  /// Whether a gradient may flow from a value to a parameter.
  bool has_gradient(const std::string& value) const { return differentiable_.count(value) != 0; }
  /// The value with the calls taken away that only copy it.
  std::string behind_copies(std::string value) const;

  /// A new value of this type, made by `call`, which stands before call `before` of the original program.
  std::string insert(size_t before, TracedCall call, TensorType type);
  /// Call `index` of the original program is another one with the same results.
  void replace(size_t index, TracedCall call);

  /// All calls that were inserted, or put in place of others, in the order of the program.
  std::vector<MadeCall> made_calls() const;
  /// The program with all replacements; calls whose results nobody reads are left out.
  TracedProgram finish();

 private:
  void count_reads();
  void find_gradients();

  TracedProgram program_;
  Known known_;
  std::set<size_t> replaced_{};
  std::map<std::string, size_t, std::less<>> makers_{};
  std::map<std::string, int, std::less<>> reads_{};
  std::set<std::string, std::less<>> differentiable_{};
  std::deque<std::pair<size_t, TracedCall>> inserted_{};  // its calls are pointed to
  std::map<std::string, size_t, std::less<>> inserted_makers_{};
  int names_ = 0;
};

// Arguments of calls.
TracedArgument tensor_argument(const std::string& name);
TracedArgument number_argument(double number);
TracedArgument integer_argument(int64_t number);
TracedArgument flag_argument(bool flag);
TracedArgument list_argument(const std::vector<int64_t>& numbers);
/// The name of a tensor argument; "" for others.
std::string tensor_of(const TracedCall& call, std::string_view name);
/// A plain number of a call; none where the argument is something else. `absent` where it was left out.
std::optional<double> number_of(const TracedCall& call, std::string_view name,
                                std::optional<double> absent = std::nullopt);
std::optional<double> number_of(const TracedArgument& argument);
/// A call of an operator that stands where `like` stands in the user's code.
TracedCall call_like(const TracedCall& like, const std::string& op,
                     std::vector<std::pair<std::string, TracedArgument>> arguments);

/// A product as one number and factors, each read once but for the leaves: 0.5 x (1 + erf(y)) is {0.5, {x, 1 +
/// erf(y)}}.
struct Factors {
  double number = 1;
  std::vector<std::string> values{};
};
/// `depth`: of calls that were already taken apart; a chain is followed for a few calls only.
Factors factors_of(const PatternProgram& program, const std::string& value, bool root = true, int depth = 0);
/// The other summand of `number` + value, read once; "" where the value is no such sum.
std::string plus_number(const PatternProgram& program, const std::string& value, double number);

/// Seeks all patterns in all calls.
void fuse_calls(PatternProgram& program);

// The patterns: each looks at call `index` as the last one of its group, and returns whether it has replaced it.
bool fuse_attention(PatternProgram& program, size_t index);
bool fuse_grouped_heads(PatternProgram& program, size_t index);
bool fuse_rotary(PatternProgram& program, size_t index);
bool fuse_gelu(PatternProgram& program, size_t index);
bool fuse_rms_norm(PatternProgram& program, size_t index);
bool fuse_layer_norm(PatternProgram& program, size_t index);
bool fuse_norm_weight(PatternProgram& program, size_t index);
bool fuse_cross_entropy(PatternProgram& program, size_t index);

}  // namespace ramet::front
