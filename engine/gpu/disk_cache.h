// disk_cache.h -- an on-disk cache of compiled code, whose keys are the complete inputs
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mt {

/// A folder of entries, each a key and a value of arbitrary bytes. It never reports errors: an
/// entry that cannot be read or written, is corrupt, or has another key, is treated as missing.
class DiskCache {
 public:
  /// `folder` need not exist; an empty one disables the cache. If the entries have more than
  /// `limit` bytes in total, the least recently used ones are deleted.
  explicit DiskCache(std::string folder, int64_t limit = int64_t(256) << 20);

  /// The value that was stored with exactly this key.
  std::optional<std::string> find(std::string_view key) const;
  /// Stores a value; returns whether it succeeded. Readers see the old entry or the new one, whole.
  bool store(std::string_view key, std::string_view value) const;
  /// The file for a key, which may not exist.
  std::string path_of(std::string_view key) const;
  const std::string& folder() const { return folder_; }

 private:
  void sweep() const;
  std::string folder_;
  int64_t limit_;
};

/// The folder of mtorch's compiled code: $MTORCH_CACHE, $XDG_CACHE_HOME/mtorch or ~/.cache/mtorch;
/// MTORCH_CACHE=off disables the cache.
const DiskCache& code_cache();

}  // namespace mt
