#include <algorithm>
#include <map>
#include <string>

#include "ramet/base/error_types.h"
#include "ramet/ops/build.h"

namespace ramet::ops {
namespace {

/// Einsum lowers to what exists: diagonals to select, sums to reduce_sum, outer products to multiply, contractions to
/// one matmul between transposes. Labels are ints: letters are their codes; the dimensions of an ellipsis are negative,
/// -1 the last, so that those of operands of different rank meet as NumPy aligns them.
using Labels = std::vector<int>;

struct Equation {
  std::string text;
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

[[noreturn]] void refuse(const std::string& equation, const std::string& what, const std::string& found = "",
                         const std::string& expected = "") {
  throw ShapeError({.what = what, .where = "einsum '" + equation + "'", .found = found, .expected = expected});
}

Equation parse_equation(std::string_view text) {
  Equation equation{std::string(text), {}, "", false};
  std::string bare;
  for (char letter : text)
    if (letter != ' ') bare += letter;
  const size_t arrow = bare.find("->");
  std::string left = bare.substr(0, arrow);
  if (arrow != std::string::npos) equation.output = bare.substr(arrow + 2), equation.explicit_output = true;
  for (size_t begin = 0;;) {
    const size_t comma = left.find(',', begin);
    equation.inputs.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    if (comma == std::string::npos) break;
    begin = comma + 1;
  }
  return equation;
}

/// Labels of one term; `ellipsis` dimensions stand for its "...".
Labels parse_term(const std::string& equation, const std::string& term, int ellipsis) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      if (seen) refuse(equation, "a term with two ellipses", "'" + term + "'");
      seen = true;
      for (int axis = ellipsis; axis > 0; --axis) labels.push_back(-axis);
      i += 2;
    } else if ((term[i] >= 'a' && term[i] <= 'z') || (term[i] >= 'A' && term[i] <= 'Z')) {
      labels.push_back(term[i]);
    } else {
      refuse(equation, "not a label", std::string("'") + term[i] + "' in '" + term + "'",
             "letters and at most one '...' in a term");
    }
  }
  return labels;
}

bool has(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

int64_t position(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

std::string name_of_label(int label) {
  return label < 0 ? "dimension " + std::to_string(label) + " of '...'" : std::string(1, static_cast<char>(label));
}

/// A tensor with a label for each dimension, no label twice.
struct Term {
  Tensor tensor;
  Labels labels;

  int64_t extent(int label) const { return tensor.dim(static_cast<int>(position(labels, label))); }

  /// The same with dimensions in the order `wanted`.
  Tensor in_order(const Labels& wanted) const {
    std::vector<int64_t> permutation;
    bool identity = true;
    for (size_t i = 0; i < wanted.size(); ++i) {
      permutation.push_back(position(labels, wanted[i]));
      identity = identity && permutation.back() == static_cast<int64_t>(i);
    }
    return identity ? tensor : transpose(tensor, permutation);
  }

  void sum_away(const Labels& gone) {
    if (gone.empty()) return;
    std::vector<int64_t> axes;
    Labels kept;
    for (size_t i = 0; i < labels.size(); ++i)
      if (has(gone, labels[i]))
        axes.push_back(static_cast<int64_t>(i));
      else
        kept.push_back(labels[i]);
    tensor = reduce_sum(tensor, axes);
    labels = kept;
  }

  /// Leaves out dimension `axis`, whose extent is 1.
  void squeeze(size_t axis) {
    std::vector<int64_t> dims = tensor.shape().dims();
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(axis));
    tensor = reshape(tensor, Shape(std::move(dims)));
  }
};

/// Keeps the diagonal of a label that stands twice: all else becomes 0 and one of the two dimensions is summed.
void take_diagonals(const std::string& equation, Term& term) {
  for (size_t second = 0; second < term.labels.size(); ++second) {
    const size_t first = static_cast<size_t>(position(term.labels, term.labels[second]));
    if (first == second) continue;
    const int64_t extent = term.tensor.dim(static_cast<int>(first));
    if (extent != term.tensor.dim(static_cast<int>(second)))
      refuse(equation, "the diagonal of dimensions that differ", term.tensor.shape().text(),
             "equal extents of '" + name_of_label(term.labels[second]) + "'");
    std::vector<int64_t> dims(term.labels.size(), 1);
    dims[first] = dims[second] = extent;
    GraphBuilder& build = *term.tensor.builder;
    const Tensor on = equal(iota(build, DType::kI32, Shape(dims), static_cast<int64_t>(first)),
                            iota(build, DType::kI32, Shape(dims), static_cast<int64_t>(second)));
    const Tensor kept = select(on, term.tensor, full(build, term.tensor.dtype(), Shape{}, 0));
    term.tensor = reduce_sum(kept, {static_cast<int64_t>(second)});
    term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(second));
    --second;
  }
}

std::vector<int64_t> extents(const Term& term, const Labels& labels) {
  std::vector<int64_t> dims;
  for (int label : labels) dims.push_back(term.extent(label));
  return dims;
}

int64_t product_of(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (int64_t extent : extents) product *= extent;
  return product;
}

template <typename... Lists>
Labels join(const Lists&... lists) {
  Labels all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

/// Product with broadcasting: nothing is contracted.
Term outer(const Term& a, const Term& b) {
  Labels labels = a.labels;
  for (int label : b.labels)
    if (!has(labels, label)) labels.push_back(label);
  const auto aligned = [&](const Term& term) {
    Labels own;
    std::vector<int64_t> dims;
    for (int label : labels) {
      if (has(term.labels, label)) own.push_back(label);
      dims.push_back(has(term.labels, label) ? term.extent(label) : 1);
    }
    return reshape(term.in_order(own), Shape(dims));
  };
  return {multiply(aligned(a), aligned(b)), labels};
}

/// Sum over `contracted` of the product of two terms, as one matmul.
Term contract(const Term& a, const Term& b, const Labels& contracted) {
  Labels batch, a_free, b_free;
  for (int label : a.labels)
    if (!has(contracted, label)) (has(b.labels, label) ? batch : a_free).push_back(label);
  for (int label : b.labels)
    if (!has(contracted, label) && !has(batch, label)) b_free.push_back(label);
  const int64_t m = product_of(extents(a, a_free)), n = product_of(extents(b, b_free));
  const int64_t k = product_of(extents(a, contracted));
  const auto matrix = [&](const Term& term, const Labels& order, int64_t rows, int64_t columns) {
    std::vector<int64_t> dims = extents(a, batch);
    dims.insert(dims.end(), {rows, columns});
    return reshape(term.in_order(order), Shape(std::move(dims)));
  };
  // An operand that already lies the other way round is read transposed, not copied.
  const bool transpose_a = a.labels == join(batch, contracted, a_free) && !a_free.empty();
  const bool transpose_b = b.labels == join(batch, b_free, contracted) && !b_free.empty();
  const Tensor left =
      transpose_a ? matrix(a, join(batch, contracted, a_free), k, m) : matrix(a, join(batch, a_free, contracted), m, k);
  const Tensor right =
      transpose_b ? matrix(b, join(batch, b_free, contracted), n, k) : matrix(b, join(batch, contracted, b_free), k, n);
  Term result{matmul(left, right, transpose_a, transpose_b), join(batch, a_free, b_free)};
  std::vector<int64_t> dims = extents(a, join(batch, a_free));
  for (int64_t extent : extents(b, b_free)) dims.push_back(extent);
  result.tensor = reshape(result.tensor, Shape(std::move(dims)));
  return result;
}

/// Product of two terms, without the labels that stand neither in `later`.
Term combine(const std::string& equation, Term a, Term b, const Labels& later) {
  for (Term* term : {&a, &b}) {
    const Term& other = term == &a ? b : a;
    for (size_t axis = 0; axis < term->labels.size(); ++axis) {
      const int label = term->labels[axis];
      if (!has(other.labels, label) || term->extent(label) == other.extent(label)) continue;
      if (label >= 0)
        refuse(equation, "'" + name_of_label(label) + "' has two extents",
               std::to_string(a.extent(label)) + " and " + std::to_string(b.extent(label)), "equal extents");
      if (term->extent(label) == 1)
        term->squeeze(axis--);
      else if (other.extent(label) != 1)
        refuse(equation, name_of_label(label) + " does not broadcast",
               std::to_string(a.extent(label)) + " and " + std::to_string(b.extent(label)), "equal extents, or 1");
    }
  }
  Labels contracted;
  for (Term* term : {&a, &b}) {
    const Term& other = term == &a ? b : a;
    Labels alone;
    for (int label : term->labels) {
      if (has(later, label)) continue;
      if (!has(other.labels, label))
        alone.push_back(label);
      else if (term == &a)
        contracted.push_back(label);
    }
    term->sum_away(alone);
  }
  return contracted.empty() ? outer(a, b) : contract(a, b, contracted);
}

/// Output of an equation without "->": the ellipsis, then the letters that stand once, in alphabetical order.
std::string implied_output(const Equation& equation) {
  std::map<char, int> count;
  bool ellipsis = false;
  for (const std::string& term : equation.inputs)
    for (char letter : term) letter == '.' ? void(ellipsis = true) : void(++count[letter]);
  std::string output = ellipsis ? "..." : "";
  for (const auto& [letter, times] : count)
    if (times == 1) output += letter;
  return output;
}

std::vector<Term> bind_operands(const Equation& equation, const std::vector<Tensor>& operands, int& ellipsis) {
  if (equation.inputs.size() != operands.size())
    refuse(equation.text, "the equation has another number of terms than there are operands",
           std::to_string(equation.inputs.size()) + " terms", std::to_string(operands.size()));
  std::vector<Term> terms;
  ellipsis = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& text = equation.inputs[i];
    const int named = static_cast<int>(parse_term(equation.text, text, 0).size());
    const int rank = operands[i].shape().rank();
    const bool open = text.find("...") != std::string::npos;
    if (open ? rank < named : rank != named)
      refuse(equation.text, "operand " + std::to_string(i) + " has another rank than its term '" + text + "'",
             operands[i].type().text(), std::to_string(named) + (open ? " or more dimensions" : " dimensions"));
    ellipsis = std::max(ellipsis, open ? rank - named : 0);
    terms.push_back({operands[i], parse_term(equation.text, text, rank - named)});
    take_diagonals(equation.text, terms.back());
  }
  return terms;
}

}  // namespace

Tensor einsum(std::string_view text, const std::vector<Tensor>& operands) {
  Equation equation = parse_equation(text);
  if (operands.empty()) refuse(equation.text, "no operands");
  int ellipsis = 0;
  std::vector<Term> terms = bind_operands(equation, operands, ellipsis);
  if (!equation.explicit_output) equation.output = implied_output(equation);
  const Labels output = parse_term(equation.text, equation.output, ellipsis);
  for (size_t i = 0; i < output.size(); ++i) {
    if (static_cast<size_t>(position(output, output[i])) != i)
      refuse(equation.text, "the output has '" + name_of_label(output[i]) + "' twice");
    bool known = false;
    for (const Term& term : terms) known = known || has(term.labels, output[i]);
    if (!known) refuse(equation.text, "the output has '" + name_of_label(output[i]) + "', which no operand has");
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels later = output;
    for (size_t j = i + 1; j < terms.size(); ++j) later = join(later, terms[j].labels);
    result = combine(equation.text, result, terms[i], later);
  }
  Labels gone;
  for (int label : result.labels)
    if (!has(output, label)) gone.push_back(label);
  result.sum_away(gone);
  return result.in_order(output);
}

}  // namespace ramet::ops
