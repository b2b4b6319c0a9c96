#include "ramet/graphs/smiles.h"

#include <dlfcn.h>

#include <cstdlib>

#include "ramet/base/error.h"

namespace ramet::graphs {
namespace {

constexpr const char* kModule = "ramet_rdkit.so";

std::filesystem::path find_module() {
  if (const char* named = std::getenv("RAMET_RDKIT"); named && *named) return named;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::filesystem::path places[] = {program / kModule, program / "../lib/ramet" / kModule};
  for (const auto& place : places)
    if (std::filesystem::exists(place, ignored)) return place;
  throw Error(
      {.what = "SMILES need the module that reads them, which was not built",
       .where = places[0].string(),
       .remedy = "Run `make molecules` in the source folder of Ramet: it installs RDKit and builds the module"});
}

}  // namespace

std::shared_ptr<const SmilesReader> load_smiles_reader() { return load_smiles_reader(find_module()); }

std::shared_ptr<const SmilesReader> load_smiles_reader(const std::filesystem::path& module) {
  const auto fail = [&](const std::string& found) -> Error {
    return Error({.what = "the module that reads SMILES cannot be loaded",
                  .where = module.string(),
                  .found = found,
                  .remedy = "Run `make molecules` in the source folder of Ramet"});
  };
  const std::string path = std::filesystem::absolute(module).string();
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    throw fail(reason ? reason : "");
  }
  const auto* const exported = static_cast<const SmilesModule*>(::dlsym(library, "ramet_smiles_module"));
  if (!exported) throw fail("a library that is no such module");
  if (exported->version != kSmilesModuleVersion) throw fail("version " + std::to_string(exported->version));
  return std::shared_ptr<const SmilesReader>(exported->make());  // the library stays loaded as long as the program runs
}

}  // namespace ramet::graphs
