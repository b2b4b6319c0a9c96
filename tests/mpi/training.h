#pragma once

#include <string>

#include "ramet/transport/mpi_transport.h"

namespace ramet::tests {

// A workload that is no recipe's, as one rank of an MPI job; without a job (`mpi` null) on all devices of the layout in
// this process. What fails is thrown.

/// Trains for four steps and evaluates. The leading rank prints all numbers, each state's hash and the weights' hash.
void check_training(MpiSession* mpi, const std::string& layout);
/// Trains for a step and asks a program for tensors. The leading rank prints their types and hashes; every rank prints
/// the hash of those that were asked for everywhere.
void check_tensors(MpiSession* mpi, const std::string& layout);
/// Trains, evaluates and asks for tensors where one thing is wrong on rank `rank`, or on all ranks where it is -1.
/// `fault` names what; see training.cc.
void check_fault(MpiSession* mpi, const std::string& layout, const std::string& fault, int rank);

}  // namespace ramet::tests
