// process_group.cpp -- joins the processes that mpirun started; agreements, deadlines, the end of processes
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>

#include "engine/core/device.h"
#include "engine/dist/agreement.h"

namespace mt::dist {

namespace {
double max_seconds = 600;  // the limit of a call that waits for other processes
CallNote* note = nullptr;
void note_call(const std::string& call) {
  if (note) note->text[call.copy(note->text, sizeof note->text - 1)] = 0;
}
}  // namespace

void note_calls_in(CallNote* to) { note = to; }
Waiting::Waiting() {
  if (!note) return;
  note->limit = max_seconds;
  note->since = std::chrono::steady_clock::now().time_since_epoch().count();
}
Waiting::~Waiting() {
  if (note) note->since = 0;
}

const Mpi& mpi() { return loaded<Mpi>(); }

void check(const char* operation, int status) {
  if (status == 0) return;
  char text[512] = "";  // MPI_MAX_ERROR_STRING is 256
  int length = 0;
  mpi().error_string(status, text, &length);
  fail("{}: {}", operation, text);
}

Dtype wire(Dtype d) { return is_reduced_float(d) ? Dtype::f32 : d == Dtype::b8 ? Dtype::u8 : d; }
Dtype wire(Dtype d, const Group& group) {
  return group.gpu && d == Dtype::i16 ? Dtype::i32 : wire(d);  // NCCL has no int16
}
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

int Group::position(int64_t rank) const {
  const auto at = std::ranges::find(ranks, rank);
  return at == ranks.end() ? -1 : int(at - ranks.begin());
}
std::string Group::shown() const { return fmt::format("{{{}}}", fmt::join(ranks, ", ")); }

namespace {

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
struct World : Group {
  int rank = 0;
  std::thread::id thread = std::this_thread::get_id();
  bool serialized = false;  // whether several threads may call MPI in turn

  World() {
    ranks = {0};
    if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK")) {
      refuse_other_launchers();
      return;
    }
    note_call("dist.init");
    // Processes start at different times.
    const double limit = std::exchange(max_seconds, std::max(max_seconds, 60.0));
    constexpr int kSerialized = 2;  // MPI_THREAD_SERIALIZED: one thread at a time calls MPI
    int provided = 0, size = 1;
    if (mpi().init_thread(nullptr, nullptr, kSerialized, &provided) != 0)
      fail("mt.dist: MPI_Init_thread failed; is mpirun of the same Open MPI as libmpi.so.40?");
    max_seconds = limit;
    communicator = mpi().world;
    mpi().set_errhandler(communicator, mpi().errors_return);
    check("mt.dist", mpi().comm_rank(communicator, &rank));
    check("mt.dist", mpi().comm_size(communicator, &size));
    for (int i = 1; i < size; ++i) ranks.push_back(i);
    serialized = provided >= kSerialized;
    // A process that ends without MPI_Finalize has failed: mpirun ends the others.
    on_exit([](int status, void*) { finalize_at_exit(status); }, nullptr);
  }
};
const World& all() {
  static const World& world = *new World;  // used by finalize_at_exit, after destructors
  return world;
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string lost;                            // why mt.dist is unusable: a wait was abandoned
constinit thread_local bool in_job = false;  // of start_in_background

/// Messages to waiting processes: from one that has waited for too long, with its call, or that has ended.
struct Notices {
  static constexpr int kTag = 1, kAnySource = -1;
  static constexpr int64_t kEnded = -1, kNoCall = -2;
  const Group& group;
  int64_t call;  // notices about other calls are ignored
  std::vector<bool> waits = std::vector<bool>(all().ranks.size());

  static std::vector<bool>& ended() {
    static auto& list = *new std::vector<bool>(all().ranks.size());
    return list;
  }
  /// Receives notices; returns whether another process has announced this call.
  bool poll() {
    bool received = false;
    for (int there = 1; there;) {
      Mpi::Status status{};
      mpi().probe(kAnySource, kTag, mpi().world, &there, &status);
      if (!there) break;
      int64_t of = kNoCall;
      mpi().receive(&of, 1, datatype(Dtype::i64), status.source, kTag, mpi().world, &status);
      if (of == kEnded) ended()[status.source] = true;
      else if (of == call && of != kNoCall) waits[status.source] = received = true;
    }
    return received;
  }
  void notify(int64_t what) {
    static int64_t sent[2];  // MPI may read it later
    int64_t& message = sent[what == kEnded];
    message = what;
    waits[all().rank] = true;
    for (const int i : group.ranks) {
      Mpi::Request request;
      if (i != all().rank)
        mpi().send(&message, 1, datatype(Dtype::i64), i, kTag, mpi().world, &request);
    }
  }
  /// A process of a smaller group that has ended, or -1; those of the world are found by agreements.
  int ended_member() const {
    if (&group != &all())
      for (const int i : group.ranks)
        if (ended()[i]) return i;
    return -1;
  }
  /// "process 1", "processes 1, 2": the processes that have not announced the call.
  std::string missing() const {
    std::string text;
    int n = 0;
    for (const int i : group.ranks)
      if (!waits[i]) text += fmt::format("{}{}", n++ ? ", " : "", i);
    return n == 0 ? "the network" : (n == 1 ? "process " : "processes ") + text;
  }
};

[[noreturn]] void fail_ended(const char* operation, int64_t ended, const std::string& call) {
  note_call(fmt::format("{}, but process {} has ended", call, ended));
  fail(
      "{}: process {} has ended, but process {} calls {}; all processes must make equally many "
      "calls, so give each equally many batches",
      operation, ended, all().rank, call);
}

/// What a process waits for.
struct Wait {
  const char* operation;
  const std::string& call;
  const Group& group;
  int64_t number;  // of the call, for notices
  double seconds;
};

/// Waits until done(), for at most some seconds, or until Ctrl-C.
void wait(const Wait& w, const std::function<bool()>& done) {
  constexpr double kBusy = 0.01, kAnswer = 1;  // seconds: of busy waiting; for the others' answers
  const auto start = Clock::now();
  for (int turn = 0; turn < 1000; ++turn)
    if (done()) return;
  Notices notices{w.group, w.number};
  bool interrupted = false;
  while (!(interrupted = mt_interrupted) && !notices.poll() && since(start) < w.seconds) {
    if (done()) return;
    if (const int ended = notices.ended_member(); ended >= 0) {
      w.group.lost = fmt::format("process {} has ended", ended);
      fail_ended(w.operation, ended, w.call);
    }
    if (since(start) < kBusy) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const double waited = since(start);
  if (!interrupted) {
    if (w.number != Notices::kNoCall) notices.notify(w.number);
    for (const auto notified = Clock::now(); since(notified) < kAnswer && !mt_interrupted;
         notices.poll()) {
      if (done()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  lost = interrupted ? "Ctrl-C ended an earlier call" : "an earlier call waited for too long";
  if (interrupted) check_interrupt();
  note_call(fmt::format("{}, but {} did not answer", w.call, notices.missing()));
  fail(
      "{}: process {} has waited for {:.1f} s, but {} did not answer; find out why, or increase "
      "the limit: dist.init{{timeout={:.0f}}}",
      w.operation, all().rank, waited, notices.missing(), 10 * max_seconds);
}

void check_usable(const char* operation, const Group& group) {
  if (!in_job) {
    check_caller(operation);
    wait_for_background(operation);
  }
  const std::string& why = lost.empty() ? group.lost : lost;
  if (!why.empty())
    fail("{}: the processes cannot work together any more, since {}; start them again", operation,
         why);
}

int64_t number_of_call(const Group& group) { return (group.id << 40) + group.calls; }

/// The calls of all processes, compared by an all-reduce whose count does not depend on the call.
struct Calls {
  bool equal;
  int64_t ended;  // a process that has exited, or -1
  bool on_gpus;   // all processes can use their GPU for it
};
Calls compare(const char* operation, const Group& group, const std::string& call, bool ended,
              bool on_gpu = false) {
  const auto hash = int64_t(std::hash<std::string>()(call) >> 1);
  check_usable(operation, group);
  int64_t* const numbers = group.numbers;
  numbers[0] = hash, numbers[1] = -hash, numbers[2] = ended ? all().rank : -1;
  numbers[3] = !on_gpu;
  ++group.calls;
  Mpi::Request request;
  check(operation,
        mpi().start_all_reduce(kInPlace, numbers, 4, datatype(Dtype::i64),
                               mpi().object("ompi_mpi_op_max"), group.communicator, &request));
  wait({operation, call, group, number_of_call(group), ended ? HUGE_VAL : max_seconds}, [&] {
    int is = 0;
    check(operation, mpi().test(&request, &is, nullptr));
    return is != 0;
  });
  return {numbers[0] == -numbers[1], numbers[2], numbers[3] == 0};
}

void finalize_at_exit(int status) {
  std::string why = status ? fmt::format("status {}", status) : "";
  try {
    if (why.empty()) {
      Notices{all(), Notices::kNoCall}.notify(Notices::kEnded);
      while (!compare("mt.dist", all(), "the end of the program", true).equal) continue;
      note_call("the end of the program");
      mpi().finalize();
      return;
    }
  } catch (const std::exception& e) { why = e.what(); }
  // Exits without MPI_Finalize, so that mpirun ends the others.
  fprintf(stderr, "mt.dist: process %d of %d has failed, which ends the others (%s)\n", all().rank,
          size(), why.c_str());
  if (status) return;
  fflush(nullptr);
  _exit(1);
}

}  // namespace

void wait_for(const char* operation, const std::string& call, int process,
              const std::function<bool()>& done) {
  Group other;
  other.ranks = {process};
  check_usable(operation, other);
  note_call(call);
  wait({operation, call, other, Notices::kNoCall, max_seconds}, done);
}

void wait_for_group(const char* operation, const Group& group, const std::function<bool()>& done) {
  const std::string call = operation;
  wait({operation, call, group, number_of_call(group), max_seconds}, done);
}
double time_limit() { return max_seconds; }

void check_caller(const char* operation) {
  if (step_recorder) step_recorder->on_external_effect();  // not within run_exchange
  if (std::this_thread::get_id() != all().thread)
    fail("{}: only the thread that called mt.dist first may call it, not a worker", operation);
}

void agree(const char* operation, const Group& group, const std::string& call, const Gpu* gpu) {
  group.gpu = nullptr;
  if (group.position(all().rank) < 0)
    fail("{}: process {} is not in the group {}", operation, all().rank, group.shown());
  note_call(call);
  const Calls calls = compare(operation, group, call, false, gpu != nullptr);
  if (calls.ended >= 0) fail_ended(operation, calls.ended, call);
  if (!calls.equal)
    fail(
        "{}: the processes call it differently, or with other sizes or dtypes; process {} calls {}",
        operation, all().rank, call);
  if (calls.on_gpus && connect(operation, *gpu, group)) group.gpu = gpu;
}

bool all_agree(const char* operation, const Group& group, bool yes) {
  const Calls calls = compare(
      operation, group, yes ? "the end of backward" : fmt::format("no {}", all().rank), false);
  if (calls.ended >= 0) fail_ended(operation, calls.ended, "the end of backward");
  return calls.equal;
}

const Group& world() { return all(); }
int rank(const Group& group) { return group.position(all().rank); }
int size(const Group& group) { return int(group.ranks.size()); }

const Group& make_group(std::vector<int64_t> ranks) {
  static auto& groups = *new std::deque<Group>;
  std::ranges::sort(ranks);
  Group made;
  for (const int64_t r : ranks) {
    if (r < 0 || r >= size()) fail("group: rank {}; the processes are 0 to {}", r, size() - 1);
    if (made.position(r) >= 0) fail("group: rank {} is there twice", r);
    made.ranks.push_back(int(r));
  }
  if (ranks.empty()) fail("group: the list of ranks is empty");
  made.id = int64_t(groups.size()) + 1;
  if (size() > 1) {
    agree("group", all(), "group" + made.shown());
    constexpr int kUndefined = -32766;  // MPI_UNDEFINED: of no group
    const int color = made.position(all().rank) < 0 ? kUndefined : 0;
    check("group", mpi().split(mpi().world, color, all().rank, &made.communicator));
  }
  return groups.emplace_back(made);
}

bool threads_may_call() { return all().serialized; }
void set_lost(const std::string& why) { lost = why; }

void set_timeout(double seconds) {
  if (!(seconds > 0)) fail("dist.init: timeout is {}; it must be positive", show(seconds));
  max_seconds = seconds;
}

// ---- calls of MPI in a thread, while the process computes ----------------------------------------

namespace {

/// Whether each process of this machine has a core beside those of its own threads.
bool has_idle_core() {
  if (const char* given = getenv("MTORCH_DIST_THREAD")) return std::atoi(given) != 0;
  const char* const local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int processes = std::max(1, local ? std::atoi(local) : 1);
  const int allowed = int(std::thread::hardware_concurrency());  // a process may be bound to cores
  return get_num_threads() < std::min(allowed, int(sysconf(_SC_NPROCESSORS_ONLN)) / processes);
}

Job& last_job() {
  static auto& job = *new Job;  // it may never end
  return job;
}

}  // namespace

Job start_in_background(std::function<void()> job) {
  static const bool in_thread = threads_may_call() && has_idle_core();
  // What has run keeps neither its tensors nor the jobs before it.
  std::packaged_task<void()> task([before = last_job(), job = std::move(job)]() mutable {
    if (const Job earlier = std::exchange(before, {}); earlier.valid()) earlier.get();
    const SaveAndRestore running(in_job, true);
    std::exchange(job, nullptr)();
  });
  last_job() = task.get_future();
  if (in_thread) std::thread(std::move(task)).detach();
  else task();
  return last_job();
}

void wait_for_job(const char* operation, const Job& job) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  // Seconds: the job has a deadline too, and says which processes it waits for.
  constexpr double kAnswer = 2;
  while (job.valid() && job.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (waited < (mt_interrupted ? 0 : time_limit()) + kAnswer) continue;
    last_job() = {};  // nothing waits for it again
    set_lost(mt_interrupted ? "Ctrl-C ended an earlier call"
                            : "an earlier call waited for too long");
    check_interrupt();
    fail("{}: process {} has waited for {:.1f} s for data of the other processes", operation,
         rank(), waited);
  }
  if (!job.valid()) return;
  try {
    job.get();
  } catch (...) {
    last_job() = {};
    throw;
  }
}

void wait_for_background(const char* operation) { wait_for_job(operation, Job(last_job())); }

}  // namespace mt::dist
