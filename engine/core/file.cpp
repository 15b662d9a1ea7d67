// file.cpp -- writing files: an existing file stays whole until the new one is complete, or is not changed
#include "engine/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/core/error.h"

namespace mt {
namespace {

/// During its lifetime, a closed pipe and the file size limit are errors of write, not signals.
class BlockedWriteSignals {
 public:
  BlockedWriteSignals() {
    sigemptyset(&blocked_);
    sigaddset(&blocked_, SIGPIPE), sigaddset(&blocked_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    for (const int s : {SIGPIPE, SIGXFSZ})
      if (sigismember(&pending, s)) sigdelset(&blocked_, s);  // pending before: left pending
    pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
  }
  BlockedWriteSignals(const BlockedWriteSignals&) = delete;
  ~BlockedWriteSignals() {
    const int error = errno;
    const timespec now{};
    while (sigtimedwait(&blocked_, nullptr, &now) > 0) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }

 private:
  sigset_t blocked_, before_;
};

/// The directory of a path, "." if it has none.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// The number in /dev/stdout, /dev/fd/3 or /proc/self/fd/3, or -1: opening these again would start
/// at the beginning of a file that the process is writing.
int own_descriptor(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int fd = -1;
    const char* end = path.data() + path.size();
    if (path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 &&
        std::from_chars(path.data() + folder.size(), end, fd).ptr == end)
      return fd;
  }
  return -1;
}

/// Follows the symbolic links at the end of a path, also to a file that does not exist. Empty, with
/// errno set, if there are too many.
std::string follow(std::string path) {
  char to[PATH_MAX];
  for (int links = 0; links < 40; ++links) {
    if (own_descriptor(path) >= 0) return path;
    const ssize_t n = readlink(path.c_str(), to, sizeof to);
    if (n < 0) return path;  // not a link, or it does not exist
    const std::string next(to, n);
    path = next[0] == '/' ? next : folder_of(path) + "/" + next;
  }
  errno = ELOOP;
  return "";
}

/// Root may write read-only files, but a file that was made read-only should stay unchanged.
bool may_write(const std::string& path, mode_t mode) {
  if (!(mode & 0222)) return errno = EACCES, false;
  return faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

[[noreturn]] void refuse(const std::string& operation, const std::string& path,
                         const std::string& reason = std::strerror(errno)) {
  check_interrupt();
  fail("{}: cannot write '{}': {}", operation, path, reason);
}

/// The destination of a write, and how it is written.
struct Destination {
  std::string path;         // with links followed
  int own = -1;             // a descriptor that the process has open
  bool through = false;     // a device or a FIFO
  struct stat replaced {};  // st_nlink is 0 if no file is replaced
};

Destination find_destination(const std::string& op, const std::string& path) {
  if (path.empty()) refuse(op, path, "the path is empty");
  if (path.find('\0') != std::string::npos) fail("{}: the path contains a zero byte", op);
  Destination p{follow(path)};
  if (p.path.empty()) refuse(op, path);
  p.own = own_descriptor(p.path);
  if (p.own >= 0) {
    const int flags = fcntl(p.own, F_GETFL);
    if (flags < 0) refuse(op, path);
    if ((flags & O_ACCMODE) == O_RDONLY) refuse(op, path, "it is open for reading only");
    return p;
  }
  struct stat s {
  }, folder{};
  const bool exists = stat(path.c_str(), &s) == 0;
  if (!exists && errno != ENOENT) refuse(op, path);
  if (exists && S_ISDIR(s.st_mode)) refuse(op, path, "it is a folder");
  if (exists && S_ISSOCK(s.st_mode)) refuse(op, path, "it is a socket");
  if (exists && !may_write(path, s.st_mode))
    refuse(op, path, errno == EACCES ? "it is read-only" : std::strerror(errno));
  p.through = exists && !S_ISREG(s.st_mode);
  if (p.through) return p.path = path, p;
  const std::string parent = folder_of(p.path);
  if (stat(parent.c_str(), &folder) != 0)
    refuse(op, path,
           errno == ENOENT ? fmt::format("there is no folder '{}'", parent) : std::strerror(errno));
  if (!may_write(parent, folder.st_mode))
    refuse(op, path,
           errno == EACCES ? fmt::format("the folder '{}' is read-only", parent)
                           : std::strerror(errno));
  if (exists && stat(p.path.c_str(), &p.replaced) != 0) refuse(op, path);
  return p;
}

/// A new name in the directory of the file that will be replaced; unique for each call.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}/.mtorch-{}-{}", folder_of(path), getpid(), ++count);
}
/// The kernel's path of an open file.
std::string name_of(const File& file) { return fmt::format("/proc/self/fd/{}", file.fd()); }

/// A new file in the directory of the one it will replace, with its mode and owner. It has no name
/// until it is complete, so that a killed process leaves no file; if the file system has no unnamed
/// files its name is stored in `name`.
File open_temporary(const Destination& p, std::string& name) {
  const struct stat& old = p.replaced;
  const mode_t mode = old.st_nlink ? old.st_mode & 0777 : 0666;  // minus the umask
  File file(open(folder_of(p.path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode));
  if (file && access(name_of(file).c_str(), F_OK) != 0) file.close();  // it could not be linked
  if (!file) {
    do {
      name = temporary_name(p.path);
      file = File(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    } while (!file && errno == EEXIST);
  }
  if (!file) return name.clear(), std::move(file);
  if (!old.st_nlink) return file;
  // Only root may change the owner; other users may choose among their groups.
  const bool owned = fchown(file.fd(), old.st_uid, old.st_gid) == 0;
  if (!owned && fchown(file.fd(), uid_t(-1), old.st_gid) != 0) errno = 0;
  if (fchmod(file.fd(), old.st_mode & (owned ? 07777 : 0777)) != 0) errno = 0;  // FAT has no modes
  return file;
}

/// Opening a FIFO waits here for a reader; Ctrl-C ends the wait.
File open_through(const std::string& path) {
  File file;
  do file = File(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  while (!file && errno == EINTR && !mt_interrupted);
  return file;
}

}  // namespace

// ---- descriptors ------------------------------------------------------------------------------

File& File::operator=(File&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

bool File::read(void* to, size_t n) const {
  for (char* at = static_cast<char*>(to); n > 0;) {
    const ssize_t got = ::read(fd_, at, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got, n -= got;
  }
  return true;
}

bool File::write(std::string_view bytes) const {
  constexpr size_t kPiece = 64 << 20;  // between two checks for Ctrl-C
  const BlockedWriteSignals blocked;
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size() < kPiece ? bytes.size() : kPiece);
    if (mt_interrupted) return errno = EINTR, false;
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(put);
  }
  return true;
}

bool File::close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

// ---- one file ---------------------------------------------------------------------------------

FileWriter::FileWriter(const char* operation, std::string path)
    : operation_(operation),
      path_(std::move(path)) {
  Destination p = find_destination(operation_, path_);
  if (p.own == STDOUT_FILENO) std::fflush(stdout);  // so that earlier output comes first
  if (p.own >= 0) file_ = File(fcntl(p.own, F_DUPFD_CLOEXEC, 0));
  else file_ = p.through ? open_through(p.path) : open_temporary(p, temporary_);
  if (!file_) refuse();
  replaces_ = p.own < 0 && !p.through;
  target_ = std::move(p.path);
}

FileWriter::~FileWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void FileWriter::refuse() const { mt::refuse(operation_, path_); }

void FileWriter::write(std::string_view bytes) {
  if (!file_.write(bytes)) refuse();
}

void FileWriter::commit() {
  if (replaces_) replace();
  else if (!file_.close()) refuse();
}

void FileWriter::replace() {
  const auto flush = [](int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS; };
  if (!flush(file_.fd())) refuse();
  while (temporary_.empty()) {
    std::string name = temporary_name(target_);
    if (linkat(AT_FDCWD, name_of(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      temporary_ = std::move(name);
    else if (errno != EEXIST) refuse();
  }
  if (!file_.close() || rename(temporary_.c_str(), target_.c_str()) != 0) refuse();
  temporary_.clear();
  const File folder(open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) flush(folder.fd());  // a directory that is not readable cannot be synchronised
}

void write_file(const char* operation, const std::string& path, std::string_view bytes) {
  FileWriter file(operation, path);
  file.write(bytes);
  file.commit();
}

void check_writable(const char* operation, const std::string& path) {
  const Destination p = find_destination(operation, path);
  if (p.own < 0 && !p.through) FileWriter(operation, path);  // a new file can be made there
}

}  // namespace mt
