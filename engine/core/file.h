// file.h -- writing files: an existing file stays whole until the new one is complete, or is not changed
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mt {

/// A file descriptor, closed in the destructor.
class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(const File&) = delete;
  File(File&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  File& operator=(File&&) noexcept;
  ~File() { close(); }
  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  /// Reads exactly n bytes; returns false if there are fewer.
  bool read(void* to, size_t n) const;
  /// Writes all bytes; returns false with errno set if that fails. A closed pipe and the file size
  /// limit are such failures, not signals.
  bool write(std::string_view bytes) const;
  bool close();

 private:
  int fd_;
};

/// One file that is being written. A regular file, or one that does not exist yet, is written as
/// another file in its directory, which replaces it in `commit`, with the mode and, if that is
/// allowed, the owner of the replaced file; without a commit nothing has changed, and a killed
/// process leaves no file (if the file system supports unnamed files). Symbolic links are followed.
/// A device, a FIFO and one of the process's own descriptors (/dev/stdout, /dev/fd/3) are written
/// directly. A file that is read-only by its mode, or in a read-only directory, is an error, even
/// for root. Every failure is an mt::Error that begins with the operation and contains the path.
class FileWriter {
 public:
  FileWriter(const char* operation, std::string path);
  FileWriter(const FileWriter&) = delete;
  ~FileWriter();
  void write(std::string_view bytes);
  /// Returns when the data is on the disk.
  void commit();

 private:
  void replace();
  [[noreturn]] void refuse() const;

  std::string operation_, path_;    // as the user gave them
  std::string target_, temporary_;  // links followed; empty while the temporary file has no name
  File file_;
  bool replaces_ = false;  // whether it replaces a file; otherwise it is written directly
};

/// Writes a whole file with a FileWriter.
void write_file(const char* operation, const std::string& path, std::string_view bytes);
/// Throws the errors that write_file would throw before writing, and changes nothing.
void check_writable(const char* operation, const std::string& path);

}  // namespace mt
