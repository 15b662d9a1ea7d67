// processes.cpp -- `mtorch --processes N`: starts them by mpirun, says which one ended how, and starts all again
//
// mpirun starts each process as a pair: the one that runs the script, and its parent, which waits for the end. A parent
// whose child has failed writes a record to stderr, which mpirun brings here from every machine. What else arrives is
// passed on, except mpirun's own words about the same end.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "bindings/program/program.h"
#include "engine/dist/process_group.h"

namespace mt::program {
namespace {

constexpr char kRecord = '\x1e';  // begins a record: rank, status, host, last call, a newline
constexpr int kWaits = 0;         // a status: it waits for too long
constexpr int kPollMs = 100;
constexpr double kMoreSeconds =
    0.5;  // after the limit of a wait, until the parent reports the process
constexpr double kEndSeconds = 3;       // in which mpirun may end the other processes
constexpr double kOrphanSeconds = 0.5;  // after which no process of a killed mpirun is left

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A process that has failed, or waits for too long.
struct Ended {
  int rank = 0, status = 0;  // of waitpid
  std::string host, call;
  int exit_status() const {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  std::string described(int count) const {
    std::string text = fmt::format("process {} of {} on {} ", rank, count, host);
    if (WIFSIGNALED(status)) {
      const int number = WTERMSIG(status);
      text += fmt::format("was killed by signal {} ({})", number, strsignal(number));
    } else {
      text += fmt::format("ended with status {}", WEXITSTATUS(status));
    }
    return call.empty() ? text : text + "; its last call was " + call;
  }
};

/// What mpirun writes to stderr.
class Messages {
 public:
  std::optional<Ended> first;  // a process that was killed rather than one that raised an error
  std::string explanation;     // mpirun's own, of the end of a process
  std::vector<Ended> waiting;
  Clock::time_point waits_since;

  void add(const char* text, size_t n) {
    for (const char* c = text; c != text + n; ++c) {
      if (*c == kRecord) in_record_ = true;
      else if (in_record_) add_to_record(*c);
      else add_to_text(*c);
    }
    out_ +=
        std::exchange(block_, "") + std::exchange(dashes_, "");  // mpirun writes a block at once
    std::fwrite(out_.data(), 1, out_.size(), stderr);
    out_.clear();
  }
  /// What ended the processes, of which there are `count`; nothing if it is unknown.
  std::string described(int count) {
    if (find_first()) return first->described(count);
    if (waiting.empty()) return "";
    std::vector<int> missing;
    for (int rank = 0; rank < count; ++rank)
      if (std::ranges::none_of(waiting, [&](const Ended& e) { return e.rank == rank; }))
        missing.push_back(rank);
    const Ended& e = waiting[0];
    return fmt::format(
        "{} did not answer in {}, for which process {} of {} on {} has waited too long",
        missing.empty()       ? "the network"
        : missing.size() == 1 ? fmt::format("process {}", missing[0])
                              : fmt::format("processes {}", fmt::join(missing, ", ")),
        e.call, e.rank, count, e.host);
  }

 private:
  /// Without a record (its writer was killed too) takes the first process from mpirun's explanation.
  bool find_first() {
    constexpr char kText[] = "mpirun noticed that process rank";
    const size_t at = explanation.find(kText);
    char host[256] = "";
    Ended e;
    if (!first && at != explanation.npos &&
        std::sscanf(explanation.c_str() + at + sizeof kText - 1,
                    " %d with PID %*d on node %255s exited on signal %d", &e.rank, host,
                    &e.status) == 3) {
      e.host = host;
      first = e;
    }
    return first.has_value();
  }

  std::string out_, record_, dashes_, block_;
  bool in_record_ = false, at_start_ = true;
  static constexpr size_t kDashes = 74;

  void add_to_record(char c) {
    if (c != '\n') return void(record_ += c);
    Ended e;
    int host = 0, call = 0;
    if (std::sscanf(record_.c_str(), "%d %d %n%*s%n", &e.rank, &e.status, &host, &call) == 2) {
      e.host = record_.substr(host, call - host);
      e.call = record_.substr(std::min(record_.size(), size_t(call) + 1));
      if (e.status == kWaits) {
        if (waiting.empty()) waits_since = Clock::now();
        waiting.push_back(e);
      } else if (!first || (WIFSIGNALED(e.status) && !WIFSIGNALED(first->status))) {
        first = e;
      }
    } else {
      out_ += kRecord + record_ + c;  // a script has written it
    }
    record_.clear(), in_record_ = false;
  }
  /// Holds back lines of dashes, and the block between two of them.
  void add_to_text(char c) {
    if (at_start_ && c == '-') return void(dashes_ += c);
    if (dashes_.size() == kDashes && c == '\n') {
      const bool ends = !block_.empty();
      block_ += std::exchange(dashes_, "") + c;
      if (ends) end_block();
      return;
    }
    (block_.empty() ? out_ : block_) += std::exchange(dashes_, "") + c;
    at_start_ = c == '\n';
  }
  void end_block() {
    const std::string text = std::exchange(block_, "");
    for (const char* words :
         {"terminated normally, but", "exited with non-zero status", "noticed that process rank"})
      if (text.find(words) != text.npos) return void(explanation += text);
    out_ += text;
  }
};

// ---- the launcher --------------------------------------------------------------------------------

volatile sig_atomic_t mpirun = 0, asked = 0, asked_times = 0;
void on_request(int number) {
  asked = number;
  asked_times = asked_times + 1;
}
void on_stop(int) {
  kill(mpirun, SIGTSTP);
  raise(SIGSTOP);
  kill(mpirun, SIGCONT);
}
void on_child(int) {}  // interrupts poll

/// Starts a program whose stderr is `out`, in a group of its own, so that it gets signals from here alone. Returns its
/// process, or -1 with errno.
pid_t start(std::vector<std::string>& command, int out) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int failed[2], why = 0;
  if (pipe2(failed, O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    why = errno;
    if (write(failed[1], &why, sizeof why) < 0) _exit(126);
    _exit(127);
  }
  close(failed[1]);
  if (child > 0 && read(failed[0], &why, sizeof why) == sizeof why) waitpid(child, nullptr, 0);
  else why = child < 0 ? errno : 0;
  close(failed[0]);
  errno = why;
  return why ? -1 : child;
}

/// Reads what there is; returns false at the end.
bool take(int from, Messages& messages) {
  char text[65536];
  const ssize_t n = read(from, text, sizeof text);
  if (n > 0) messages.add(text, size_t(n));
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/// Waits for the end of mpirun, and kills it if it does not end the others in time. Returns its status.
int wait_for_end(pid_t child, int from, Messages& messages) {
  mpirun = child;
  std::optional<Clock::time_point> ending;
  int status = 0, forwarded = 0;
  bool killed = false;
  for (pollfd input{from, POLLIN, 0}; waitpid(child, &status, WNOHANG) == 0;) {
    if (poll(&input, 1, kPollMs) > 0 && !take(from, messages)) input.fd = -1;
    if (asked_times > forwarded) {
      if (!forwarded) kill(child, asked);
      killed |= forwarded > 0;
      forwarded = asked_times;
    }
    const bool is_stuck = !messages.waiting.empty() && since(messages.waits_since) > kMoreSeconds;
    if (!ending && is_stuck) kill(child, SIGTERM);
    if (!ending && (forwarded || messages.first || is_stuck)) ending = Clock::now();
    killed |= ending && since(*ending) > kEndSeconds;
    if (killed) kill(child, SIGKILL);
  }
  fcntl(from, F_SETFL, O_NONBLOCK);
  while (take(from, messages) && errno != EAGAIN) errno = 0;
  if (killed) std::this_thread::sleep_for(std::chrono::duration<double>(kOrphanSeconds));
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void handle_signals() {
  struct sigaction action {};
  const auto handle = [&](int number, void (*handler)(int)) {
    action.sa_handler = handler;
    sigaction(number, &action, nullptr);
  };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) handle(number, on_request);
  handle(SIGTSTP, on_stop);
  handle(SIGCHLD, on_child);
}

std::vector<std::string> command_of(const Processes& p, const std::vector<std::string>& words) {
  const int cores = std::max(1, int(std::thread::hardware_concurrency()));
  std::vector<std::string> command = {"mpirun", "-n", std::to_string(p.count), "--bind-to", "none"};
  if (!p.hosts.empty()) {
    command.insert(command.end(), {"--host", p.hosts});
    // A machine that does not answer any more is noticed after 10 s, not minutes.
    setenv("OMPI_MCA_oob_tcp_keepalive_time", "4", false);
    setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "2", false);
    setenv("OMPI_MCA_oob_tcp_keepalive_probes", "3", false);
  }
  setenv("OMP_NUM_THREADS", std::to_string(std::max(1, cores / p.most)).c_str(), false);
  setenv("MTORCH_RESTART", "0", true);
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", false);  // no process does anything at SIGTERM
  for (char** variable = environ; *variable; ++variable) {
    const std::string name(*variable, strcspn(*variable, "="));
    if (name.rfind("MTORCH_", 0) == 0 || name == "OMP_NUM_THREADS" || name == "LUA_PATH" ||
        name == "LUA_CPATH")
      command.insert(command.end(), {"-x", name});
  }
  if (geteuid() == 0) command.emplace_back("--allow-run-as-root");
  if (p.hosts.empty() && p.count > cores) command.emplace_back("--oversubscribe");
  command.push_back(program_path());
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

}  // namespace

std::string program_path() {
  char* const full = realpath("/proc/self/exe", nullptr);
  const std::string path = full ? full : "./mtorch";
  std::free(full);
  return path;
}

int run_processes(const Processes& p, const std::vector<std::string>& words) {
  std::vector<std::string> command = command_of(p, words);
  handle_signals();
  for (int restart = 0;; ++restart) {
    setenv("MTORCH_RESTART", std::to_string(restart).c_str(), true);
    int ends[2];
    const pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? start(command, ends[1]) : -1;
    if (child < 0) {
      say(stderr, "mtorch: --processes: {}{}\n",
          errno == ENOENT ? "there is no mpirun; on Debian: apt-get install openmpi-bin"
                          : "mpirun cannot be started: ",
          errno == ENOENT ? "" : std::strerror(errno));
      return 1;
    }
    close(ends[1]);
    Messages messages;
    int status = wait_for_end(child, ends[0], messages);
    close(ends[0]);
    if (asked) {
      say(stderr, "mtorch: all processes are ended by signal {} ({})\n", int(asked),
          strsignal(asked));
      return 128 + asked;
    }
    if (status == 0) return 0;
    std::string what = messages.described(p.count);
    if (what.empty()) {
      say(stderr, "{}", messages.explanation);
      what = fmt::format("mpirun ended with status {}", status);
    }
    if (messages.first) status = messages.first->exit_status();
    else if (!messages.waiting.empty()) status = 1;
    const bool is_usage = messages.first && status == 2;
    const bool goes_on = restart < p.restarts && !is_usage;
    if (goes_on) what += fmt::format("; restart {} of {}", restart + 1, p.restarts);
    else if (p.restarts > 0 && !is_usage)
      what += fmt::format("; no restarts are left ({} of {} are used)", restart, restart);
    say(stderr, "mtorch: {}\n", what);
    if (!goes_on) return status;
  }
}

/// Writes the status of a process for the launcher.
static void write_record(int status, const char* call) {
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::string record =
      fmt::format("{}{} {} {} {}\n", kRecord, rank ? rank : "0", status, host, call);
  if (write(STDERR_FILENO, record.data(), record.size()) < 0) _exit(1);
}

void report_end() {
  void* const room = mmap(nullptr, sizeof(dist::CallNote), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return;
  auto& note = *new (room) dist::CallNote{};
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t starter = getppid(), self = getpid(), child = fork();
  if (child <= 0) {
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (child == 0 && getppid() != self) _exit(1);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    dist::note_calls_in(&note);
    return;
  }
  int status = 0;
  bool is_asked = false, has_waited = false;  // asked by mpirun to end
  for (const timespec turn{0, 250000000}; waitpid(child, &status, WNOHANG) == 0;) {
    if (sigtimedwait(&all, nullptr, &turn) == SIGTERM) kill(child, SIGTERM), is_asked = true;
    if (getppid() != starter) kill(child, SIGKILL), is_asked = true;
    const int64_t began = note.since;
    if (!began || has_waited) continue;
    const Clock::time_point start{Clock::duration(began)};
    if (since(start) > note.limit + kMoreSeconds)
      write_record(kWaits, note.text), has_waited = true;
  }
  const timespec soon{0, 20000000};  // the signal that ended the child may still arrive here
  for (int got; status != 0 && !is_asked && (got = sigtimedwait(&all, nullptr, &soon)) > 0;)
    is_asked = got == SIGTERM;
  if (status != 0 && !is_asked) write_record(status, note.text);
  _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace mt::program
