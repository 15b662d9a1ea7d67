// process_group.h -- processes that train together (mpirun): collective operations on tensors, averaged gradients
//
// Each function is called by all processes in the same order with tensors of the same sizes and dtypes; a call that
// differs is refused in all of them. Tensors on a GPU pass through the CPU's memory.
#pragma once
#include <array>

#include "engine/core/tensor.h"

namespace mt::dist {

/// Of this process, from 0, and how many there are: 0 and 1 where mpirun did not start it. MPI is opened by the first
/// call of any function here; the process then leaves the group when it ends with status 0: calls that the others still
/// make are refused. With another status it says so and ends the others.
int rank();
int size();
/// A call waits at most so long for the other processes (at first 600 s), then says which did not come. That, or
/// Ctrl-C meanwhile, is the end of the group: every later call is refused.
void set_timeout(double seconds);

enum class Reduction { sum, mean, max, min };
constexpr std::array<const char*, 4> names_of(Reduction) { return {"sum", "mean", "max", "min"}; }

/// Each tensor becomes the sum (mean, ..) of the processes' in place, in an order of additions that depends on the
/// number of processes alone. 16-bit floats are added in float32; mean is for floats.
void all_reduce_(const TensorList&, Reduction);
/// Each tensor becomes what it is in process `root`, in place.
void broadcast_(const TensorList&, int64_t root);
/// The processes' tensors by rank.
TensorList all_gather(const Tensor&);
/// Returns when all processes have called it.
void barrier();

/// From now on each backward pass averages these leaves' gradients over the processes before it adds them to `.grad`.
/// One that a process did not compute counts as 0 there; all processes run as many passes (Li et al. 2020, DDP).
void average_gradients(const TensorList& parameters);

}  // namespace mt::dist
