// nccl.cu -- collectives between the GPUs of processes by NCCL, on a stream of their own
//
// A collective starts when the work before it is done (event `before`), on the GPU's second stream;
// group_finish makes later work wait for it (an event `after`). Communicators do not block: a call may be in
// progress after it returns, so that the caller can give up waiting for a process that never comes.
#include "kernels/cuda/nccl.h"

#include <chrono>
#include <thread>

#include "kernels/cuda/gpu_library.h"

namespace mt::cuda {
namespace {

#ifdef __CUDACC__
constexpr const char* kFile = kNcclName;
#else
constexpr const char* kFile = "libnccl_emulated.so.2";
#endif

struct Kind {
  using Functions = Nccl;
  using Handle = cudaStream_t;  // the stream of collectives
  static constexpr const char *kName = "NCCL", *kWanted = "NCCL 2.14 or newer",
                              *kVariable = "MTORCH_NCCL", *kUses = "collectives";
  static constexpr const char* kLoss =
      "processes exchange GPU tensors through the CPU's memory, as with MTORCH_NCCL=0; install NCCL, "
      "or name libnccl.so.2 in MTORCH_NCCL";

  static std::vector<std::string> files() {
    if (const std::string& own = GpuLibrary<Kind>::setting(); !own.empty()) return {own};
    std::vector<std::string> all = library_files(kFile, {"nccl"});
    all.push_back(kFile);
    return all;
  }
  static bool expected(bool) { return false; }  // mt.dist reports it
  static cudaStream_t handle_of(const Nccl&, std::string& why) {
    cudaStream_t made = nullptr;
    int least = 0, greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    const cudaError_t e = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest);
    if (e == cudaSuccess) return made;
    cudaGetLastError();
    why = cudaGetErrorString(e);
    return nullptr;
  }
  static std::string version_of(const Nccl& lib, cudaStream_t) {
    int v = 0;
    lib.version(&v);
    return version_text(v);
  }
};

struct ProcessGroup {
  InUse<Nccl, cudaStream_t> nccl;
  ccl::Communicator communicator = nullptr;
  int rank, size;
  bool (*stop)(double seconds);
  static constexpr int kEvents = 8;
  cudaEvent_t before = nullptr, after[kEvents] = {};  // of the last collectives, by number
  uint64_t number = 0;                                // of the last collective
  const char* name = "";                              // of the last collective
  bool in_progress = false;  // the last call: its work is not in the stream yet
  bool queued = false;       // its event was recorded, and has not been seen
  std::string why = {};      // it failed
  ProcessGroup* next = nullptr;
  /// The event of a collective, or of a later one.
  cudaEvent_t& event_of(uint64_t n) { return after[n % kEvents]; }
};
/// The groups of the current GPU.
ProcessGroup*& groups() {
  static ProcessGroup* first[kMaxGpus];
  return first[current_device()];
}
ProcessGroup& group_of(void* group) { return *static_cast<ProcessGroup*>(group); }

/// Ends the communicator and its work in the stream.
void fail(ProcessGroup& g, const std::string& why) {
  if (!g.why.empty()) return;
  g.why = why;
  g.in_progress = false;
  if (g.communicator) g.nccl.library->abort(g.communicator);
  g.communicator = nullptr;
}
std::string text_of(const ProcessGroup& g, int status) {
  const char* const detail = g.communicator ? g.nccl.library->last_error(g.communicator) : nullptr;
  const std::string text = g.nccl.library->text(status);
  return "NCCL: " + text + (detail && *detail ? std::string(" (") + detail + ")" : "");
}

/// After a call of NCCL: it failed, is in progress, or has queued all work.
void settle(ProcessGroup& g, int status) {
  if (status == ccl::kInProgress) {
    g.in_progress = true;
  } else if (status != ccl::kSuccess) {
    fail(g, text_of(g, status));
  } else {
    g.in_progress = false;
    check(cudaEventRecord(g.event_of(g.number), g.nccl.handle), "a collective");
    g.queued = !capturing();
  }
}

int type_of(Dtype d) {
  switch (d) {
    case Dtype::i8: return ccl::kInt8;
    case Dtype::i32: return ccl::kInt32;
    case Dtype::i64: return ccl::kInt64;
    case Dtype::f32: return ccl::kFloat;
    case Dtype::f64: return ccl::kDouble;
    default: return ccl::kUint8;
  }
}

/// Sends and receives blocks of bytes: gather, scatter, all_to_all, send, recv.
int exchange(const ProcessGroup& g, const Collective& c) {
  const Nccl& lib = *g.nccl.library;
  using K = Collective::Kind;
  const bool all = c.kind == K::all_to_all, is_root = g.rank == c.root;
  const bool cut = all || c.kind == K::scatter, joins = all || c.kind == K::gather;
  int status = lib.begin();
  for (int i = 0; i < g.size && status == ccl::kSuccess; ++i) {
    const bool to_root = i == c.root && (c.kind == K::gather || c.kind == K::send);
    const bool from_root = i == c.root && (c.kind == K::scatter || c.kind == K::recv);
    const auto ok = [&](int answer) {
      if (answer != ccl::kInProgress) status = answer;
    };
    if (all || to_root || (c.kind == K::scatter && is_root))
      ok(lib.send(static_cast<const char*>(c.from) + (cut ? i * c.count : 0), size_t(c.count),
                  ccl::kUint8, i, g.communicator, g.nccl.handle));
    if (status == ccl::kSuccess && (all || from_root || (c.kind == K::gather && is_root)))
      ok(lib.recv(static_cast<char*>(c.to) + (joins ? i * c.count : 0), size_t(c.count),
                  ccl::kUint8, i, g.communicator, g.nccl.handle));
  }
  const int ended = lib.end();
  return status == ccl::kSuccess ? ended : status;
}

int call(const ProcessGroup& g, const Collective& c) {
  const Nccl& lib = *g.nccl.library;
  const size_t n = size_t(c.count);
  const int type = type_of(c.dtype);
  const int op = c.op == Collective::Op::max   ? ccl::kMax
                 : c.op == Collective::Op::min ? ccl::kMin
                                               : ccl::kSum;
  const auto comm = g.communicator;
  const auto side = g.nccl.handle;
  switch (c.kind) {
    case Collective::Kind::all_reduce: return lib.all_reduce(c.from, c.to, n, type, op, comm, side);
    case Collective::Kind::reduce_scatter:
      return lib.reduce_scatter(c.from, c.to, n, type, op, comm, side);
    case Collective::Kind::broadcast:
      return lib.broadcast(c.from, c.to, n, ccl::kUint8, c.root, comm, side);
    case Collective::Kind::all_gather:
      return lib.all_gather(c.from, c.to, n, ccl::kUint8, comm, side);
    default: return exchange(g, c);
  }
}

}  // namespace

const char* nccl_words(bool open) {
  if (GpuLibrary<Kind>::setting() == "0") return "off (MTORCH_NCCL=0)";
  return gpu_library<Kind>().words(open);
}

const char* pci_bus_id() {
  static char all[kMaxGpus][32];
  char* const text = all[current_device()];
  if (!*text)
    check(cudaDeviceGetPCIBusId(text, sizeof all[0], current_device()),
          "reading the place of the GPU");
  return text;
}

bool group_id(char* id) {
  const auto nccl = gpu_library<Kind>().use();
  return nccl.library && nccl.library->new_id(reinterpret_cast<ccl::Id*>(id)) == ccl::kSuccess;
}

void* group_join(const char* id, int rank, int size, bool (*stop)(double seconds)) {
  ProcessGroup* const g = new ProcessGroup{gpu_library<Kind>().use(), nullptr, rank, size, stop};
  g->next = groups();
  groups() = g;
  if (!g->nccl.library) return fail(*g, nccl_words(false)), g;
  const auto create = [](cudaEvent_t& event) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  };
  create(g->before);
  for (cudaEvent_t& event : g->after) create(event);
  ccl::Options options;
  const int status = g->nccl.library->join(&g->communicator, size,
                                           *reinterpret_cast<const ccl::Id*>(id), rank, &options);
  settle(*g, status);
  return g;
}

uint64_t group_start(void* group, const Collective& c) {
  ProcessGroup& g = group_of(group);
  if (stopped() || !g.why.empty()) return g.number;
  if (capturing()) keep(&c, sizeof c);
  if (!check(cudaEventRecord(g.before, stream()), "a collective") ||
      !check(cudaStreamWaitEvent(g.nccl.handle, g.before, 0), "a collective"))
    return g.number;
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "broadcast",
                                    "all_gather", "gather",         "scatter",
                                    "all_to_all", "send",           "recv"};
  g.name = kNames[int(c.kind)];
  gpu_library<Kind>().count();
  ++g.number;
  settle(g, call(g, c));
  return g.number;
}

GroupState group_state(void* group) {
  ProcessGroup& g = group_of(group);
  if (g.in_progress) {
    int status = ccl::kSuccess;
    const int answer = g.nccl.library->state(g.communicator, &status);
    settle(g, answer == ccl::kSuccess ? status : answer);
  }
  return !g.why.empty()  ? GroupState::failed
         : g.in_progress ? GroupState::working
                         : GroupState::ready;
}

void group_finish(void* group, uint64_t number) {
  ProcessGroup& g = group_of(group);
  if (stopped() || !g.why.empty()) return;
  {
    const Timed timed(g.name);  // how long the GPU waits
    check(cudaStreamWaitEvent(stream(), g.event_of(number), 0), "a collective");
  }
  if (synchronous()) wait_for_groups();
  started(g.name);
}

void group_abort(void* group, const char* why) { fail(group_of(group), why); }
const char* group_error(void* group) { return group_of(group).why.c_str(); }

void wait_for_groups() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (ProcessGroup* g = groups(); g; g = g->next) {
    for (int turn = 0; g->queued; ++turn) {
      const cudaError_t e = cudaEventQuery(g->event_of(g->number));
      g->queued = e == cudaErrorNotReady;
      if (!g->queued) {
        check(e, "a collective");
        break;
      }
      cudaGetLastError();
      if (turn < 1000) continue;
      if (g->why.empty()) {
        int status = ccl::kSuccess;
        g->nccl.library->state(g->communicator, &status);
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (status != ccl::kSuccess && status != ccl::kInProgress) fail(*g, text_of(*g, status));
        else if (g->stop(seconds))
          fail(*g, "it waited for the other processes for " + std::to_string(int(seconds)) + " s");
        if (!g->why.empty()) record_error(("a collective failed: " + g->why).c_str());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace mt::cuda
