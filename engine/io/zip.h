// zip.h -- zip archives: entries read by libzip, plain entries written
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/file.h"
#include "engine/io/bytes.h"

struct zip;  // of libzip

namespace mt {

/// The file itself, or the unpacked bytes of a gzip file.
RegularFile unpacked(RegularFile);

/// Reads an archive. Throws Error for encryption, methods other than stored and deflated, and
/// entries that overlap.
class ZipReader {
 public:
  struct Entry {
    std::string name;
    uint64_t size;
  };
  /// The file may be within gzip.
  explicit ZipReader(RegularFile);
  const std::vector<Entry>& entries() const { return entries_; }
  /// The bytes of an entry, sequentially; a wrong checksum is an error at their end. The reader
  /// must outlive them.
  Bytes open(size_t entry) const;
  /// All bytes of an entry, if they are at most `limit`.
  std::string text(size_t entry, size_t limit) const;

 private:
  void list(uint64_t file_size);
  std::unique_ptr<zip, void (*)(zip*)> archive_;
  std::vector<Entry> entries_;
};

/// Writes an archive with uncompressed entries, and zip64 where sizes need it.
class ZipWriter {
 public:
  explicit ZipWriter(FileWriter& out) : out_(out) {}
  /// Adds an entry; its content is the concatenation of the pieces.
  void add(const std::string& name, const std::vector<std::string_view>& pieces);
  /// Writes the directory. No entry can be added after it.
  void finish();

 private:
  void write(std::string_view bytes);
  FileWriter& out_;
  uint64_t at_ = 0;
  uint64_t count_ = 0;
  std::string directory_;
};

}  // namespace mt
