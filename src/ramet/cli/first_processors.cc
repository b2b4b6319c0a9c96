#include "ramet/cli/first_processors.h"

#include <sched.h>

namespace ramet::cli {
namespace {

cpu_set_t first_processors;
bool known = false;

/// Runs before any library's own start, and so before what sanitizers need.
__attribute__((no_sanitize("address", "thread", "undefined"))) void keep_first_processors(int, char**, char**) {
  known = sched_getaffinity(0, sizeof first_processors, &first_processors) == 0;
}

__attribute__((section(".preinit_array"), used)) void (*const at_start)(int, char**, char**) = keep_first_processors;

}  // namespace

void use_first_processors() {
  if (known) sched_setaffinity(0, sizeof first_processors, &first_processors);
}

}  // namespace ramet::cli
