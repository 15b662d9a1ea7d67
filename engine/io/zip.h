// zip.h -- zip archives: entries read by libzip, plain entries written
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/file.h"
#include "engine/io/bytes.h"

namespace mt {

/// An archive that is read. Refused: encryption, other methods than stored and deflated, entries
/// that share bytes.
class ZipReader {
 public:
  struct Entry {
    std::string name;
    uint64_t size;
  };
  /// Memory must outlive the reader.
  ZipReader(const void* data, size_t size);
  /// Of a regular file, plain or gzip.
  explicit ZipReader(RegularFile);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }
  /// The bytes of an entry, in order; a wrong checksum is an error at their end. The reader must outlive
  /// them.
  Bytes open(size_t entry) const;
  /// All of them, where they are at most `most`.
  std::string text(size_t entry, size_t most) const;

 private:
  void list(uint64_t file_size);
  struct Archive;
  std::unique_ptr<Archive> archive_;
  std::vector<Entry> entries_;
};

/// An archive that is written, entries as they are, with zip64 where sizes need it.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& out) : out_(out) {}
  /// One entry; its bytes are the pieces one after another.
  void add(const std::string& name, const std::vector<std::string_view>& pieces);
  /// The directory. Nothing is added after it.
  void finish();

 private:
  void write(std::string_view bytes);
  FileWriter& out_;
  uint64_t at_ = 0;
  uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace mt
