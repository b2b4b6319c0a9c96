#pragma once

/// toml++ without its assertions, some of which bad input reaches ("[=]"); what stands behind them gives the error.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>
