#pragma once

#include <memory>
#include <span>

#include "ramet/graphs/walks.h"
#include "ramet/recipe/link_scores.h"
#include "ramet/train/workload.h"

namespace ramet::recipe {

/// Two nodes.
using Link = std::pair<int32_t, int32_t>;

/// Logistic regression on the products of the rows of both ends of links, feature by feature (Grover and Leskovec,
/// arXiv 1607.00653, section 4.4), with the penalty |w|^2 / 2: the scores of `asked` from what is learned of `known`.
/// `rows` has `width` numbers for each node.
LinkScores learned_link_scores(std::span<const float> rows, int64_t width, const std::vector<Link>& known,
                               const std::vector<Link>& known_wrong, const std::vector<Link>& asked,
                               const std::vector<Link>& asked_wrong);
/// The products of the rows of both ends, summed.
LinkScores product_link_scores(std::span<const float> rows, int64_t width, const std::vector<Link>& asked,
                               const std::vector<Link>& asked_wrong);

/// `count` pairs of different nodes that no edge of the set joins in either direction, drawn evenly from all of these,
/// with replacement. Throws Error where there is none.
std::vector<Link> drawn_no_links(const graphs::GraphSet& set, int64_t count, uint64_t seed, uint64_t stream);

/// Prediction of held-out links by embeddings of nodes, with the model's program "rows": for each part of the field
/// "edge.split" that has edges "roc_auc" and "product_roc_auc" of the links of validation, "test_roc_auc" and
/// "test_product_roc_auc" of those of test, each beside as many pairs that no edge joins. Null where no part is held
/// out.
std::unique_ptr<Evaluator> make_link_evaluator(std::shared_ptr<const graphs::GraphSet> set, int64_t width,
                                               int64_t micro_batch, int64_t group, uint64_t seed);

}  // namespace ramet::recipe
