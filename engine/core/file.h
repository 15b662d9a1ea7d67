// file.h -- writing files: what stood there stays whole until the new text is, or is left alone
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mt {

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(const File&) = delete;
  File(File&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  File& operator=(File&&) noexcept;
  ~File() { close(); }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  /// Exactly n bytes; false where there are fewer.
  bool read(void* to, size_t n) const;
  /// All of them; false with errno where that fails. A closed pipe and a limit on the size of files
  /// are such failures, no signals.
  bool write(std::string_view bytes) const;
  bool close();

 private:
  int fd_;
};

/// One file being written. A regular file, or one that is not there yet, is written as another one in
/// its folder and takes its place at `commit`, with the mode and, where that is allowed, the owner of
/// what it replaces; without a commit nothing has changed, and a process that is killed leaves nothing
/// behind (where the file system has files without a name). Symbolic links are followed. A
/// device, a FIFO and one of the process's own descriptors (/dev/stdout, /dev/fd/3) are written
/// through. What is read-only by its mode, or lies in a folder that is, is refused, for root too.
/// Every failure is an mt::Error that begins with the operation and names the path.
class FileWriter {
 public:
  FileWriter(const char* operation, std::string path);
  FileWriter(const FileWriter&) = delete;
  ~FileWriter();
  void write(std::string_view bytes);
  /// Waits until the disk has it.
  void commit();

 private:
  void replace();
  [[noreturn]] void refuse() const;

  std::string operation_, path_;    // as the user said them
  std::string target_, temporary_;  // links followed; empty while the file beside has no name
  File file_;
  bool replaces_ = false;  // what stands there; else it is written through
};

/// Writes a whole file as FileWriter does.
void write_file(const char* operation, const std::string& path, std::string_view bytes);
/// Throws what write_file would throw before it has written anything, and leaves everything as it
/// is.
void check_writable(const char* operation, const std::string& path);

}  // namespace mt
