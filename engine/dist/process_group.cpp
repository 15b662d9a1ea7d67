// process_group.cpp -- collective operations by MPI, through one buffer on the CPU
#include "engine/dist/process_group.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/dist/mpi.h"
#include "engine/ops/ops.h"

namespace mt::dist {
namespace {

const Mpi& mpi() {
  static const Mpi library;
  return library;
}

void check(const char* operation, int status) {
  if (status == 0) return;
  char text[512] = "";  // MPI_MAX_ERROR_STRING is 256
  int length = 0;
  mpi().error_string(status, text, &length);
  fail("{}: {}", operation, text);
}

/// Called at exit: after success a process takes part in agreements until all have exited.
void finalize_at_exit(int status);

/// Detects processes that would each train alone: of torchrun, MPICH, Intel MPI, or srun without PMIx.
void refuse_other_launchers() {
  for (const char* name : {"WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* size = getenv(name); size && std::atoi(size) > 1)
      fail(
          "mt.dist: {}={} means that {} processes were not started by Open MPI; use mpirun -n {} "
          "mtorch script.lua, or srun --mpi=pmix, or unset {} for one process",
          name, size, size, size, name);
}

/// The processes of MPI_COMM_WORLD.
struct ProcessGroup {
  int rank = 0, size = 1;
  std::thread::id thread = std::this_thread::get_id();

  ProcessGroup() {
    if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK")) {
      refuse_other_launchers();
      return;
    }
    constexpr int kFunneled = 1;  // MPI_THREAD_FUNNELED: one thread calls MPI
    int provided = 0;
    if (mpi().init_thread(nullptr, nullptr, kFunneled, &provided) != 0)
      fail("mt.dist: MPI_Init_thread failed; is mpirun of the same Open MPI as libmpi.so.40?");
    mpi().set_errhandler(mpi().world, mpi().errors_return);
    check("mt.dist", mpi().comm_rank(mpi().world, &rank));
    check("mt.dist", mpi().comm_size(mpi().world, &size));
    // A process that ends without MPI_Finalize has failed: mpirun ends the others.
    on_exit([](int status, void*) { finalize_at_exit(status); }, nullptr);
  }
};

const ProcessGroup& group() {
  static const ProcessGroup group;
  return group;
}

/// The dtype for MPI; storage-only floats are sent as float32, bool as uint8.
Dtype wire(Dtype d) { return is_reduced_float(d) ? Dtype::f32 : d == Dtype::b8 ? Dtype::u8 : d; }
Object datatype(Dtype d) {
  switch (wire(d)) {
    case Dtype::u8: return mpi().object("ompi_mpi_uint8_t");
    case Dtype::i8: return mpi().object("ompi_mpi_int8_t");
    case Dtype::i16: return mpi().object("ompi_mpi_int16_t");
    case Dtype::i32: return mpi().object("ompi_mpi_int32_t");
    case Dtype::i64: return mpi().object("ompi_mpi_int64_t");
    case Dtype::f64: return mpi().object("ompi_mpi_double");
    default: return mpi().object("ompi_mpi_float");
  }
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double max_seconds = 600;  // the limit of a call that waits for other processes
int64_t calls = 0;         // the number of agreements so far, equal in all processes
std::string
    lost;  // why the group is unusable: an agreement that MPI has not completed was abandoned

/// Messages from a process that has waited for too long to the others that wait.
struct TimeoutNotices {
  static constexpr int kTag = 1, kAnySource = -1;
  std::vector<bool> waits = std::vector<bool>(group().size);
  int64_t call = calls;  // notices about earlier calls are ignored

  /// Receives notices; returns whether another process has announced this call.
  bool poll() {
    bool received = false;
    for (int there = 1; there;) {
      Mpi::Status status{};
      mpi().probe(kAnySource, kTag, mpi().world, &there, &status);
      if (!there) break;
      int64_t of = -1;
      mpi().receive(&of, 1, datatype(Dtype::i64), status.source, kTag, mpi().world, &status);
      if (of == call) waits[status.source] = received = true;
    }
    return received;
  }
  void notify() {
    waits[group().rank] = true;
    for (int i = 0; i < group().size; ++i) {
      Mpi::Request request;
      if (i != group().rank)
        mpi().send(&call, 1, datatype(Dtype::i64), i, kTag, mpi().world, &request);
    }
  }
  /// "process 1", "processes 1, 2": the processes that have not announced the call.
  std::string missing() const {
    std::string text;
    int n = 0;
    for (int i = 0; i < group().size; ++i)
      if (!waits[i]) text += fmt::format("{}{}", n++ ? ", " : "", i);
    return n == 0 ? "the network" : (n == 1 ? "process " : "processes ") + text;
  }
};

/// Waits until all processes have agreed, for at most `seconds`, or until Ctrl-C.
void wait(const char* operation, Mpi::Request request, double seconds) {
  constexpr double kBusy = 0.01, kAnswer = 1;  // seconds: of busy waiting; for the others' answers
  const auto start = Clock::now();
  const auto done = [&] {
    int is = 0;
    check(operation, mpi().test(&request, &is, nullptr));
    return is != 0;
  };
  for (int turn = 0; turn < 1000; ++turn)
    if (done()) return;
  TimeoutNotices notices;
  bool interrupted = false;
  while (!(interrupted = mt_interrupted) && !notices.poll() && since(start) < seconds) {
    if (done()) return;
    if (since(start) < kBusy) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const double waited = since(start);
  if (!interrupted) {
    notices.notify();
    for (const auto told = Clock::now(); since(told) < kAnswer && !mt_interrupted; notices.poll()) {
      if (done()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  lost = interrupted ? "Ctrl-C ended an earlier call" : "an earlier call waited for too long";
  if (interrupted) check_interrupt();
  fail(
      "{}: process {} has waited for {:.1f} s, but {} did not answer; find out why, or increase "
      "the limit: dist.init{{timeout={:.0f}}}",
      operation, group().rank, waited, notices.missing(), 10 * max_seconds);
}

/// Calls part(first, count) for pieces of 4 MB or so, which Open MPI transfers twice as fast as 64 MB at once.
void in_parts(int64_t count, const std::function<void(int64_t, int)>& part) {
  constexpr int64_t kMaxCount = int64_t(1) << 20;
  for (int64_t at = 0; at < count; at += kMaxCount) part(at, int(std::min(kMaxCount, count - at)));
}

const auto kInPlace = reinterpret_cast<const void*>(intptr_t(1));  // MPI_IN_PLACE

/// The calls of all processes, compared by an all-reduce whose count does not depend on the call.
struct Calls {
  bool equal;
  int64_t ended;  // a process that has exited, or -1
};
Calls compare(const char* operation, const std::string& call, bool ended) {
  const auto hash = int64_t(std::hash<std::string>()(call) >> 1);
  static int64_t numbers[3];  // MPI may still write here after the wait was abandoned
  if (!lost.empty())
    fail("{}: the processes cannot work together any more, since {}; start them again", operation,
         lost);
  numbers[0] = hash, numbers[1] = -hash, numbers[2] = ended ? group().rank : -1;
  ++calls;
  Mpi::Request request;
  check(operation, mpi().start_all_reduce(kInPlace, numbers, 3, datatype(Dtype::i64),
                                          mpi().object("ompi_mpi_op_max"), mpi().world, &request));
  wait(operation, request, ended ? HUGE_VAL : max_seconds);
  return {numbers[0] == -numbers[1], numbers[2]};
}

void finalize_at_exit(int status) {
  std::string why = status ? fmt::format("status {}", status) : "";
  try {
    if (why.empty()) {
      while (!compare("mt.dist", "the end of the program", true).equal) continue;
      mpi().finalize();
      return;
    }
  } catch (const std::exception& e) { why = e.what(); }
  // Exits without MPI_Finalize, so that mpirun ends the others.
  fprintf(stderr, "mt.dist: process %d of %d has failed, which ends the others (%s)\n",
          group().rank, group().size, why.c_str());
}

/// Throws Error in all processes if their calls differ.
void agree(const char* operation, const std::string& call) {
  if (std::this_thread::get_id() != group().thread)
    fail("{}: only the thread that called mt.dist first may call it, not a worker", operation);
  const Calls calls = compare(operation, call, false);
  if (calls.ended >= 0)
    fail(
        "{}: process {} has ended, but process {} calls {}; all processes must make equally many "
        "calls, so give each equally many batches",
        operation, calls.ended, group().rank, call);
  if (!calls.equal)
    fail(
        "{}: the processes call it differently, or with other sizes or dtypes; process {} calls {}",
        operation, group().rank, call);
}

/// "float32 (2 x 3), int64 (3)"
std::string described(const TensorList& list) {
  std::string text;
  for (const Tensor& x : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", x.dtype(), x.shape());
  return text;
}

/// Tensors of one dtype in one buffer; a single tensor that MPI can use directly is not copied.
struct Buffer {
  Tensor data;
  bool shared = false;  // `data` is the memory of the tensor
  explicit Buffer(const TensorList& list, bool may_share = true) {
    const Tensor& x = list[0];
    const Dtype d = wire(x.dtype());
    shared =
        may_share && list.size() == 1 && is_cpu(x.device()) && x.is_contiguous() && x.dtype() == d;
    int64_t n = 0;
    for (const Tensor& x : list) n += x.numel();
    data = shared ? view_of(x, {n}, {1}, 0) : empty({n}, d);
    if (!shared) each(list, [](const Tensor& x, const Tensor& part) { copy_(part, x); });
  }
  /// Calls f(tensor, its part of the buffer).
  void each(const TensorList& list, auto f) const {
    int64_t at = 0;
    for (const Tensor& x : list) {
      f(x, reshape(view_of(data, {x.numel()}, {1}, at), x.shape()));
      at += x.numel();
    }
  }
  void copy_to(const TensorList& list) const {
    if (!shared) each(list, [](const Tensor& x, const Tensor& part) { copy_(x, part); });
  }
  // All processes have agreed on the call before data is sent: blocking MPI calls are 1.7 to 2.5
  // times as fast as those that can be abandoned.
  /// Reduces the elements over all processes.
  void reduce(const char* operation, Reduction how) const {
    constexpr const char* kOps[] = {"ompi_mpi_op_sum", "ompi_mpi_op_sum", "ompi_mpi_op_max",
                                    "ompi_mpi_op_min"};
    const Dtype d = data.dtype();
    in_parts(data.numel(), [&](int64_t at, int n) {
      check(operation, mpi().all_reduce(kInPlace, data.data_as<char>() + at * item_size(d), n,
                                        datatype(d), mpi().object(kOps[int(how)]), mpi().world));
    });
    if (how == Reduction::mean) copy_(data, div(data, scalar(group().size, d)));
  }
  /// Copies the elements of process `root` to all.
  void broadcast(const char* operation, int64_t root) const {
    const Dtype d = data.dtype();
    in_parts(data.numel(), [&](int64_t at, int n) {
      check(operation, mpi().broadcast(data.data_as<char>() + at * item_size(d), n, datatype(d),
                                       int(root), mpi().world));
    });
  }
};

/// Calls f with the tensors of each dtype in the list.
void by_dtype(const TensorList& list, auto f) {
  for (int d = 0; d < kDtypes; ++d) {
    TensorList subset;
    for (const Tensor& x : list)
      if (x.dtype() == Dtype(d)) subset.push_back(x);
    if (!subset.empty()) f(subset);
  }
}

}  // namespace

int rank() { return group().rank; }
int size() { return group().size; }
void set_timeout(double seconds) {
  if (!(seconds > 0)) fail("dist.init: timeout is {}; it must be positive", show(seconds));
  max_seconds = seconds;
}

void all_reduce_(const TensorList& list, Reduction how) {
  constexpr const char* kName = "all_reduce_";
  const NoGrad off;
  for (const Tensor& x : list) {
    check_writable(kName, x);
    if (how == Reduction::mean && !is_float(x.dtype()))
      fail("{}: the mean of {} is not an integer; use op='sum', or x:float()", kName, x.dtype());
    if (how == Reduction::sum && x.dtype() == Dtype::b8)
      fail("{}: bool has no sum; use op='max' for any, op='min' for all, or x:int()", kName);
  }
  if (size() == 1) return;
  agree(kName, fmt::format("{}({}) of {}", kName, names_of(how)[int(how)], described(list)));
  by_dtype(list, [&](const TensorList& subset) {
    const Buffer buffer(subset);
    buffer.reduce(kName, how);
    buffer.copy_to(subset);
  });
}

void broadcast_(const TensorList& list, int64_t root) {
  constexpr const char* kName = "broadcast_";
  if (root < 0 || root >= size())
    fail("{}: root is {}; the processes are 0 to {}", kName, root, size() - 1);
  const NoGrad off;
  for (const Tensor& x : list) check_writable(kName, x);
  if (size() == 1) return;
  agree(kName, fmt::format("{}({}) of {}", kName, root, described(list)));
  by_dtype(list, [&](const TensorList& subset) {
    const Buffer buffer(subset);
    buffer.broadcast(kName, root);
    if (rank() != root) buffer.copy_to(subset);
  });
}

TensorList all_gather(const Tensor& x) {
  constexpr const char* kName = "all_gather";
  const NoGrad off;
  if (size() > 1) agree(kName, fmt::format("{} of {}", kName, described({x})));
  TensorList result;
  for (int i = 0; i < size(); ++i) {
    result.push_back(i == rank() ? clone(x) : empty(x.shape(), x.dtype(), x.device()));
    if (size() == 1) continue;
    const Buffer buffer({result.back()});
    buffer.broadcast(kName, i);
    if (i != rank()) buffer.copy_to({result.back()});
  }
  return result;
}

void barrier() {
  if (size() > 1) agree("barrier", "barrier()");
}

void average_gradients(const TensorList& parameters) {
  if (size() == 1) return;
  struct TensorMeta {
    Shape shape;
    Dtype dtype;
    const Device* device;
  };
  std::vector<TensorMeta> metas;
  for (const Tensor& p : parameters) metas.push_back({p.shape(), p.dtype(), &p.device()});
  const std::string call = "backward of a net with " + described(parameters);
  register_group_hook(parameters, [metas, call](TensorList& gradients) {
    const NoGrad off;
    agree("backward", call);
    std::vector<int64_t> computed;
    for (const Tensor& g : gradients) computed.push_back(g.defined());
    const Buffer flags({tensor(computed.data(), {int64_t(computed.size())})});
    flags.reduce("backward", Reduction::max);
    const auto* const anywhere = flags.data.data_as<const int64_t>();
    for (int d = 0; d < kDtypes; ++d) {
      std::vector<size_t> places;
      TensorList subset;
      for (size_t i = 0; i < gradients.size(); ++i) {
        const TensorMeta& meta = metas[i];
        if (meta.dtype != Dtype(d) || !anywhere[i]) continue;
        places.push_back(i);
        subset.push_back(gradients[i].defined() ? gradients[i]
                                                : zeros(meta.shape, meta.dtype, *meta.device));
      }
      if (subset.empty()) continue;
      const Buffer buffer(subset, false);  // other processes may have a gradient
      buffer.reduce("backward", Reduction::mean);
      size_t k = 0;
      buffer.each(subset, [&](const Tensor& g, const Tensor& part) {
        gradients[places[k++]] = to(to(part, g.dtype()), g.device());
      });
    }
  });
}

}  // namespace mt::dist
