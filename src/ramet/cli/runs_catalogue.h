#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ramet/track/catalogue.h"

namespace CLI {
class App;
}

namespace ramet::cli {

struct Session;

/// The catalogue of a folder of runs, brought up to date; a line on stderr says where that takes long, and what went
/// wrong.
Catalogue open_catalogue(const std::string& folder);

/// Adds a command below `ramet runs`, with --run-dir and --json.
using AddRunsCommand = std::function<CLI::App*(const std::string& name, const std::string& help,
                                               const std::function<int(bool json)>& act)>;
/// list, reindex, sql, metrics, importance: what the catalogue answers.
void add_catalogue_commands(const AddRunsCommand& add, const std::string& folder);
/// tag, note, group, rename, pin, archive: what people say of runs.
void add_annotation_commands(const AddRunsCommand& add, const std::string& folder);
/// export, push, import: runs as other programs have them (runs_exchange.cc).
void add_exchange_commands(const AddRunsCommand& add, const std::string& folder);

}  // namespace ramet::cli
