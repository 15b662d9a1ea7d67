// profile.cpp -- recordings: a call tree with its times, and the trace
#include "engine/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/io/json.h"

namespace mt::profile {

constinit bool on = false;

const char* kind_name(Kind k) {
  static const char* const names[] = {"operation", "backward", "kernel", "launch", "collector"};
  return names[int(k)];
}

/// A node of the call tree: a function with its callers. Times are in nanoseconds.
struct Path {
  Path* parent = nullptr;
  Log* log = nullptr;
  uint64_t key = 0;
  Kind kind = Kind::operation;
  std::string name;
  int64_t calls = 0, self = 0, total = 0;
};

namespace {

constexpr size_t kMaxEvents = 1000000;  // of a trace: about 100 MB of text

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Event {
  const Path* path;
  int64_t begin, length;
};
struct ProfileSession;

}  // namespace

/// The record of one thread.
struct Log {
  ProfileSession* recording = nullptr;
  int thread = 0;
  Path root;
  Path* at = &root;
  int64_t* inner = &outside;  // where the enclosing scope adds the time of inner scopes
  int64_t outside = 0;
  std::deque<Path> paths;
  std::map<std::pair<const Path*, uint64_t>, Path*> known;  // by the parent and the key
  std::vector<Event> events;
};

namespace {

struct Launch {  // kernels of a GPU, by the scope that launched them
  int64_t calls = 0, time = 0;
};
struct GpuEvent {
  const Path* path;
  const char* name;
  int device;
  int64_t begin, length;
};

struct ProfileSession {
  uint64_t serial = 0;
  bool traced = false;
  int64_t began = 0, ended = 0;
  std::deque<Log> logs;
  std::map<std::pair<const Path*, std::string>, Launch> launches;
  std::vector<GpuEvent> gpu_events;
  std::atomic<size_t> events{0}, left_out{0};

  bool has_room() {
    if (!traced) return false;
    const bool room = events.fetch_add(1, std::memory_order_relaxed) < kMaxEvents;
    if (!room) ++left_out;
    return room;
  }
};

std::mutex guard;  // protects `all`, the logs of each recording, and GPU records
std::vector<std::unique_ptr<ProfileSession>> all;
ProfileSession* latest = nullptr;

struct ThreadLog {
  uint64_t recording = 0;
  Log* log = nullptr;
  int thread = 0;
};
constinit thread_local ThreadLog thread_log;

Log* log_of_thread() {
  if (latest && thread_log.recording == latest->serial) return thread_log.log;
  std::lock_guard lock(guard);
  if (!latest) return nullptr;
  // A thread that continues an outer recording reuses its log.
  static int threads = 0;
  if (thread_log.thread == 0) thread_log.thread = ++threads;
  Log* log = nullptr;
  for (Log& known : latest->logs)
    if (known.thread == thread_log.thread) log = &known;
  if (!log) {
    log = &latest->logs.emplace_back();
    log->recording = latest;
    log->thread = thread_log.thread;
    log->root.log = log;
  }
  thread_log.recording = latest->serial;
  return thread_log.log = log;
}

bool is_active(uint64_t serial) {
  if (thread_log.recording == serial && latest && latest->serial == serial) return true;
  std::lock_guard lock(guard);
  for (const auto& r : all)
    if (r->serial == serial) return true;
  return false;
}

}  // namespace

bool Scope::open(Kind kind, uint64_t key) {
  Log* log = log_of_thread();
  if (!log) return false;
  Path*& known = log->known[{log->at, key}];
  const bool is_new = !known;
  if (is_new) {
    known = &log->paths.emplace_back();
    known->parent = log->at;
    known->log = log;
    known->key = key;
    known->kind = kind;
  }
  log_ = log, path_ = known, recording_ = log->recording->serial;
  log->at = path_;
  // Inner scopes add to `inner_`; the enclosing scope is restored from the stack of scopes.
  inner_ = 0;
  outer_ = std::exchange(log->inner, &inner_);
  began_ = now();
  return is_new;
}

void Scope::call_it(std::string_view name) { path_->name = name; }

void Scope::close() {
  if (!is_active(recording_)) return;  // the recording was stopped inside the scope
  const int64_t length = now() - began_;
  log_->inner = outer_;
  *outer_ += length;
  ++path_->calls;
  path_->total += length;
  path_->self += length - inner_;
  log_->at = path_->parent;
  if (log_->recording->has_room()) log_->events.push_back({path_, began_, length});
}

void start(bool with_trace) {
  {
    static uint64_t serials = 0;
    std::lock_guard lock(guard);
    auto r = std::make_unique<ProfileSession>();
    r->serial = ++serials;
    r->traced = with_trace;
    latest = all.emplace_back(std::move(r)).get();
  }
  if (all.size() == 1) watch_devices();
  on = true;
  latest->began = now();
}

int depth() { return int(all.size()); }

const void* current_path() {
  Log* log = log_of_thread();
  return log ? log->at : nullptr;
}

void add_kernel(const void* path, const char* name, int device, int64_t begin, int64_t end) {
  if (!path) return;
  std::lock_guard lock(guard);
  const Path* p = static_cast<const Path*>(path);
  ProfileSession* r = p->log->recording;
  // "launch: map relu" launched the kernel "relu", which is then named "map relu".
  std::string what = p->name;
  if (const size_t colon = what.find(": "); colon != std::string::npos) what.erase(0, colon + 2);
  if (p->kind != Kind::launch) what = name;
  else if (what.find(name) == std::string::npos) what += std::string(": ") + name;
  Launch& launch = r->launches[{p, "cuda: " + what}];
  ++launch.calls;
  launch.time += end - begin;
  if (r->has_room()) r->gpu_events.push_back({p, name, device, begin, end - begin});
}

namespace {

using Rows = std::map<std::pair<std::string, Kind>, Row>;

Row& row_of(Rows& rows, const std::string& name, Kind kind) {
  Row& row = rows[{name, kind}];
  row.name = name, row.kind = kind;
  return row;
}
/// Whether an enclosing scope belongs to the same row.
bool is_recursive(const Path& p) {
  for (const Path* q = p.parent; q; q = q->parent)
    if (q->kind == p.kind && q->name == p.name) return true;
  return false;
}

std::vector<Row> sum_up(const ProfileSession& r) {
  constexpr double ns = 1e-9;
  Rows rows;
  for (const Log& log : r.logs)
    for (const Path& p : log.paths) {
      if (p.calls == 0) continue;  // still running
      Row& row = row_of(rows, p.name, p.kind);
      row.calls += p.calls;
      row.self_cpu += double(p.self) * ns;
      if (!is_recursive(p)) row.cpu_total += double(p.total) * ns;
    }
  for (const auto& [key, launch] : r.launches) {
    const double seconds = double(launch.time) * ns;
    Row& row = row_of(rows, key.second, Kind::kernel);
    row.calls += launch.calls;
    row.self_gpu += seconds, row.gpu_total += seconds;
    for (const Path* p = key.first; p && p->parent; p = p->parent)  // without the root
      if (!is_recursive(*p)) row_of(rows, p->name, p->kind).gpu_total += seconds;
  }
  std::vector<Row> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  std::ranges::stable_sort(list, [](const Row& a, const Row& b) {
    return a.self_cpu + a.self_gpu > b.self_cpu + b.self_gpu;
  });
  return list;
}

/// The format of chrome://tracing and Perfetto: complete events, times in microseconds.
std::string trace_of(const ProfileSession& r) {
  constexpr int kGpuTrack = 1000;
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  text +=
      "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": 0, "
      "\"args\": {\"name\": \"mtorch\"}}";
  auto name_track = [&](int tid, const std::string& name) {
    text += fmt::format(
        ",\n{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": {}, "
        "\"args\": {{\"name\": {}}}}}",
        tid, json_quoted(name));
  };
  auto event = [&](const std::string& name, const char* kind, int tid, int64_t begin,
                   int64_t length) {
    text += fmt::format(
        ",\n{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"pid\": 1, \"tid\": {}, "
        "\"ts\": {:.3f}, \"dur\": {:.3f}}}",
        json_quoted(name), kind, tid, double(begin - r.began) * 1e-3, double(length) * 1e-3);
  };
  for (const Log& log : r.logs) {
    name_track(log.thread, fmt::format("thread {}", log.thread));
    for (const Event& e : log.events)
      event(e.path->name, kind_name(e.path->kind), log.thread, e.begin, e.length);
  }
  std::vector<int> devices;
  for (const GpuEvent& e : r.gpu_events) {
    if (std::ranges::find(devices, e.device) == devices.end()) {
      devices.push_back(e.device);
      name_track(kGpuTrack + e.device, fmt::format("cuda:{}", e.device));
    }
    std::string what = e.path->name;
    if (e.path->kind == Kind::launch) what.erase(0, what.find(": ") + 2);
    else what = e.name;
    event(what, "gpu", kGpuTrack + e.device, e.begin, e.length);
  }
  return text + "\n]}\n";
}

}  // namespace

Report stop() {
  Report report;
  if (all.empty()) return report;
  collect_kernels();
  std::unique_ptr<ProfileSession> r;
  {
    std::lock_guard lock(guard);
    r = std::move(all.back());
    all.pop_back();
    latest = all.empty() ? nullptr : all.back().get();
    on = latest != nullptr;
  }
  r->ended = now();
  if (!on) unwatch_devices();
  int64_t inside = 0;
  for (const Log& log : r->logs) inside = std::max(inside, log.outside);
  report.rows = sum_up(*r);
  report.wall = double(r->ended - r->began) * 1e-9;
  report.outside = std::max(0.0, report.wall - double(inside) * 1e-9);
  report.left_out = int64_t(r->left_out);
  if (r->traced) report.trace = trace_of(*r);
  return report;
}

}  // namespace mt::profile
