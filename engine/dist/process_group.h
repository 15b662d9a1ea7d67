// process_group.h -- distributed training (mpirun): collective operations on tensors, averaged gradients
//
// All processes call each function in the same order with tensors of equal sizes and dtypes; a call
// that differs throws Error in all of them. Tensors on a GPU are copied through CPU memory.
#pragma once
#include <array>

#include "engine/core/tensor.h"

namespace mt::dist {

/// The rank of this process, from 0, and the number of processes: 0 and 1 if it was not started by mpirun. The first
/// call of any function here loads MPI; the process then leaves the group when it exits with status 0: later calls of
/// the others throw Error. With another status it prints a message and ends the others.
int rank();
int size();
/// The maximum time a call waits for the other processes (initially 600 s), before it throws Error
/// that names the missing ones. After that, or Ctrl-C, every later call throws Error.
void set_timeout(double seconds);

enum class Reduction { sum, mean, max, min };
constexpr std::array<const char*, 4> names_of(Reduction) { return {"sum", "mean", "max", "min"}; }

/// Reduces each tensor over the processes (sum, mean, ..) in place; the order of additions depends
/// only on the number of processes. 16-bit floats are added in float32; mean needs floats.
void all_reduce_(const TensorList&, Reduction);
/// Copies each tensor of process `root` to all processes, in place.
void broadcast_(const TensorList&, int64_t root);
/// The tensors of all processes, by rank.
TensorList all_gather(const Tensor&);
/// Returns when all processes have called it.
void barrier();

/// From now on each backward pass averages these leaves' gradients over the processes before it adds them to `.grad`.
/// A gradient that a process did not compute counts as 0; all must run equally many passes (Li et al. 2020, DDP).
void average_gradients(const TensorList& parameters);

}  // namespace mt::dist
