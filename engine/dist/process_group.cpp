// process_group.cpp -- collective operations: tensors are laid end to end in one buffer of the CPU, which MPI takes
#include "engine/dist/process_group.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>

#include "engine/autograd/graph.h"
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

/// A process whose program has ended takes part in agreements until all have ended.
void leave();

/// Processes that would each train alone: torchrun, MPICH or Intel MPI, and srun without PMIx started them.
void refuse_other_launchers() {
  for (const char* name : {"WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* size = getenv(name); size && std::atoi(size) > 1)
      fail(
          "mt.dist: {}={} tells of {} processes that Open MPI did not start; use mpirun -n {} mtorch "
          "script.lua, or srun --mpi=pmix, or unset {} for one process",
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
    on_exit(
        [](int status, void*) {
          if (status == 0) leave();
        },
        nullptr);
  }
};

const ProcessGroup& group() {
  static const ProcessGroup group;
  return group;
}

/// MPI's name for a dtype; 16-bit floats travel as float32, bool as uint8.
Dtype wire(Dtype d) { return is_half(d) ? Dtype::f32 : d == Dtype::b8 ? Dtype::u8 : d; }
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

/// MPI counts elements in an int: calls part(first, count) for at most 2^30 at a time.
void in_parts(int64_t count, const std::function<void(int64_t, int)>& part) {
  constexpr int64_t kMost = int64_t(1) << 30;
  for (int64_t at = 0; at < count; at += kMost) part(at, int(std::min(kMost, count - at)));
}

/// Elements become those of all processes, combined by an operation of MPI.
void reduce(const char* operation, void* data, int64_t count, Dtype d, const char* op) {
  constexpr intptr_t kInPlace = 1;  // MPI_IN_PLACE
  in_parts(count, [&](int64_t at, int n) {
    check(operation, mpi().all_reduce(reinterpret_cast<const void*>(kInPlace),
                                      static_cast<char*>(data) + at * item_size(wire(d)), n,
                                      datatype(d), mpi().object(op), mpi().world));
  });
}

/// What all processes call now. One all-reduce of always three numbers, as MPI forbids other counts.
struct Calls {
  bool equal;
  int64_t ended;  // a process that has ended, or -1
};
Calls compare(const char* operation, const std::string& call, bool ended) {
  const auto hash = int64_t(std::hash<std::string>()(call) >> 1);
  int64_t numbers[] = {hash, -hash, ended ? group().rank : -1};
  reduce(operation, numbers, 3, Dtype::i64, "ompi_mpi_op_max");
  return {numbers[0] == -numbers[1], numbers[2]};
}

void leave() {
  try {
    while (!compare("mt.dist", "the end of the program", true).equal) continue;
    mpi().finalize();
  } catch (const std::exception& e) {
    fprintf(stderr, "%s\n", e.what());  // without MPI_Finalize: mpirun ends the others
  }
}

/// Refuses, in all processes, calls that differ; each of `flags` becomes the largest of the processes'.
void agree(const char* operation, const std::string& call, std::vector<int64_t>& flags) {
  if (std::this_thread::get_id() != group().thread)
    fail("{}: only the thread that called mt.dist first may call it, not a worker", operation);
  const Calls calls = compare(operation, call, false);
  if (calls.ended >= 0)
    fail(
        "{}: process {} has ended, but process {} calls {}; all processes must make as many calls, "
        "so give each as many batches",
        operation, calls.ended, group().rank, call);
  if (!calls.equal)
    fail(
        "{}: the processes call it differently, or with other sizes or dtypes; process {} calls {}",
        operation, group().rank, call);
  if (!flags.empty())
    reduce(operation, flags.data(), int64_t(flags.size()), Dtype::i64, "ompi_mpi_op_max");
}
void agree(const char* operation, const std::string& call) {
  std::vector<int64_t> none;
  agree(operation, call, none);
}

/// "float32 (2 x 3), int64 (3)"
std::string described(const TensorList& list) {
  std::string text;
  for (const Tensor& x : list)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", x.dtype(), x.shape());
  return text;
}

/// Tensors of one dtype end to end.
struct Buffer {
  Tensor data;
  explicit Buffer(const TensorList& list) {
    int64_t n = 0;
    for (const Tensor& x : list) n += x.numel();
    data = empty({n}, wire(list[0].dtype()));
    each(list, [](const Tensor& x, const Tensor& part) { copy_(part, x); });
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
    each(list, [](const Tensor& x, const Tensor& part) { copy_(x, part); });
  }
};

/// Calls f with the tensors of each dtype that occurs.
void by_dtype(const TensorList& list, auto f) {
  for (int d = 0; d < kDtypes; ++d) {
    TensorList some;
    for (const Tensor& x : list)
      if (x.dtype() == Dtype(d)) some.push_back(x);
    if (!some.empty()) f(some);
  }
}

void reduce(const char* operation, const TensorList& list, Reduction how) {
  constexpr const char* kOps[] = {"ompi_mpi_op_sum", "ompi_mpi_op_sum", "ompi_mpi_op_max",
                                  "ompi_mpi_op_min"};
  by_dtype(list, [&](const TensorList& some) {
    const Buffer buffer(some);
    const Tensor& all = buffer.data;
    reduce(operation, all.data(), all.numel(), all.dtype(), kOps[int(how)]);
    if (how == Reduction::mean) copy_(all, div(all, scalar(group().size, all.dtype())));
    buffer.copy_to(some);
  });
}

void broadcast(const char* operation, const TensorList& list, int64_t root) {
  by_dtype(list, [&](const TensorList& some) {
    const Buffer buffer(some);
    const Tensor& all = buffer.data;
    in_parts(all.numel(), [&](int64_t at, int n) {
      check(operation, mpi().broadcast(static_cast<char*>(all.data()) + at * item_size(all.dtype()),
                                       n, datatype(all.dtype()), int(root), mpi().world));
    });
    if (group().rank != root) buffer.copy_to(some);
  });
}

}  // namespace

int rank() { return group().rank; }
int size() { return group().size; }

void all_reduce_(const TensorList& list, Reduction how) {
  constexpr const char* kName = "all_reduce_";
  const NoGrad off;
  for (const Tensor& x : list) {
    check_writable(kName, x);
    if (how == Reduction::mean && !is_float(x.dtype()))
      fail("{}: the mean of {} is no whole number; use op='sum', or x:float()", kName, x.dtype());
    if (how == Reduction::sum && x.dtype() == Dtype::b8)
      fail("{}: bool has no sum; use op='max' for any, op='min' for all, or x:int()", kName);
  }
  if (size() == 1) return;
  agree(kName, fmt::format("{}({}) of {}", kName, names_of(how)[int(how)], described(list)));
  reduce(kName, list, how);
}

void broadcast_(const TensorList& list, int64_t root) {
  constexpr const char* kName = "broadcast_";
  if (root < 0 || root >= size())
    fail("{}: root is {}; the processes are 0 to {}", kName, root, size() - 1);
  const NoGrad off;
  for (const Tensor& x : list) check_writable(kName, x);
  if (size() == 1) return;
  agree(kName, fmt::format("{}({}) of {}", kName, root, described(list)));
  broadcast(kName, list, root);
}

TensorList all_gather(const Tensor& x) {
  constexpr const char* kName = "all_gather";
  const NoGrad off;
  if (size() > 1) agree(kName, fmt::format("{} of {}", kName, described({x})));
  TensorList result;
  for (int i = 0; i < size(); ++i) {
    result.push_back(i == rank() ? clone(x) : empty(x.shape(), x.dtype(), x.device()));
    if (size() > 1) broadcast(kName, {result.back()}, i);
  }
  return result;
}

void barrier() {
  if (size() > 1) agree("barrier", "barrier()");
}

void average_gradients(const TensorList& parameters) {
  if (size() == 1) return;
  struct Like {
    Shape shape;
    Dtype dtype;
    const Device* device;
  };
  std::vector<Like> likes;
  for (const Tensor& p : parameters) likes.push_back({p.shape(), p.dtype(), &p.device()});
  const std::string call = "backward of a net with " + described(parameters);
  register_group_hook(parameters, [likes, call](TensorList& gradients) {
    const NoGrad off;
    std::vector<int64_t> computed;
    for (const Tensor& g : gradients) computed.push_back(g.defined());
    agree("backward", call, computed);
    TensorList all;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!computed[i]) continue;  // by no process
      gradients[i] = gradients[i].defined()
                         ? clone(gradients[i])
                         : zeros(likes[i].shape, likes[i].dtype, *likes[i].device);
      all.push_back(gradients[i]);
    }
    reduce("backward", all, Reduction::mean);
  });
}

}  // namespace mt::dist
