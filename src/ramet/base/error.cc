#include "ramet/base/error.h"

#include <algorithm>
#include <vector>

namespace ramet {
namespace {

std::string join(const ErrorParts& parts) {
  std::string text;
  if (!parts.where.empty()) text += parts.where + ": ";
  text += parts.what;
  if (!parts.found.empty()) text += "; found " + parts.found;
  if (!parts.expected.empty()) text += "; expected " + parts.expected;
  if (!parts.remedy.empty()) text += ". " + parts.remedy;
  return text;
}

}  // namespace

Error::Error(ErrorParts parts, ErrorKind kind)
    : std::runtime_error(join(parts)), parts_(std::move(parts)), kind_(kind) {}

void internal_error(const std::string& where, const std::string& what) {
  throw Error({.what = "internal error: " + what,
               .where = where,
               .remedy = "This is a fault of Ramet, not of your input; please report it with the command"},
              ErrorKind::kFailure);
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace ramet
