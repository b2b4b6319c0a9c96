#include "ramet/program/pass_log.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "ramet/base/clock.h"

namespace ramet::program {

PassLog::PassLog() {
  const char* wanted = std::getenv("RAMET_PRINT_PASSES");
  std::istringstream words(wanted ? wanted : "");
  for (std::string word; std::getline(words, word, ',');) wanted_.push_back(word);
}

bool PassLog::prints(const std::string& name) const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [&](const std::string& word) { return word == name || word == "all"; });
}

StepGraph PassLog::step(const std::string& name, const std::function<StepGraph()>& pass) {
  StepGraph result = run(name, pass);
#ifdef RAMET_VERIFY
  verify(result, name);
#endif
  show(name, [&] { return print(result); });
  return result;
}

void PassLog::show(const std::string& name, const std::function<std::string()>& text) const {
  if (prints(name)) std::fprintf(stderr, "--- after %s\n%s", name.c_str(), text().c_str());
}

void PassLog::note(const std::string& name, std::chrono::steady_clock::time_point start) {
  seconds_.emplace_back(name, seconds_since(start));
  if (prints(name) || prints("time"))
    std::fprintf(stderr, "ramet: pass %-10s %8.1f ms\n", name.c_str(), seconds_.back().second * 1e3);
}

}  // namespace ramet::program
