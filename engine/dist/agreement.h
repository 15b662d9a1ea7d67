// agreement.h -- groups of processes, which compare each call before any data is sent, and wait with a deadline
#pragma once
#include <functional>
#include <future>

#include "engine/dist/mpi.h"
#include "engine/dist/process_group.h"
#include "kernels/gpu.h"

namespace mt::dist {

const Mpi& mpi();
/// Throws Error for a status that is not 0.
void check(const char* operation, int status);
Object datatype(Dtype);

/// The connection of the GPUs of a group.
struct GpuLink {
  void* handle = nullptr;  // of Gpu's functions
  const Gpu* gpu = nullptr;
  bool refused = false;
};

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

// ---- collectives of tensors on the GPUs of a group's processes, by NCCL, without copies to the CPU (gpu_link.cpp)
//
// The processes decide together, when they agree on a call, whether it goes this way: all tensors must be on one GPU in
// each process, another one in each. A group is connected at its first such call. Where it cannot be, in any process,
// its tensors go through the CPU's memory from then on.

/// The GPU of all these tensors, or this device, if this process can use NCCL for it; otherwise null.
const Gpu* gpu_for(const TensorList&, const Group&);
const Gpu* gpu_for(const Device&, const Group&);
/// Connects the group at the first call, which all its processes make; returns whether it is connected.
bool connect(const char* operation, const Gpu&, const Group&);
/// Queues a collective and returns its number; the GPU's later work does not wait for it until `finish_on_gpus` of this
/// or a later number, before which the tensors must neither be written nor freed.
uint64_t start_on_gpus(const char* operation, const Collective&, const Group&);
void finish_on_gpus(const Group&, uint64_t number);
/// Both.
void run_on_gpus(const char* operation, const Collective&, const Group&);

/// Throws Error in all processes of the group if their calls differ. If all pass a GPU (gpu_for), and the group can be
/// connected, `gpu` of the group becomes it.
void agree(const char* operation, const Group&, const std::string& call, const Gpu* = nullptr);
/// Waits until done() in a call on which the group has agreed.
void wait_for_group(const char* operation, const Group&, const std::function<bool()>& done);
/// The maximum time of a wait in seconds.
double time_limit();
/// Throws Error unless the calling thread may call mt.dist.
void check_caller(const char* operation);
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

// ---- calls of MPI that run while the process computes

using Job = std::shared_future<void>;
/// Runs a job in the order of start: in a thread if each process of this machine has a core for it
/// (MTORCH_DIST_THREAD=0 or 1 decides otherwise), else at once. Before other calls of MPI `wait_for_background` must be
/// called, because only one thread at a time may call MPI; `agree` does, except in a job.
Job start_in_background(std::function<void()> job);
/// Waits until the job, if any, has ended, at most for the time limit; throws its error, or that of one before it.
void wait_for_job(const char* operation, const Job& job);
/// Waits for all jobs.
void wait_for_background(const char* operation);

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
