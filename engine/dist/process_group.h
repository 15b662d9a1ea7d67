// process_group.h -- distributed training (mpirun): operations on tensors of several processes, averaged gradients
//
// All processes of a group call each function in the same order with tensors of equal sizes and dtypes; a call that
// differs throws Error in all of them, because the processes compare their calls before any data is sent
// (agreement.h). Processes are named by their ranks in the world, also within a group. Tensors of any layout are packed
// into one buffer. MPI moves the data through CPU memory, or NCCL from GPU to GPU (gpu_link.cpp).
#pragma once
#include <array>
#include <atomic>
#include <future>
#include <memory>

#include "engine/core/tensor.h"

namespace mt::dist {

struct Group;
/// The first call of any function here loads MPI; the process then leaves the group when it exits with status 0: later
/// calls of the others throw Error. With another status it prints a message and ends the others.
const Group& world();
/// A group of the processes with these ranks; it is never freed. All processes of the world make it by the same call.
const Group& make_group(std::vector<int64_t> ranks);

/// The position of this process among those of the group, from 0, or -1; and their number. In the world 0 and 1 if
/// the process was not started by mpirun.
int rank(const Group& = world());
int size(const Group& = world());
/// The maximum time a call waits for the other processes (initially 600 s), before it throws Error
/// that names the missing ones. After that, or Ctrl-C, every later call throws Error.
void set_timeout(double seconds);
/// What a process says of itself to its parent, which shares this memory (bindings/program/processes.cpp).
struct CallNote {
  char text[240];  // the last call
  double limit;    // of the wait that began at `since`, in seconds
  std::atomic<int64_t>
      since;  // when it began to wait in MPI, where no deadline ends it; in ns of steady_clock, or 0
};
void note_calls_in(CallNote*);

enum class Reduction { sum, mean, max, min };
constexpr std::array<const char*, 4> names_of(Reduction) { return {"sum", "mean", "max", "min"}; }

/// Reduces each tensor over the processes (sum, mean, ..) in place; all get the same bits. The order of additions
/// depends only on the number of processes, with NCCL also on the machines. 16-bit floats are added in float32; mean
/// needs floats.
void all_reduce_(const TensorList&, Reduction, const Group& = world());
/// Cuts the elements of x, in order, into one part for each process; `out` becomes the reduction of its own part.
void reduce_scatter_(const Tensor& out, const Tensor& x, Reduction, const Group& = world());
/// Copies each tensor of process `root` to all processes, in place.
void broadcast_(const TensorList&, int64_t root, const Group& = world());
/// The tensors of all processes, by rank; `gather` returns them in process `root`, elsewhere nothing.
TensorList all_gather(const Tensor&, const Group& = world());
TensorList gather(const Tensor&, int64_t root, const Group& = world());
/// The elements of `out`, in order, become those of all processes' x.
void all_gather_into_(const Tensor& out, const Tensor& x, const Group& = world());
/// all_gather_into_, or reduce_scatter_ to the mean, of packed tensors, one `out` for each x, which goes on while this
/// process computes: on the GPUs, or in the thread of start_in_background. Until `wait`, which throws an error of the
/// exchange, the tensors must not be written.
class PendingExchange {
 public:
  enum Kind { gather, scatter };
  PendingExchange(Kind, const TensorList& out, const TensorList& x, const Group& group = world());
  ~PendingExchange();
  PendingExchange(const PendingExchange&) = delete;
  /// Waits until `out` is complete; returns whether no x has been changed since the beginning.
  bool wait();
  /// Whether `out` has not been written since.
  bool is_current(const TensorList& out) const;

 private:
  const char* name() const { return kind_ == gather ? "gather" : "scatter"; }
  void start_on_gpus(const TensorList& x);
  const Kind kind_;
  TensorList from_, to_;  // `from_`: of a gather
  // Until `wait`, because this thread frees them; on GPUs in the dtype that travels.
  TensorList sent_, received_;
  std::vector<uint32_t> versions_, out_versions_;
  const Group& group_;
  std::shared_future<void> job_;
  uint64_t on_gpus_ = 0;  // the number of the last collective
};

/// The whole parameters of a layer whose parts the processes have, gathered (dist.shard). Backward starts to scatter
/// the mean of their gradients, which travel until the next layer has computed its own. A frozen part makes a frozen
/// parameter.
TensorList whole_parameters(const TensorList& parts, const TensorList& gathered,
                            const Group& group = world());
/// The tensor for this process in the list of process `root`; the lists of the others are ignored.
Tensor scatter(const TensorList&, int64_t root, const Group& = world());
/// Sends tensor i of the list to the i-th process; returns what each has sent to this one.
TensorList all_to_all(const TensorList&, const Group& = world());
/// Returns when all processes have called it.
void barrier(const Group& = world());

/// `send` returns when the other process has received x, or both GPUs have it in their queues; `recv` writes into x,
/// whose shape and dtype must be equal.
void send(const Tensor& x, int64_t to, int64_t tag);
void recv(const Tensor& x, int64_t from, int64_t tag);

/// For a check of NCCL on one GPU: reduces x, in place, in a group of this process alone; `abort` ends that group.
void reduce_alone(const Tensor& x, bool abort);

struct AverageOptions {
  double bucket_mb = 25;         // the size of the buffers
  bool bfloat16_wire = false;    // gradients travel in bfloat16, and are added in float32
  bool always_the_same = false;  // all passes use the same parameters, which the first one finds
};
/// A gradient to be averaged.
struct Gradient {
  Dtype dtype;
  int64_t elements;
  bool used = true;
};
/// The bucket of each gradient, numbered in the order in which they are sent, or -1 if it is not used.
std::vector<int64_t> buckets_of(const std::vector<Gradient>&, double bucket_mb);

struct AverageGroup;
/// From its creation on each backward pass averages these leaves' gradients over the processes before it adds them to
/// `.grad`: in buffers that are sent when they are full, while the pass goes on (Li et al. 2020, DDP). A gradient that
/// a process did not compute counts as 0; all must run equally many passes. Passes while it is disabled add local
/// gradients to `.grad`; the next enabled pass averages those too.
class GradientAverage {
 public:
  GradientAverage(const TensorList& parameters, const AverageOptions&, const Group& = world());
  void enable(bool);
  /// How many buffers have been sent before the end of their passes.
  int64_t sent_early() const;

 private:
  std::shared_ptr<AverageGroup> group_;
};

}  // namespace mt::dist
