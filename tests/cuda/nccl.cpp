// nccl.cpp -- NCCL for the emulation: processes of this machine, by shared memory; stricter than NCCL
//
// Part of the emulated plug-in, which is its own NCCL where MTORCH_NCCL names it. A wrong call ends the program with
// a sentence: one that differs from those of the other processes, a call while the last one is in progress, with an
// aborted communicator, or with memory that was freed before the work is done.
//   MTORCH_EMULATED_NCCL=progress=5,fail_at=3,fail_join=1,stuck_rank=1,stuck_at=2,gbps=200,us=20
// Each call is in progress for 5 questions; the 3rd operation fails, in rank `fail_rank` or in all; joining fails in
// rank 1; the 2nd operation of rank 1 never begins; each operation takes 20 us and 5 ps per byte.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#define MT_SHOWN extern "C" __attribute__((visibility("default")))

namespace {

enum Status {
  kSuccess = 0,
  kSystemError = 2,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kInProgress = 7
};
enum Kind { kAllReduce, kReduceScatter, kBroadcast, kAllGather };
enum { kInt8 = 0, kUint8 = 1, kInt32 = 2, kInt64 = 4, kFloat = 7, kDouble = 8 };
enum { kSum = 0, kMax = 2, kMin = 3 };
constexpr int kRanks = 8;
constexpr size_t kArea = size_t(32) << 20, kBox = size_t(1) << 20;

/// The number after "NAME=" in MTORCH_EMULATED_NCCL, or `otherwise`.
double order(const char* name, double otherwise) {
  const char* const text = std::getenv("MTORCH_EMULATED_NCCL");
  const std::string all = std::string(",") + (text ? text : "");
  const size_t at = all.find(std::string(",") + name + "=");
  return at == all.npos ? otherwise : std::atof(all.c_str() + all.find('=', at) + 1);
}

const struct {
  double us = order("us", 0), gbps = order("gbps", 1e9);
  int progress = int(order("progress", 0)), fail_at = int(order("fail_at", 0)),
      fail_rank = int(order("fail_rank", -1)), fail_join = int(order("fail_join", -1)),
      stuck_rank = int(order("stuck_rank", -1)), stuck_at = int(order("stuck_at", 1));
} orders;

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what.c_str());
  std::abort();
}

struct Id {
  char name[128];
};
struct Call {
  int kind, type, op, root;
  size_t count;
  bool operator==(const Call&) const = default;
};
/// What the processes of a communicator share: by rank, how many parts of operations it has written to its area, and
/// how many it has read from all areas; by sender and receiver, how many parts of messages.
struct Shared {
  std::atomic<int> here, failed;
  struct {
    std::atomic<uint64_t> written, read;
    Call call;
    int device;
  } ranks[kRanks];
  struct {
    std::atomic<uint64_t> written, read;
    size_t bytes;  // of the whole message
  } boxes[kRanks][kRanks];
  alignas(4096) char areas[kRanks][kArea];
  char box[kRanks][kRanks][kBox];
};

using Clock = std::chrono::steady_clock;

}  // namespace

struct ncclComm {
  Shared* all = nullptr;
  Id id;
  int rank, size, questions = 0, operations = 0;
  bool joins = true, aborted = false;
  std::string error = {};
  std::function<void()> start = {};   // what the call in progress queues in the end
  Clock::time_point busy_until = {};  // with the operations that were queued

  /// Whether this holds for all ranks.
  template <class F> bool each(const F& f) const {
    for (int r = 0; r < size; ++r)
      if (!f(all->ranks[r])) return false;
    return true;
  }
};

namespace {

size_t size_of(int type) {
  return type == kInt8 || type == kUint8 ? 1 : type == kInt32 || type == kFloat ? 4 : 8;
}
void check_memory(const void* p, size_t bytes) {
  if (bytes && !emulation::is_held(p, bytes)) stop("memory that is no GPU's, or that was freed");
}
/// Runs f where a GPU's memory may be touched.
void on_gpu(const std::function<void()>& f) { emulation::launch("NCCL", false, 1, 1, 0, f); }

template <class T> void combine(T* to, const T* from, size_t n, int op) {
  if (op == kSum)
    for (size_t i = 0; i < n; ++i) to[i] = T(to[i] + from[i]);
  else if (op == kMax)
    for (size_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i]);
  else
    for (size_t i = 0; i < n; ++i) to[i] = std::min(to[i], from[i]);
}
void combine(void* to, const void* from, size_t n, int type, int op) {
  const auto as = [&]<class T>(T) {
    combine(static_cast<T*>(to), static_cast<const T*>(from), n, op);
  };
  switch (type) {
    case kInt8: return as(int8_t());
    case kUint8: return as(uint8_t());
    case kInt32: return as(int32_t());
    case kInt64: return as(int64_t());
    case kFloat: return as(float());
    case kDouble: return as(double());
    default: stop("a type that has no sum here");
  }
}

/// Work of the stream: an operation of all ranks, in parts that fit into the areas.
struct Operation {
  ncclComm* comm;
  Call call;
  const char* from;
  char* to;
  size_t at = 0, part = 0;
  bool written = false;

  size_t blocks() const { return call.kind == kReduceScatter ? size_t(comm->size) : 1; }
  void write() {
    Shared& s = *comm->all;
    const size_t item = size_of(call.type);
    part = std::min(call.count - at, kArea / item / blocks());
    if (call.kind != kBroadcast || call.root == comm->rank)
      for (size_t b = 0; b < blocks(); ++b) {
        const char* const block = from + (b * call.count + at) * item;
        check_memory(block, part * item);
        emulation::copy(s.areas[comm->rank] + b * part * item, block, part * item);
      }
    s.ranks[comm->rank].call = call;
    ++s.ranks[comm->rank].written;
  }
  void read() {
    Shared& s = *comm->all;
    const size_t item = size_of(call.type), bytes = part * item;
    if (!comm->each([&](const auto& r) { return r.call == call; }))
      stop("the processes call different operations, types, sizes or roots");
    const int parts = call.kind == kAllGather ? comm->size : 1;
    for (int b = 0; b < parts; ++b) {
      char* const block = to + (size_t(b) * call.count + at) * item;
      check_memory(block, bytes);
      const auto area = [&](int r) {
        return s.areas[r] + (call.kind == kReduceScatter ? size_t(comm->rank) * bytes : 0);
      };
      const int source = call.kind == kBroadcast ? call.root : call.kind == kAllGather ? b : 0;
      emulation::copy(block, area(source), bytes);
      if (call.kind == kAllReduce || call.kind == kReduceScatter)
        on_gpu([&] {
          for (int r = 1; r < comm->size; ++r) combine(block, area(r), part, call.type, call.op);
        });
    }
    ++s.ranks[comm->rank].read;
    at += part;
  }
  bool step() {
    auto& me = comm->all->ranks[comm->rank];
    while (!comm->aborted && at < call.count) {
      if (!written) {
        if (!comm->each([&](const auto& r) { return r.read == me.written; })) return false;
        write();
        written = true;
      }
      if (!comm->each([&](const auto& r) { return r.written >= me.written; })) return false;
      read();
      written = false;
    }
    at = 0;
    return true;
  }
};

/// A message to or from another process, of a group of them.
struct Message {
  bool sends;
  int other;
  char* data;
  size_t bytes, at = 0;
};
/// Work of the stream: messages, in any order.
struct Messages {
  ncclComm* comm;
  std::vector<Message> list;

  bool moved(Message& m) {
    Shared& s = *comm->all;
    const int from = m.sends ? comm->rank : m.other, to = m.sends ? m.other : comm->rank;
    auto& box = s.boxes[from][to];
    const size_t n = std::min(m.bytes - m.at, kBox);
    if (n == 0 || (box.written > box.read) == m.sends) return false;
    check_memory(m.data, m.bytes);
    char* const inside = s.box[from][to];
    if (m.sends) {
      box.bytes = m.bytes;
      emulation::copy(inside, m.data + m.at, n);
      ++box.written;
    } else {
      if (box.bytes != m.bytes) stop("the sizes of a message differ");
      emulation::copy(m.data + m.at, inside, n);
      ++box.read;
    }
    m.at += n;
    return true;
  }
  bool step() {
    for (bool any = true; any && !comm->aborted;) {
      any = false;
      for (Message& m : list) any |= moved(m);
    }
    if (!comm->aborted)
      for (const Message& m : list)
        if (m.at < m.bytes) return false;
    for (Message& m : list) m.at = 0;
    return true;
  }
};

/// Queues work in the stream, which takes as long as was ordered, from now or the end of the work before it on.
template <class Work> void queue(Work work, void* stream, size_t bytes) {
  const std::chrono::duration<double> seconds(orders.us * 1e-6 +
                                              double(bytes) * 8 / (orders.gbps * 1e9));
  const auto next_end = [work, time = std::chrono::duration_cast<Clock::duration>(seconds)] {
    return work.comm->busy_until = std::max(Clock::now(), work.comm->busy_until) + time;
  };
  emulation::start_on(stream, [work, next_end, end = next_end(), runs = true]() mutable {
    if (!runs) end = next_end(), runs = true;  // of a graph
    if (Clock::now() < end && !work.comm->aborted) return false;
    if (!work.step()) return false;
    runs = false;
    return true;
  });
}

/// The answer of a call that queues work.
template <class Work> int begin(Work work, void* stream, size_t bytes) {
  ncclComm& c = *work.comm;
  if (c.aborted) stop("a call with an aborted communicator");
  if (c.joins || c.start) stop("a call while the last one is in progress");
  if (!stream) stop("the stream of the other work");
  const int n = ++c.operations, rank = c.rank;
  if (n == orders.fail_at && (orders.fail_rank < 0 || orders.fail_rank == rank)) {
    c.error = "ordered by MTORCH_EMULATED_NCCL";
    return kSystemError;
  }
  if (rank == orders.stuck_rank && n >= orders.stuck_at) {
    emulation::start_on(stream, [&c] { return c.aborted; });
    return kSuccess;
  }
  c.questions = orders.progress;
  if (c.questions == 0) return queue(work, stream, bytes), kSuccess;
  c.start = [=] { queue(work, stream, bytes); };
  return kInProgress;
}
int begin_all(const void* from, void* to, size_t count, Call call, ncclComm* comm, void* stream) {
  if (count == 0) stop("an operation on nothing");
  call.count = count;
  return begin(Operation{comm, call, static_cast<const char*>(from), static_cast<char*>(to)},
               stream, count * size_of(call.type));
}

int depth = 0;
std::vector<Message> messages;
ncclComm* messages_of = nullptr;
void* messages_stream = nullptr;

}  // namespace

MT_SHOWN int ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}
MT_SHOWN const char* ncclGetErrorString(int status) {
  return status == kSystemError ? "unhandled system error" : "an error of the emulation";
}
MT_SHOWN const char* ncclGetLastError(ncclComm* comm) { return comm->error.c_str(); }
MT_SHOWN int ncclGetUniqueId(Id* id) {
  static int made = 0;
  *id = {};
  std::snprintf(id->name, sizeof id->name, "/mtorch_nccl_%d_%d_%lld", int(getpid()), made++,
                static_cast<long long>(Clock::now().time_since_epoch().count()));
  return kSuccess;
}

MT_SHOWN int ncclCommInitRankConfig(ncclComm** made, int size, Id id, int rank,
                                    const void* config) {
  struct {
    size_t size;
    unsigned magic, version;
    int blocking;
  } options;
  std::memcpy(&options, config, sizeof options);
  if (options.size < sizeof options || options.magic != 0xcafebeef || options.version < 21400 ||
      options.blocking != 0 || size > kRanks)
    return kInvalidArgument;
  const int file = shm_open(id.name, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return kSystemError;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return kSystemError;
  ncclComm* const c = *made = new ncclComm{static_cast<Shared*>(at), id, rank, size};
  cudaGetDevice(&c->all->ranks[rank].device);
  if (rank == orders.fail_join) {
    c->all->failed = 1;
    shm_unlink(id.name);
    c->error = "ordered by MTORCH_EMULATED_NCCL";
    return kSystemError;
  }
  c->questions = orders.progress;
  ++c->all->here;
  return kInProgress;
}
/// In progress until all processes are here, and as often as was ordered.
MT_SHOWN int ncclCommGetAsyncError(ncclComm* c, int* status) {
  if (c->aborted) stop("a call with an aborted communicator");
  *status = kInProgress;
  if (c->joins && c->all->failed) return *status = kSystemError, kSuccess;
  if (c->joins && c->all->here < c->size) return kSuccess;
  if ((c->joins || c->start) && --c->questions > 0) return kSuccess;
  *status = kSuccess;
  if (c->joins) {
    shm_unlink(c->id.name);
    c->joins = false;
    for (int r = 0; r < c->size; ++r)
      for (int q = 0; q < r; ++q)
        if (c->all->ranks[q].device == c->all->ranks[r].device) *status = kInvalidUsage;
  }
  if (const auto start = std::exchange(c->start, {})) start();
  return kSuccess;
}
MT_SHOWN int ncclCommAbort(ncclComm* c) {
  if (c->aborted) stop("a communicator is aborted twice");
  c->aborted = true;  // its memory stays: work of the stream refers to it
  shm_unlink(c->id.name);
  return kSuccess;
}

MT_SHOWN int ncclAllReduce(const void* from, void* to, size_t count, int type, int op,
                           ncclComm* comm, void* stream) {
  return begin_all(from, to, count, {kAllReduce, type, op, 0, 0}, comm, stream);
}
MT_SHOWN int ncclReduceScatter(const void* from, void* to, size_t count, int type, int op,
                               ncclComm* comm, void* stream) {
  return begin_all(from, to, count, {kReduceScatter, type, op, 0, 0}, comm, stream);
}
MT_SHOWN int ncclBroadcast(const void* from, void* to, size_t count, int type, int root,
                           ncclComm* comm, void* stream) {
  return begin_all(from, to, count, {kBroadcast, type, 0, root, 0}, comm, stream);
}
MT_SHOWN int ncclAllGather(const void* from, void* to, size_t count, int type, ncclComm* comm,
                           void* stream) {
  return begin_all(from, to, count, {kAllGather, type, 0, 0, 0}, comm, stream);
}

MT_SHOWN int ncclGroupStart() { return ++depth, kSuccess; }
MT_SHOWN int ncclGroupEnd() {
  if (--depth < 0) stop("the end of no group");
  if (depth > 0 || messages.empty()) return kSuccess;
  size_t bytes = 0;
  for (const Message& m : messages) bytes += m.bytes;
  return begin(Messages{messages_of, std::exchange(messages, {})}, messages_stream, bytes);
}
static int add(Message m, int type, ncclComm* comm, void* stream) {
  if (m.other < 0 || m.other >= comm->size || m.bytes == 0) return kInvalidArgument;
  if (!messages.empty() && messages_of != comm) stop("messages of two communicators in one group");
  m.bytes *= size_of(type);
  messages_of = comm, messages_stream = stream;
  ncclGroupStart();
  messages.push_back(m);
  return ncclGroupEnd();
}
MT_SHOWN int ncclSend(const void* from, size_t count, int type, int to, ncclComm* comm,
                      void* stream) {
  return add({true, to, static_cast<char*>(const_cast<void*>(from)), count}, type, comm, stream);
}
MT_SHOWN int ncclRecv(void* to, size_t count, int type, int from, ncclComm* comm, void* stream) {
  return add({false, from, static_cast<char*>(to), count}, type, comm, stream);
}
