#pragma once

namespace ramet::cli {

/// The program `ramet`: runs the command that the arguments name, and returns its exit status.
int run_program(int argc, char** argv);

}  // namespace ramet::cli
