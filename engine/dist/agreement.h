// agreement.h -- groups of processes, which compare each call before any data is sent, and wait with a deadline
#pragma once
#include <functional>

#include "engine/dist/gpu_link.h"
#include "engine/dist/mpi.h"
#include "engine/dist/process_group.h"

namespace mt::dist {

const Mpi& mpi();
/// Throws Error for a status that is not 0.
void check(const char* operation, int status);
Object datatype(Dtype);

/// A communicator of MPI. Agreements are numbered, equally in all its processes.
struct Group {
  Object communicator = nullptr;
  std::vector<int> ranks;  // in the world
  int64_t id = 0;
  mutable int64_t calls = 0;
  mutable int64_t numbers[4] =
      {};                    // of an agreement; MPI may write here after the wait was abandoned
  mutable std::string lost;  // why it is unusable
  mutable GpuLink link;
  /// Where the data of the agreed call is, if it goes by the link; null: it goes by MPI.
  mutable const Gpu* gpu = nullptr;
  /// The position of a process of the world, or -1.
  int position(int64_t rank) const;
  /// "{0, 2}"
  std::string shown() const;
};

/// Throws Error in all processes of the group if their calls differ. If all pass a GPU (gpu_for), and the group can be
/// connected, `gpu` of the group becomes it.
void agree(const char* operation, const Group&, const std::string& call, const Gpu* = nullptr);
/// Waits until done() in a call on which the group has agreed.
void wait_for_group(const char* operation, const Group&, const std::function<bool()>& done);
/// The maximum time of a wait in seconds.
double time_limit();
/// Whether several threads may call MPI in turn.
bool threads_may_call();
/// Makes every later call throw Error, which says why.
void set_lost(const std::string& why);
/// Whether all processes of the group say yes.
bool all_agree(const char* operation, const Group&, bool yes);
/// Waits until done() for a message of another process, at most for the time limit.
void wait_for(const char* operation, const std::string& call, int process,
              const std::function<bool()>& done);
/// "float32 (2 x 3), int64 (3)"
std::string described(const TensorList&);

/// Reduces the elements of packed tensors, in place. `sum_in_bfloat16` adds in float32 what travels in bfloat16.
void reduce_buffer(const char* operation, const Tensor& data, Reduction, const Group&);
void sum_in_bfloat16(const char* operation, const Tensor& data, const Group&);
/// The reduction of a packed tensor of a GPU, in place, without the division of a mean.
Collective reduction_of(const Tensor& data, Reduction);
/// Divides a sum over the processes by their number, in place.
void divide(const Tensor& sum, const Group&);

/// The dtype in which elements are reduced: storage-only floats are sent as float32, bool as uint8.
Dtype wire(Dtype);
Dtype wire(Dtype, const Group&);
/// Tensors of one dtype in one buffer of another, where the group's agreed call is; a single tensor that can be used
/// directly is not copied.
struct Buffer {
  Tensor data;
  bool shared = false;  // `data` is the memory of the tensor
  Buffer(const TensorList&, const Group&, Dtype, bool may_share = true);
  /// Calls f(tensor, its part of the buffer).
  void each(const TensorList& list,
            const std::function<void(const Tensor&, const Tensor&)>& f) const;
  void copy_to(const TensorList&) const;
};

}  // namespace mt::dist
