#include "ramet/cli/first_processors.h"
#include "ramet/cli/program.h"

int main(int argc, char** argv) {
  ramet::cli::use_first_processors();
  return ramet::cli::run_program(argc, argv);
}
